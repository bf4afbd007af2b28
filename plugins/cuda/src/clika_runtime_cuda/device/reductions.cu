// Folds over any dims, in an order that depends on the shape alone. One module per operator (CLIKA_OP) and compute type
// (CLIKA_C). Sums of floats are carried in double.
#include "prelude.cuh"

template <class C>
struct Carry {
  using type = C;
};
template <>
struct Carry<float> {
  using type = double;
};
template <class C>
using CarryOf = typename Carry<C>::type;
template <class C>
constexpr bool kWhole = false;
template <>
constexpr bool kWhole<i64> = true;
template <>
constexpr bool kWhole<u64> = true;

template <class C>
CLIKA_INLINE C plus(C a, C b) {
  if constexpr (kWhole<C>) return static_cast<C>(static_cast<u64>(a) + static_cast<u64>(b));
  else return a + b;
}
template <class C>
CLIKA_INLINE C times(C a, C b) {
  if constexpr (kWhole<C>) return static_cast<C>(static_cast<u64>(a) * static_cast<u64>(b));
  else return a * b;
}

// An operator: its state, the state of nothing, one more element (x, at index i), two states in order, the result.
template <class C>
struct fold_sum {
  using State = CarryOf<C>;
  static CLIKA_INLINE State start() { return State{}; }
  static CLIKA_INLINE State fold(State s, C x, i64, double) { return plus(s, static_cast<State>(x)); }
  static CLIKA_INLINE State join(State a, State b) { return plus(a, b); }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) { put(r.out, r.out_dtype, at, s); }
  template <class T>
  static CLIKA_INLINE void put(void* out, int dtype, i64 at, T x) {
    store(static_cast<char*>(out) + at * bytes_of(dtype), dtype, x);
  }
};
template <class C>
struct fold_nansum : fold_sum<C> {
  using State = CarryOf<C>;
  static CLIKA_INLINE State fold(State s, C x, i64, double) { return x == x ? plus(s, static_cast<State>(x)) : s; }
};
template <class C>
struct fold_mean : fold_sum<C> {
  using State = CarryOf<C>;
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) {
    fold_sum<C>::put(r.out, r.out_dtype, at, s / static_cast<State>(r.n));
  }
};
template <class C>
struct fold_nanmean {
  struct State {
    double sum, count;
  };
  static CLIKA_INLINE State start() { return {0.0, 0.0}; }
  static CLIKA_INLINE State fold(State s, C x, i64, double) {
    return x == x ? State{s.sum + static_cast<double>(x), s.count + 1.0} : s;
  }
  static CLIKA_INLINE State join(State a, State b) { return {a.sum + b.sum, a.count + b.count}; }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) {
    fold_sum<C>::put(r.out, r.out_dtype, at, s.sum / s.count);
  }
};
template <class C>
struct fold_prod : fold_sum<C> {
  using State = CarryOf<C>;
  static CLIKA_INLINE State start() { return State(1); }
  static CLIKA_INLINE State fold(State s, C x, i64, double) { return times(s, static_cast<State>(x)); }
  static CLIKA_INLINE State join(State a, State b) { return times(a, b); }
};

// The place and the value of an extremum; the first NaN wins, then the first of equals. Index -1: nothing yet.
template <class C, bool kLargest>
struct Extremum {
  struct State {
    C value;
    i64 index;
  };
  static CLIKA_INLINE State start() { return {C{}, -1}; }
  static CLIKA_INLINE State join(State a, State b) {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan || b_nan) {
      if (a_nan && b_nan) return a.index < b.index ? a : b;
      return a_nan ? a : b;
    }
    if (a.value == b.value) return a.index < b.index ? a : b;
    return (kLargest ? a.value > b.value : a.value < b.value) ? a : b;
  }
  static CLIKA_INLINE State fold(State s, C x, i64 i, double) { return join(s, {x, i}); }
};
template <class C>
struct fold_amax : Extremum<C, true> {
  static CLIKA_INLINE void result(typename Extremum<C, true>::State s, const Reduction& r, i64 at) {
    fold_sum<C>::put(r.out, r.out_dtype, at, s.value);
  }
};
template <class C>
struct fold_amin : Extremum<C, false> {
  static CLIKA_INLINE void result(typename Extremum<C, false>::State s, const Reduction& r, i64 at) {
    fold_sum<C>::put(r.out, r.out_dtype, at, s.value);
  }
};
template <class C>
struct fold_argmax : Extremum<C, true> {
  static CLIKA_INLINE void result(typename Extremum<C, true>::State s, const Reduction& r, i64 at) {
    fold_sum<i64>::put(r.out, r.out_dtype, at, s.index);
  }
};
template <class C>
struct fold_argmin : Extremum<C, false> {
  static CLIKA_INLINE void result(typename Extremum<C, false>::State s, const Reduction& r, i64 at) {
    fold_sum<i64>::put(r.out, r.out_dtype, at, s.index);
  }
};
template <class C>
struct fold_aminmax {
  struct State {
    typename Extremum<C, false>::State low;
    typename Extremum<C, true>::State high;
  };
  static CLIKA_INLINE State start() { return {Extremum<C, false>::start(), Extremum<C, true>::start()}; }
  static CLIKA_INLINE State fold(State s, C x, i64 i, double f) {
    return {Extremum<C, false>::fold(s.low, x, i, f), Extremum<C, true>::fold(s.high, x, i, f)};
  }
  static CLIKA_INLINE State join(State a, State b) {
    return {Extremum<C, false>::join(a.low, b.low), Extremum<C, true>::join(a.high, b.high)};
  }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) {
    fold_sum<C>::put(r.out, r.out_dtype, at, s.low.value);
    fold_sum<C>::put(r.out2, r.out_dtype, at, s.high.value);
  }
};

