// segment_reduce: reductions over segments of a dimension. Inputs lie in one piece.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"
#include "indices.hpp"

enum Reduce { kSum, kMean, kMax, kMin, kProduct };

double start_of(int64_t how) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return how == kMax ? -kInfinity : how == kMin ? kInfinity : how == kProduct ? 1 : 0;
}
double joined(int64_t how, double a, double x) {
  switch (how) {
    case kMax:
      return a != a || a > x ? a : x;
    case kMin:
      return a != a || a < x ? a : x;
    case kProduct:
      return a * x;
    default:
      return a + x;
  }
}

// Inputs data, lengths?, offsets?; attributes reduce, axis; scalar initial.
template <class C>
int32_t reduce(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const bool by_length = present(call, 1);
  const clika_value& cuts = call->inputs[by_length ? 1 : 2];
  const int64_t how = attr_int(call, 0, kSum);
  const int32_t axis = front_of(attr_int(call, 1, 0), in);
  const bool given = call->n_scalars > 0 && !call->scalars[0].is_none;
  const double start = given ? scalar_float(call, 0, 0) : start_of(how);
  int64_t rows = 1;
  int64_t inner = 1;
  for (int32_t d = 0; d < axis; ++d) rows *= in.shape[d];
  for (int32_t d = axis + 1; d < in.rank; ++d) inner *= in.shape[d];
  const int64_t size = in.shape[axis];
  const int64_t segments = out.shape[axis];
  const int64_t per_row = cuts.shape[axis];
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t begin = 0;
    for (int64_t s = 0; s < segments; ++s) {
      int64_t end = 0;
      if (by_length) {
        const int64_t length = index_at(cuts, row * per_row + s);
        if (length < 0 || length > size - begin) {
          return refuse(call, "segment_reduce: length %lld at segment %lld does not fit the %lld elements left",
                        static_cast<long long>(length), static_cast<long long>(s),
                        static_cast<long long>(size - begin));
        }
        end = begin + length;
      } else {
        begin = index_at(cuts, row * per_row + s);
        end = index_at(cuts, row * per_row + s + 1);
        if (begin < 0 || end < begin || end > size) {
          return refuse(call, "segment_reduce: offsets %lld and %lld do not bound a segment of %lld elements",
                        static_cast<long long>(begin), static_cast<long long>(end), static_cast<long long>(size));
        }
      }
      for (int64_t k = 0; k < inner; ++k) {
        double total = start;
        for (int64_t i = begin; i < end; ++i) {
          C x;
          loader(&x, in.data, (row * size + i) * inner + k, 1, 1);
          total = joined(how, total, static_cast<double>(x));
        }
        if (how == kMean && end > begin) total /= static_cast<double>(end - begin);
        if (how == kMean && end == begin && !given) total = std::numeric_limits<double>::quiet_NaN();
        const C value = static_cast<C>(total);
        storer(&value, out.data, (row * segments + s) * inner + k, 1, 1);
      }
      begin = end;
    }
  }
  return CLIKA_OK;
}
int32_t run_segment_reduce(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? reduce<double>(call) : reduce<float>(call);
}

CLIKA_KERNELS(segments,
              Entry("segment_reduce", run_segment_reduce)
                  .in(FLOATS | F64, I32 | I64)
                  .out(FLOATS | F64)
                  .contiguous())
#include "level_end.hpp"
