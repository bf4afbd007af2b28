// Running sums, products and extremes: a block per line, the last dim of in[0], whose length is i[0].
#include "prelude.cuh"
#include "general.cuh"

using C = CLIKA_C;

template <class T>
CLIKA_INLINE T whole_sum(T a, T b) {
  if constexpr (sizeof(T) == 8 && T(0.5) == T(0)) return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
  else return a + b;
}
template <class T>
CLIKA_INLINE T whole_product(T a, T b) {
  if constexpr (T(0.5) == T(0)) return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
  else return a * b;
}
struct op_cumsum {
  using State = C;
  static CLIKA_INLINE State start() { return C(0); }
  static CLIKA_INLINE State of(C x, i64) { return x; }
  static CLIKA_INLINE State join(State a, State b) { return whole_sum(a, b); }
  static CLIKA_INLINE void result(const General& g, i64 at, State s) { put<C>(g.out[0], at, s); }
};
struct op_cumprod : op_cumsum {
  static CLIKA_INLINE State start() { return C(1); }
  static CLIKA_INLINE State join(State a, State b) { return whole_product(a, b); }
};
struct op_logcumsumexp : op_cumsum {
  static CLIKA_INLINE State start() { return static_cast<C>(-CLIKA_INFINITY); }
  static CLIKA_INLINE State join(State a, State b) {
    if (a != a || b != b) return a + b;
    const State top = a > b ? a : b, low = a > b ? b : a;
    if (isinf(static_cast<double>(top))) return top;  // both -inf, or one +inf
    return static_cast<State>(top + log1p(exp(static_cast<double>(low - top))));
  }
};
// The last among equals, and a NaN stays.
template <bool kLargest>
struct Extreme {
  struct State {
    C value;
    i64 index;
  };
  static CLIKA_INLINE State start() { return {C(0), -1}; }
  static CLIKA_INLINE State of(C x, i64 i) { return {x, i}; }
  static CLIKA_INLINE State join(State a, State b) {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    if (b.value != b.value) return b;
    return a.value == a.value && (kLargest ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
  static CLIKA_INLINE void result(const General& g, i64 at, State s) {
    put<C>(g.out[0], at, s.value);
    put<i64>(g.out[1], at, s.index);
  }
};
struct op_cummax : Extreme<true> {};
struct op_cummin : Extreme<false> {};

using Op = CLIKA_OP;

extern "C" __global__ void __launch_bounds__(256) scan_lines(const __grid_constant__ General g) {
  const i64 n = g.i[0], first = blockIdx.x * n;
  const auto join = [](typename Op::State a, typename Op::State b) { return Op::join(a, b); };
  typename Op::State carry = Op::start();
  for (i64 begin = 0; begin < n; begin += blockDim.x) {
    const i64 i = begin + threadIdx.x;
    typename Op::State all;
    typename Op::State s = i < n ? Op::of(value_of<C>(g.in[0], first + i), i) : Op::start();
    s = scan_block(s, Op::start(), join, &all);
    if (i < n) Op::result(g, first + i, Op::join(carry, s));
    carry = Op::join(carry, all);
  }
}