// What is not zero.
template <class C>
struct fold_count_nonzero {
  using State = i64;
  static CLIKA_INLINE State start() { return 0; }
  static CLIKA_INLINE State fold(State s, C x, i64, double) { return s + (x != C{}); }
  static CLIKA_INLINE State join(State a, State b) { return a + b; }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) { fold_sum<i64>::put(r.out, r.out_dtype, at, s); }
};
template <class C>
struct fold_any : fold_count_nonzero<C> {
  static CLIKA_INLINE void result(i64 s, const Reduction& r, i64 at) {
    fold_sum<i64>::put(r.out, r.out_dtype, at, static_cast<i64>(s != 0));
  }
};
template <class C>
struct fold_all : fold_count_nonzero<C> {
  static CLIKA_INLINE void result(i64 s, const Reduction& r, i64 at) {
    fold_sum<i64>::put(r.out, r.out_dtype, at, static_cast<i64>(s == r.n));
  }
};

// Count, mean, and the sum of squared distances from it.
template <class C, bool kRoot, bool kMean>
struct Spread {
  struct State {
    double count, mean, squares;
  };
  static CLIKA_INLINE State start() { return {0.0, 0.0, 0.0}; }
  static CLIKA_INLINE State fold(State s, C x, i64, double) {
    const double count = s.count + 1.0;
    const double gap = static_cast<double>(x) - s.mean;
    const double mean = s.mean + gap / count;
    return {count, mean, s.squares + gap * (static_cast<double>(x) - mean)};
  }
  static CLIKA_INLINE State join(State a, State b) {
    if (a.count == 0.0) return b;
    if (b.count == 0.0) return a;
    const double count = a.count + b.count, gap = b.mean - a.mean;
    return {count, a.mean + gap * (b.count / count), a.squares + b.squares + gap * gap * (a.count * b.count / count)};
  }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) {
    const double divisor = s.count - r.f;
    const double nothing = static_cast<double>(CLIKA_NAN);
    double value = s.squares / (divisor > 0.0 ? divisor : 0.0);
    if (r.n == 0) value = nothing;
    fold_sum<C>::put(r.out, r.out_dtype, at, kRoot ? sqrt(value) : value);
    if (kMean) fold_sum<C>::put(r.out2, r.out_dtype, at, r.n == 0 ? nothing : s.mean);
  }
};
template <class C>
struct fold_var : Spread<C, false, false> {};
template <class C>
struct fold_std : Spread<C, true, false> {};
template <class C>
struct fold_var_mean : Spread<C, false, true> {};
template <class C>
struct fold_std_mean : Spread<C, true, true> {};

// The largest element so far, and the sum of e^(x - it).
template <class C>
struct fold_logsumexp {
  struct State {
    double top, sum;
  };
  static CLIKA_INLINE State start() { return {-static_cast<double>(CLIKA_INFINITY), 0.0}; }
  static CLIKA_INLINE State join(State a, State b) {
    if (a.top != a.top || b.top != b.top) return {static_cast<double>(CLIKA_NAN), 0.0};
    const double top = a.top > b.top ? a.top : b.top;
    if (isinf(top)) return {top, top > 0.0 ? 1.0 : 0.0};
    return {top, a.sum * exp(a.top - top) + b.sum * exp(b.top - top)};
  }
  static CLIKA_INLINE State fold(State s, C x, i64, double) { return join(s, {static_cast<double>(x), 1.0}); }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) {
    fold_sum<C>::put(r.out, r.out_dtype, at, isinf(s.top) ? s.top : s.top + log(s.sum));
  }
};

