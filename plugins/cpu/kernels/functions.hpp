// The functions of one tensor, for every compute type. Included after elementwise.hpp and each.hpp.

struct Neg {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral<T>::value) {
      return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
    } else {
      return -x;
    }
  }
};
struct Abs {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral<T>::value) {
      return std::is_signed<T>::value && x < T{0} ? Neg::apply(x) : x;
    } else {
      return std::fabs(x);
    }
  }
};
struct Square {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral<T>::value) {
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
    } else {
      return x * x;
    }
  }
};
struct Relu {
  template <class T>
  static T apply(T x) {
    return x < T{0} ? T{0} : x;  // NaN stays NaN
  }
};
struct Sign {
  template <class T>
  static T apply(T x) {
    return static_cast<T>(static_cast<int>(x > T{0}) - static_cast<int>(x < T{0}));
  }
};

// Rounding leaves integers as they are.
#define CLIKA_ROUNDING(Name, function)            \
  struct Name {                                   \
    template <class T>                            \
    static T apply(T x) {                         \
      if constexpr (std::is_integral<T>::value) { \
        return x;                                 \
      } else {                                    \
        return function(x);                       \
      }                                           \
    }                                             \
  };
CLIKA_ROUNDING(Floor, std::floor)
CLIKA_ROUNDING(Ceil, std::ceil)
CLIKA_ROUNDING(Round, std::nearbyint)
CLIKA_ROUNDING(Trunc, std::trunc)
#undef CLIKA_ROUNDING

#define CLIKA_FUNCTION(Name, expression) \
  struct Name {                          \
    template <class T>                   \
    static T apply(T x) {                \
      return expression;                 \
    }                                    \
  };
CLIKA_FUNCTION(Exp, std::exp(x))
CLIKA_FUNCTION(Exp2, std::exp2(x))
CLIKA_FUNCTION(Expm1, std::expm1(x))
CLIKA_FUNCTION(Log, std::log(x))
CLIKA_FUNCTION(Log2, std::log2(x))
CLIKA_FUNCTION(Log10, std::log10(x))
CLIKA_FUNCTION(Log1p, std::log1p(x))
CLIKA_FUNCTION(Frac, x - std::trunc(x))
CLIKA_FUNCTION(Deg2rad, x * T(0.017453292519943295))
CLIKA_FUNCTION(Rad2deg, x * T(57.295779513082320877))
CLIKA_FUNCTION(Sqrt, std::sqrt(x))
CLIKA_FUNCTION(Rsqrt, T{1} / std::sqrt(x))
CLIKA_FUNCTION(Sin, std::sin(x))
CLIKA_FUNCTION(Cos, std::cos(x))
CLIKA_FUNCTION(Tanh, std::tanh(x))
CLIKA_FUNCTION(Erf, std::erf(x))
CLIKA_FUNCTION(Reciprocal, T{1} / x)
CLIKA_FUNCTION(Sigmoid, T{1} / (T{1} + std::exp(-x)))
CLIKA_FUNCTION(Silu, x / (T{1} + std::exp(-x)))
CLIKA_FUNCTION(Gelu, T(0.5) * x * std::erfc(x * T(-0.7071067811865476)))
// (1 + tanh u) / 2 is sigmoid(2 u), which does not cancel for negative u.
CLIKA_FUNCTION(GeluTanh, x / (T{1} + std::exp(T(-1.5957691216057308) * (x + T(0.044715) * x * x * x))))
#undef CLIKA_FUNCTION

// x rounded to a number of decimals (attribute 0), which is not 0. Where the scaled number is out of range, x
// has no digits there to round.
struct RoundDecimals {
  template <class T>
  static T apply(T x, const Numbers& k) {
    const T power = static_cast<T>(k.f[0]);
    if (k.i[0] < 0) return std::nearbyint(x / power) * (power < std::numeric_limits<T>::max() ? power : T{1});
    const T scaled = x * power;
    return std::fabs(scaled) < std::numeric_limits<T>::max() ? std::nearbyint(scaled) / power : x;
  }
};
template <class C>
int32_t round_decimals(const clika_call* call, int64_t decimals) {
  Numbers numbers;
  numbers.i[0] = decimals;
  numbers.f[0] = std::pow(10.0, std::fabs(static_cast<double>(decimals)));
  return drive_each<C, Own<C>>(call, {&call->inputs[0]}, each_tile<RoundDecimals, C, 1>, numbers);
}
