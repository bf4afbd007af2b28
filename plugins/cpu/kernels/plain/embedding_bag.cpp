// embedding_bag: sums, means and maxima of rows of a table, in float32 (float64 for itself).
#include "level.hpp"
#include "elementwise.hpp"

enum BagMode { kSum = 0, kMean, kMax };

int64_t whole_number(const clika_value& v, int64_t i) {
  return v.dtype == CLIKA_INT64 ? data_of<int64_t>(v)[i] : data_of<int32_t>(v)[i];
}

template <class C>
int32_t bags(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  const clika_value& ids = call->inputs[1];
  const clika_value* offsets = present(call, 2) ? &call->inputs[2] : nullptr;
  const clika_value* scales = present(call, 3) ? &call->inputs[3] : nullptr;
  clika_value& out = call->outputs[0];
  const int64_t mode = attr_int(call, 0, kMean);
  const int64_t rows = weight.shape[0];
  const int64_t size = weight.shape[1];
  const int64_t count = out.shape[0];
  const int64_t all = elements(ids);
  int64_t padding = attr_int(call, 2, std::numeric_limits<int64_t>::max());
  if (padding < 0) padding += rows;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t id = whole_number(ids, i);
    if (id >= 0 && id < rows) continue;
    return refuse(call, "embedding_bag: id %lld is outside 0 .. %lld", static_cast<long long>(id),
                  static_cast<long long>(rows - 1));
  }
  // Where bag b starts; that of the bag after the last one is the end.
  const auto start = [&](int64_t b) {
    if (offsets == nullptr) return ids.rank == 2 ? b * ids.shape[1] : int64_t{0};
    return b < offsets->shape[0] ? whole_number(*offsets, b) : all;
  };
  for (int64_t b = 0; offsets != nullptr && b < offsets->shape[0]; ++b) {
    if (start(b) >= (b > 0 ? start(b - 1) : 0) && start(b) <= all && (b > 0 || start(0) == 0)) continue;
    return refuse(call, "embedding_bag: offsets[%lld] is %lld; offsets start at 0 and rise to at most %lld",
                  static_cast<long long>(b), static_cast<long long>(start(b)), static_cast<long long>(all));
  }
  if (elements(out) == 0) return CLIKA_OK;
  const LoadTile<C> load = Tiles<C>::loader(weight.dtype);
  const StoreTile<C> store = Tiles<C>::storer(out.dtype);
  parallel(call, count, std::max<int64_t>(1, 8192 / size), [&](int64_t begin, int64_t end, int32_t) {
    C sum[kTile];
    C x[kTile];
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t j = 0; j < size; j += kTile) {
        const int64_t n = std::min(kTile, size - j);
        int64_t seen = 0;
        for (int64_t i = 0; i < n; ++i) sum[i] = C{0};
        for (int64_t k = start(b); k < start(b + 1); ++k) {
          const int64_t id = whole_number(ids, k);
          if (id == padding) continue;
          load(x, weight.data, id * size + j, 1, n);
          C scale = C{1};
          if (scales != nullptr) Tiles<C>::loader(scales->dtype)(&scale, scales->data, k, 1, 1);
          for (int64_t i = 0; i < n; ++i) {
            if (mode != kMax) {
              sum[i] += x[i] * scale;
            } else if (seen == 0 || x[i] > sum[i] || x[i] != x[i]) {
              sum[i] = x[i];
            }
          }
          ++seen;
        }
        for (int64_t i = 0; mode == kMean && seen > 0 && i < n; ++i) sum[i] = sum[i] / static_cast<C>(seen);
        store(sum, out.data, b * size + j, 1, n);
      }
    }
  });
  return CLIKA_OK;
}

// weight, ids, offsets?, per_sample_weights?; attrs mode, include_last_offset, padding_idx.
int32_t run(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? bags<double>(call) : bags<float>(call);
}

CLIKA_KERNELS(embedding_bag,
              Entry("embedding_bag", run).in(FLOATS, I32 | I64, I32 | I64, FLOATS).out(FLOATS).contiguous(),
              Entry("embedding_bag", run).in(F64, I32 | I64, I32 | I64, F64).out(F64).contiguous())
#include "level_end.hpp"
