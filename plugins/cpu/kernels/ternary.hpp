// Arithmetic of three operands, for every compute type. Included after each.hpp.

// start + weight * (end - start), from the nearer end so that weight 1 gives `end` itself.
struct Lerp {
  template <class T>
  static T apply(T start, T end, T weight, const Numbers&) {
    const T span = end - start;
    return std::fabs(weight) < T(0.5) ? start + weight * span : end - span * (T{1} - weight);
  }
};
// Numbers: value.
struct Addcmul {
  template <class T>
  static T apply(T x, T a, T b, const Numbers& k) {
    if constexpr (std::is_integral<T>::value) {
      const uint64_t value = static_cast<uint64_t>(k.i[0]);
      const uint64_t product = value * static_cast<uint64_t>(a) * static_cast<uint64_t>(b);
      return static_cast<T>(static_cast<uint64_t>(x) + product);
    } else {
      return x + static_cast<T>(k.f[0]) * a * b;
    }
  }
};
struct Addcdiv {
  template <class T>
  static T apply(T x, T a, T b, const Numbers& k) {
    return x + static_cast<T>(k.f[0]) * a / b;
  }
};
