// Picking elements: where they are not zero, where a mask is true, by flat positions.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"
#include "truth.hpp"
#include "indices.hpp"

// ------------------------------------------------------------------ truth
// Calls body(i) for every element that is not zero, by its number in row-major order, up to `most` of them.
template <class Body>
void each_true(const clika_value& v, int64_t most, const Body& body) {
  const Walk<1> walk({&v});
  const LoadTile<uint8_t> loader = Tiles<uint8_t>::loader(v.dtype);
  int64_t number = 0;
  int64_t found = 0;
  walk.run(0, walk.outer * walk.length, kTile, [&](const int64_t* at, int64_t n) {
    if (found >= most) return;
    uint8_t truth[kTile];
    loader(truth, v.data, at[0], walk.step[0], n);
    for (int64_t i = 0; i < n && found < most; ++i) {
      if (!truth[i]) continue;
      body(number + i);
      ++found;
    }
    number += n;
  });
}
int64_t count_true(const clika_value& v) {
  int64_t count = 0;
  each_true(v, std::numeric_limits<int64_t>::max(), [&](int64_t) { ++count; });
  return count;
}

// Rows of indices of the first elements that are not zero.
int64_t write_indices(const clika_value& in, int64_t most, int64_t* to) {
  int64_t written = 0;
  each_true(in, most, [&](int64_t number) {
    for (int32_t d = in.rank - 1; d >= 0; --d) {
      to[d] = number % in.shape[d];
      number /= in.shape[d];
    }
    to += in.rank;
    ++written;
  });
  return written;
}

int32_t run_nonzero(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t shape[2] = {count_true(in), in.rank};
  const int32_t status = call->core->allocate_output(call, 0, 2, shape);
  if (status != CLIKA_OK) return status;
  write_indices(in, shape[0], data_of<int64_t>(call->outputs[0]));
  return CLIKA_OK;
}

// Attribute size; scalar fill_value.
int32_t run_nonzero_static(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t size = out.shape[0];
  int64_t* to = data_of<int64_t>(out);
  const int64_t written = write_indices(in, size, to);
  std::fill(to + written * in.rank, to + size * in.rank, scalar_int(call, 0, -1));
  return CLIKA_OK;
}

int32_t run_masked_select(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& mask = call->inputs[1];
  int64_t shape[CLIKA_MAX_RANK];
  const clika_value both = broadcast_of(in, mask, shape);
  const Walk<3> walk({&both, &in, &mask});
  const int64_t n = walk.outer * walk.length;
  const auto each = [&](const auto& body) {
    walk.run(0, n, walk.length, [&](const int64_t* at, int64_t count) {
      const uint8_t* truth = data_of<uint8_t>(mask) + at[2];
      for (int64_t i = 0; i < count; ++i) {
        if (truth[i * walk.step[2]]) body(at[1] + i * walk.step[1]);
      }
    });
  };
  int64_t count = 0;
  each([&](int64_t) { ++count; });
  const int32_t status = call->core->allocate_output(call, 0, 1, &count);
  if (status != CLIKA_OK) return status;
  clika_value& out = call->outputs[0];
  by_size(bytes_of(in.dtype), [&](auto tag) {
    using U = decltype(tag);
    U* to = data_of<U>(out);
    each([&](int64_t at) { *to++ = data_of<U>(in)[at]; });
  });
  return CLIKA_OK;
}

// ------------------------------------------------------------------ flat positions
// out[i] = in.flatten()[index[i]], the index at any strides; the input lies in one piece.
int32_t take(const clika_call* call, const char* op) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  const int64_t size = elements(in);
  int64_t bad = 0;
  bool inside = true;
  by_size(bytes_of(in.dtype), [&](auto tag) {
    using U = decltype(tag);
    U* to = data_of<U>(out);
    inside = each_index(index, size, true, &bad, [&](int64_t k) { *to++ = data_of<U>(in)[k]; });
  });
  return inside ? static_cast<int32_t>(CLIKA_OK) : outside(call, op, bad, size);
}
int32_t run_take(const clika_call* call) { return take(call, "take"); }

// Attribute dim.
int32_t run_take_along_dim(const clika_call* call) {
  if (call->attrs[0].kind == CLIKA_ATTR_NONE) return take(call, "take_along_dim");
  return gather_along(call, "take_along_dim", call->attrs[0].v.i, true);
}

// ------------------------------------------------------------------ one hot
// Attribute num_classes, -1 for as many as the input needs.
int32_t run_one_hot(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t* x = data_of<int64_t>(in);
  const int64_t n = elements(in);
  int64_t classes = attr_int(call, 0, -1);
  if (classes < 0) {
    if (n == 0) return refuse(call, "one_hot: num_classes must be given where input has no elements");
    const int64_t largest = *std::max_element(x, x + n);
    if (largest == std::numeric_limits<int64_t>::max()) return outside(call, "one_hot", largest, largest);
    classes = largest + 1;
    int64_t shape[CLIKA_MAX_RANK];
    std::copy_n(in.shape, in.rank, shape);
    shape[in.rank] = classes;
    for (int64_t i = 0; i < n; ++i) {
      if (x[i] < 0) return outside(call, "one_hot", x[i], classes);
    }
    const int32_t status = call->core->allocate_output(call, 0, in.rank + 1, shape);
    if (status != CLIKA_OK) return status;
  }
  int64_t* out = data_of<int64_t>(call->outputs[0]);
  std::memset(out, 0, static_cast<size_t>(n * classes) * 8);
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] < 0 || x[i] >= classes) return outside(call, "one_hot", x[i], classes);
    out[i * classes + x[i]] = 1;
  }
  return CLIKA_OK;
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;
constexpr uint64_t kIndex = I32 | I64;

CLIKA_KERNELS(selecting,
              Entry("nonzero", run_nonzero).in(kAll).out(I64),
              Entry("nonzero_static", run_nonzero_static).in(kAll).out(I64),
              Entry("masked_select", run_masked_select).in(kAll, BOOL).out(kAll),
              Entry("take", run_take).in(kAll, kIndex).out(kAll).contiguous(),
              Entry("take_along_dim", run_take_along_dim).in(kAll, kIndex).out(kAll).contiguous(),
              Entry("one_hot", run_one_hot).in(I64).out(I64).contiguous())
#include "level_end.hpp"