// The p-norm; the number of a fold is p.
template <class C>
struct fold_vector_norm {
  enum { kNothing, kSum, kLargest, kSmallest };
  struct State {
    double value;
    i64 kind;
  };
  static CLIKA_INLINE State start() { return {0.0, kNothing}; }
  static CLIKA_INLINE State join(State a, State b) {
    if (a.kind == kNothing) return b;
    if (b.kind == kNothing) return a;
    if (a.kind == kSum) return {a.value + b.value, kSum};
    if (a.value != a.value) return a;
    const bool second = b.value != b.value || (a.kind == kLargest ? b.value > a.value : b.value < a.value);
    return second ? b : a;
  }
  static CLIKA_INLINE State fold(State s, C x, i64, double p) {
    const double a = fabs(static_cast<double>(x));
    if (isinf(p)) return join(s, {a, p > 0.0 ? kLargest : kSmallest});
    const double term = p == 2.0 ? a * a : p == 1.0 ? a : p == 0.0 ? (a != 0.0 ? 1.0 : 0.0) : pow(a, p);
    return join(s, {term, kSum});
  }
  static CLIKA_INLINE void result(State s, const Reduction& r, i64 at) {
    const double p = r.f;
    double value = s.value;
    if (s.kind == kNothing && p < 0.0) value = static_cast<double>(CLIKA_INFINITY);
    else if (p == 2.0) value = sqrt(value);
    else if (p != 0.0 && p != 1.0 && !isinf(p)) value = pow(value, 1.0 / p);
    fold_sum<C>::put(r.out, r.out_dtype, at, value);
  }
};

using Op = CLIKA_OP<CLIKA_C>;
using State = typename Op::State;

// Elements [begin, end) of result `at`, every `step`th from `first` on.
CLIKA_INLINE State folded(const Reduction& r, i64 at, i64 begin, i64 end, i64 step) {
  const i64 base = offset_of<i64>(at, r.kept_rank, r.kept_shape, r.kept_strides);
  const int bytes = bytes_of(r.in_dtype);
  State s = Op::start();
  for (i64 i = begin; i < end; i += step) {
    const i64 offset = base + (r.gone_rank == 1 ? i * r.gone_strides[0]
                                                : offset_of<i64>(i, r.gone_rank, r.gone_shape, r.gone_strides));
    s = Op::fold(s, load<CLIKA_C>(static_cast<const char*>(r.in) + offset * bytes, r.in_dtype), i, r.f);
  }
  return s;
}
CLIKA_INLINE void deliver(const Reduction& r, i64 at, i64 split, State s) {
  if (r.splits == 1) {
    Op::result(s, r, at);
  } else {
    static_cast<State*>(r.parts)[at * r.splits + split] = s;
  }
}

// A block per result and split: elements that lie side by side.
extern "C" __global__ void by_block(const __grid_constant__ Reduction r) {
  const i64 each = (r.n + r.splits - 1) / r.splits;
  const i64 begin = blockIdx.y * each;
  const i64 end = begin + each < r.n ? begin + each : r.n;
  State s = folded(r, blockIdx.x, begin + threadIdx.x, end, blockDim.x);
  s = over_block(s, Op::start(), [](State a, State b) { return Op::join(a, b); });
  if (threadIdx.x == 0) deliver(r, blockIdx.x, blockIdx.y, s);
}
// A thread per result and split: results that lie side by side, or few elements.
extern "C" __global__ void by_thread(const __grid_constant__ Reduction r) {
  const i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= r.results) return;
  const i64 each = (r.n + r.splits - 1) / r.splits;
  const i64 begin = blockIdx.y * each;
  const i64 end = begin + each < r.n ? begin + each : r.n;
  deliver(r, at, blockIdx.y, folded(r, at, begin, end, 1));
}
// The splits of a result, in order.
extern "C" __global__ void join_parts(const __grid_constant__ Reduction r) {
  const i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= r.results) return;
  const State* parts = static_cast<const State*>(r.parts) + at * r.splits;
  State s = parts[0];
  for (i64 i = 1; i < r.splits; ++i) s = Op::join(s, parts[i]);
  Op::result(s, r, at);
}
