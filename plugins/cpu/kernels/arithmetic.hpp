// The operations of two operands, for every compute type. Included after elementwise.hpp.

// Wrap-around arithmetic without signed overflow.
template <class T>
struct Unsigned {
  using type = T;
};
template <>
struct Unsigned<int64_t> {
  using type = uint64_t;
};

struct Add {
  template <class T>
  static T apply(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};

template <class T>
T quotient(T a, T b) {  // of integers, towards zero; b is not zero
  if constexpr (std::is_signed<T>::value) {
    if (b == -1) return Sub::apply(T{0}, a);
  }
  return a / b;
}

struct Divide {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      return quotient(a, b);
    } else {
      return a / b;
    }
  }
};
struct DivideTrunc {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      return quotient(a, b);
    } else {
      return std::trunc(a / b);
    }
  }
};
struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      if constexpr (std::is_signed<T>::value) {
        if (b == -1) return 0;
        const T r = a % b;
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
      } else {
        return a % b;
      }
    } else {
      const T r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
  }
};
struct DivideFloor {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      const T q = quotient(a, b);
      if constexpr (std::is_signed<T>::value) {
        if (b != -1 && a % b != 0 && (a < 0) != (b < 0)) return q - 1;
      }
      return q;
    } else {
      // From the exact remainder, so that a quotient that rounds up to an integer is not one too high.
      if (b == 0) return a / b;
      const T r = std::fmod(a, b);
      T q = (a - r) / b;
      if (r != 0 && (r < 0) != (b < 0)) q -= 1;
      if (q == 0) return std::copysign(T{0}, a / b);
      const T down = std::floor(q);
      return q - down > T(0.5) ? down + 1 : down;
    }
  }
};
struct Power {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      if constexpr (std::is_signed<T>::value) {
        if (b < 0) {
          if (a == 1) return 1;
          if (a == -1) return b % 2 == 0 ? 1 : -1;
          return 0;
        }
      }
      T result = 1;
      for (uint64_t e = static_cast<uint64_t>(b); e != 0; e >>= 1) {
        if (e & 1) result = Mul::apply(result, a);
        a = Mul::apply(a, a);
      }
      return result;
    } else {
      return std::pow(a, b);
    }
  }
};
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      return a > b ? a : b;
    } else {
      return a != a ? a : (a > b ? a : b);  // b where b is NaN: no comparison with it holds
    }
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      return a < b ? a : b;
    } else {
      return a != a ? a : (a < b ? a : b);
    }
  }
};

struct Fmod {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral<T>::value) {
      if constexpr (std::is_signed<T>::value) {
        if (b == -1) return 0;
      }
      return a % b;
    } else {
      return std::fmod(a, b);
    }
  }
};
// The larger and the smaller one, where NaN stands for an absent number.
struct Fmax {
  template <class T>
  static T apply(T a, T b) {
    return a > b || b != b ? a : b;
  }
};
struct Fmin {
  template <class T>
  static T apply(T a, T b) {
    return a < b || b != b ? a : b;
  }
};
struct Heaviside {
  template <class T>
  static T apply(T a, T b) {
    return a == T{0} ? b : static_cast<T>(a > T{0});  // 0 for NaN
  }
};
struct Copysign {
  template <class T>
  static T apply(T a, T b) {
    return std::copysign(a, b);
  }
};

// a + alpha * b and a - alpha * b with alpha other than 1.
template <int kSign, class C>
void scaled_tile(const C* a, const C* b, C* out, int64_t n, const Params& params) {
  const C alpha = std::is_integral<C>::value ? static_cast<C>(params.i) : static_cast<C>(params.f);
  for (int64_t i = 0; i < n; ++i) {
    const C scaled = Mul::apply(alpha, b[i]);
    out[i] = kSign > 0 ? Add::apply(a[i], scaled) : Sub::apply(a[i], scaled);
  }
}
