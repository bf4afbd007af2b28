// Comparisons of two operands in one dtype, with broadcasting; the result is bool.
#include "level.hpp"
#include "elementwise.hpp"

struct Equal {
  template <class T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  static bool apply(T a, T b) {
    return !(a == b);
  }
};
struct Less {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};
struct IsNan {
  template <class T>
  static bool apply(T a) {
    return a != a;
  }
};
struct IsInf {
  template <class T>
  static bool apply(T a) {
    return std::numeric_limits<T>::has_infinity &&
           (a == std::numeric_limits<T>::infinity() || a == -std::numeric_limits<T>::infinity());
  }
};
struct Not {
  template <class T>
  static bool apply(T a) {
    return a == T{0};
  }
};

template <class Op>
constexpr Functions<BinaryTest> binary_everywhere() {
  Functions<BinaryTest> f;
  f.on_float = binary_test_tile<Op, float>;
  f.on_double = binary_test_tile<Op, double>;
  f.on_int = binary_test_tile<Op, int64_t>;
  f.on_uint = binary_test_tile<Op, uint64_t>;
  return f;
}
template <class Op>
constexpr Functions<UnaryTest> unary_everywhere() {
  Functions<UnaryTest> f;
  f.on_float = unary_test_tile<Op, float>;
  f.on_double = unary_test_tile<Op, double>;
  f.on_int = unary_test_tile<Op, int64_t>;
  f.on_uint = unary_test_tile<Op, uint64_t>;
  return f;
}

template <class Op>
int32_t run_binary(const clika_call* call) {
  static constexpr Functions<BinaryTest> functions = binary_everywhere<Op>();
  return binary_test(call, functions);
}
template <class Op>
int32_t run_unary(const clika_call* call) {
  static constexpr Functions<UnaryTest> functions = unary_everywhere<Op>();
  return unary_test(call, functions);
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS | F64 | INTS | BOOL).out(BOOL);
}

CLIKA_KERNELS(comparison,
              over("eq", run_binary<Equal>),
              over("ne", run_binary<NotEqual>),
              over("lt", run_binary<Less>),
              over("le", run_binary<LessEqual>),
              over("gt", run_binary<Greater>),
              over("ge", run_binary<GreaterEqual>),
              over("isnan", run_unary<IsNan>),
              over("isinf", run_unary<IsInf>),
              over("logical_not", run_unary<Not>))
#include "level_end.hpp"
