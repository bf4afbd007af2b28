// Comparisons of two operands in one dtype, with broadcasting; the result is bool.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"

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
struct IsFinite {
  template <class T>
  static bool apply(T a) {
    return a == a && !IsInf::apply(a);
  }
};
struct IsPosInf {
  template <class T>
  static bool apply(T a) {
    return a > T{0} && IsInf::apply(a);
  }
};
struct IsNegInf {
  template <class T>
  static bool apply(T a) {
    return a < T{0} && IsInf::apply(a);
  }
};
struct IsReal {
  template <class T>
  static bool apply(T) {
    return true;
  }
};
struct SignBit {
  template <class T>
  static bool apply(T a) {
    if constexpr (std::is_integral<T>::value) {
      return a < T{0};
    } else {
      return std::signbit(a);
    }
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

// |a - b| <= atol + |rtol b|, in double; integers of more than 53 bits are subtracted before they are
// rounded. Numbers: rtol, atol; i[2]: whether NaN is close to NaN.
struct IsClose {
  template <class T>
  static T apply(T a, T b, const Numbers& k) {
    if (a == b) return T{1};
    if constexpr (!std::is_integral<T>::value) {
      if (a != a || b != b) return a != a && b != b && k.i[2] != 0 ? T{1} : T{0};
      if (IsInf::apply(a) || IsInf::apply(b)) return T{0};
    }
    const double gap = std::is_integral<T>::value
                           ? static_cast<double>(static_cast<uint64_t>(a > b ? a : b) -
                                                 static_cast<uint64_t>(a > b ? b : a))
                           : std::fabs(static_cast<double>(a) - static_cast<double>(b));
    return static_cast<T>(gap <= k.f[1] + std::fabs(k.f[0] * static_cast<double>(b)));
  }
};
template <class C>
int32_t close(const clika_call* call) {
  Numbers numbers = numbers_of(call);
  numbers.i[2] = attr_int(call, 0, 0);
  return drive_each<C, Own<C>>(call, {&call->inputs[0], &call->inputs[1]}, each_tile<IsClose, C, 2>, numbers);
}
int32_t run_isclose(const clika_call* call) {
  const Numbers numbers = numbers_of(call);
  if (!(numbers.f[0] >= 0.0 && numbers.f[1] >= 0.0)) {
    return refuse(call, "isclose: rtol and atol must be >= 0, got %g and %g", numbers.f[0], numbers.f[1]);
  }
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return close<float>(call);
    case kDouble:
      return close<double>(call);
    case kUint:
      return close<uint64_t>(call);
    default:
      return close<int64_t>(call);
  }
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
              over("isfinite", run_unary<IsFinite>),
              over("isposinf", run_unary<IsPosInf>),
              over("isneginf", run_unary<IsNegInf>),
              over("isreal", run_unary<IsReal>),
              over("signbit", run_unary<SignBit>),
              over("isclose", run_isclose),
              over("logical_not", run_unary<Not>))
#include "level_end.hpp"
