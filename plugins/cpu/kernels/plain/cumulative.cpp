// Running sums, products and extremes along a dimension. A line is folded in order, whatever the strides.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"

// What a scan carries: float64 for floats, the type itself for integers, which wrap around.
template <class C>
using CarryOf = typename std::conditional<std::is_same<C, float>::value, double, C>::type;

template <class C>
struct Sum {
  static constexpr CarryOf<C> start() { return 0; }
  static CarryOf<C> step(CarryOf<C> carry, C x) {
    if constexpr (std::is_integral<C>::value) {
      return static_cast<C>(static_cast<uint64_t>(carry) + static_cast<uint64_t>(x));
    } else {
      return carry + static_cast<CarryOf<C>>(x);
    }
  }
};
template <class C>
struct Product {
  static constexpr CarryOf<C> start() { return 1; }
  static CarryOf<C> step(CarryOf<C> carry, C x) {
    if constexpr (std::is_integral<C>::value) {
      return static_cast<C>(static_cast<uint64_t>(carry) * static_cast<uint64_t>(x));
    } else {
      return carry * static_cast<CarryOf<C>>(x);
    }
  }
};
template <class C>
struct LogSumExp {
  static constexpr double start() { return -std::numeric_limits<double>::infinity(); }
  static double step(double carry, C x) {
    const double y = static_cast<double>(x);
    const double top = std::max(carry, y);
    if (carry != carry || y != y) return carry + y;
    if (std::isinf(top)) return top;  // both -inf, or one +inf
    return top + std::log1p(std::exp(std::min(carry, y) - top));
  }
};

// Lines in blocks: those whose elements lie side by side together, so that memory is read in order.
constexpr int64_t kSide = 64;

template <class C, template <class> class Op>
int32_t scan(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t dim = attr_int(call, 0, 0);
  const Lines from(in, dim);
  const Lines to(out, dim);
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const int64_t n = from.length;
  if (n == 0 || from.count == 0) return CLIKA_OK;
  // The lines that lie side by side in the result, whose last dimension is not the one that is scanned.
  const int64_t run = to.rank > 0 && to.step != 1 ? to.shape[to.rank - 1] : 1;
  const int64_t in_step = to.rank > 0 ? from.strides[from.rank - 1] : 0;
  if (run > 1) {
    const int64_t blocks = (run + kSide - 1) / kSide;
    parallel(call, from.count / run * blocks, std::max<int64_t>(1, kParallelFrom / (n * std::min(run, kSide))),
             [&](int64_t begin, int64_t end, int32_t) {
               C x[kSide];
               CarryOf<C> carry[kSide];
               for (int64_t b = begin; b < end; ++b) {
                 const int64_t first = b / blocks * run + b % blocks * kSide;
                 const int64_t width = std::min(kSide, run - b % blocks * kSide);
                 const int64_t at = from.offset(first);
                 const int64_t out_at = to.offset(first);
                 for (int64_t k = 0; k < width; ++k) carry[k] = Op<C>::start();
                 for (int64_t i = 0; i < n; ++i) {
                   loader(x, in.data, at + i * from.step, in_step, width);
                   for (int64_t k = 0; k < width; ++k) {
                     carry[k] = Op<C>::step(carry[k], x[k]);
                     x[k] = static_cast<C>(carry[k]);
                   }
                   storer(x, out.data, out_at + i * to.step, 1, width);
                 }
               }
             });
    return CLIKA_OK;
  }
  parallel(call, from.count, std::max<int64_t>(1, kParallelFrom / n), [&](int64_t begin, int64_t end, int32_t) {
    C x[kTile];
    for (int64_t line = begin; line < end; ++line) {
      const int64_t at = from.offset(line);
      const int64_t out_at = to.offset(line);
      CarryOf<C> carry = Op<C>::start();
      for (int64_t i = 0; i < n; i += kTile) {
        const int64_t count = std::min(kTile, n - i);
        loader(x, in.data, at + i * from.step, from.step, count);
        for (int64_t k = 0; k < count; ++k) {
          carry = Op<C>::step(carry, x[k]);
          x[k] = static_cast<C>(carry);
        }
        storer(x, out.data, out_at + i * to.step, to.step, count);
      }
    }
  });
  return CLIKA_OK;
}

template <template <class> class Op>
int32_t run_sum(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return scan<float, Op>(call);
    case kDouble:
      return scan<double, Op>(call);
    case kInt:
      return scan<int64_t, Op>(call);
    case kUint:
      return scan<uint64_t, Op>(call);
    default:
      return no_compute(call);
  }
}
int32_t run_logcumsumexp(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? scan<double, LogSumExp>(call) : scan<float, LogSumExp>(call);
}

// Values and indices; the last among equals, and a NaN stays.
template <class C, int kSign>
int32_t extremes(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& values = call->outputs[0];
  const int64_t dim = attr_int(call, 0, 0);
  const Lines from(in, dim);
  const Lines to(values, dim);
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(values.dtype);
  const int64_t n = from.length;
  if (n == 0) return CLIKA_OK;
  parallel(call, from.count, std::max<int64_t>(1, kParallelFrom / n), [&](int64_t begin, int64_t end, int32_t) {
    C x[kTile];
    for (int64_t line = begin; line < end; ++line) {
      const int64_t at = from.offset(line);
      const int64_t out_at = to.offset(line);
      int64_t* indices = data_of<int64_t>(call->outputs[1]) + out_at;
      C best{};
      int64_t index = 0;
      for (int64_t i = 0; i < n; i += kTile) {
        const int64_t count = std::min(kTile, n - i);
        loader(x, in.data, at + i * from.step, from.step, count);
        for (int64_t k = 0; k < count; ++k) {
          const bool nan = x[k] != x[k];
          const bool further = best == best && (kSign > 0 ? x[k] >= best : x[k] <= best);
          if (i + k == 0 || nan || further) {
            best = x[k];
            index = i + k;
          }
          x[k] = best;
          indices[(i + k) * to.step] = index;
        }
        storer(x, values.data, out_at + i * to.step, to.step, count);
      }
    }
  });
  return CLIKA_OK;
}
template <int kSign>
int32_t run_extremes(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return extremes<float, kSign>(call);
    case kDouble:
      return extremes<double, kSign>(call);
    case kInt:
      return extremes<int64_t, kSign>(call);
    case kUint:
      return extremes<uint64_t, kSign>(call);
    default:
      return no_compute(call);
  }
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;

CLIKA_KERNELS(cumulative,
              Entry("cumsum", run_sum<Sum>).in(kAll).out(FLOATS | F64 | INTS),
              Entry("cumprod", run_sum<Product>).in(kAll).out(FLOATS | F64 | INTS),
              Entry("logcumsumexp", run_logcumsumexp).in(FLOATS | F64).out(FLOATS | F64),
              Entry("cummax", run_extremes<1>).in(kAll).out(kAll),
              Entry("cummin", run_extremes<-1>).in(kAll).out(kAll))
#include "level_end.hpp"
