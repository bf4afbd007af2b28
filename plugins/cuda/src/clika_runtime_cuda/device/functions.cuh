// The arithmetic of elementwise operators in every compute type. Integers wrap around.
#pragma once

#include "prelude.cuh"

struct Numbers {
  double f[6];
  i64 i[6];
  Reporter reporter;
};

template <class C>
constexpr bool kIsFloat = false;
template <>
constexpr bool kIsFloat<float> = true;
template <>
constexpr bool kIsFloat<double> = true;
template <class C>
constexpr bool kIsSigned = false;
template <>
constexpr bool kIsSigned<i64> = true;

template <class C>
CLIKA_INLINE C plus(C a, C b) {
  if constexpr (kIsFloat<C>) return a + b;
  else return static_cast<C>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <class C>
CLIKA_INLINE C minus(C a, C b) {
  if constexpr (kIsFloat<C>) return a - b;
  else return static_cast<C>(static_cast<u64>(a) - static_cast<u64>(b));
}
template <class C>
CLIKA_INLINE C minus(C, C x, bool) {  // -x, with the sign of a zero turned
  if constexpr (kIsFloat<C>) return -x;
  else return static_cast<C>(u64{0} - static_cast<u64>(x));
}
template <class C>
CLIKA_INLINE C times(C a, C b) {
  if constexpr (kIsFloat<C>) return a * b;
  else return static_cast<C>(static_cast<u64>(a) * static_cast<u64>(b));
}
// The second operand of a sum, times number 0; i[5] says that it is 1. The product is rounded by itself.
template <class C>
CLIKA_INLINE C scaled(const Numbers& k, C b) {
  if (k.i[5] != 0) return b;
  if constexpr (sizeof(C) == 4) return __fmul_rn(static_cast<float>(k.f[0]), b);
  else if constexpr (kIsFloat<C>) return __dmul_rn(k.f[0], b);
  else return times(static_cast<C>(k.i[0]), b);
}
template <class C>
CLIKA_INLINE C absolute(C x) {
  if constexpr (kIsFloat<C>) return fabs(x);
  else if constexpr (kIsSigned<C>) return x < 0 ? static_cast<C>(u64{0} - static_cast<u64>(x)) : x;
  else return x;
}

// ---------------------------------------------------------------- quotients
// A divisor that an integer may be divided by; a zero is reported, and the result there means nothing.
template <class C>
CLIKA_INLINE C safe(C b, const Numbers& k) {
  if (b != C{}) return b;
  report(k.reporter.to, kZeroDivisor, k.reporter.op, 0, 0);
  return C(1);
}
template <class C>
CLIKA_INLINE C quotient(C a, C b) {  // of integers, towards zero
  if constexpr (kIsSigned<C>) {
    if (b == -1) return minus(C{}, a);
  }
  return a / b;
}
template <class C>
CLIKA_INLINE C remainder_of(C a, C b, const Numbers& k) {
  if constexpr (kIsFloat<C>) {
    const C r = fmod(a, b);
    if (r == C{}) return copysign(C{}, a);
    return (r < C{}) != (b < C{}) ? r + b : r;
  } else {
    b = safe(b, k);
    if constexpr (kIsSigned<C>) {
      if (b == -1) return 0;
      const C r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      return a % b;
    }
  }
}
template <class C>
CLIKA_INLINE C floor_quotient(C a, C b, const Numbers& k) {
  if constexpr (kIsFloat<C>) {
    // From the exact remainder, so that a quotient that rounds up to an integer is not one too high.
    if (b == C{}) return a / b;
    const C r = fmod(a, b);
    C q = (a - r) / b;
    if (r != C{} && (r < C{}) != (b < C{})) q -= C(1);
    if (q == C{}) return copysign(C{}, a / b);
    const C down = floor(q);
    return q - down > C(0.5) ? down + C(1) : down;
  } else {
    b = safe(b, k);
    const C q = quotient(a, b);
    if constexpr (kIsSigned<C>) {
      if (b != -1 && a % b != 0 && (a < 0) != (b < 0)) return q - 1;
    }
    return q;
  }
}
template <class C>
CLIKA_INLINE C divided(C a, C b, const Numbers& k) {  // i[0]: 0 exact, 1 towards zero, 2 down
  if (k.i[0] == 2) return floor_quotient(a, b, k);
  if constexpr (kIsFloat<C>) return k.i[0] == 1 ? trunc(a / b) : a / b;
  else return quotient(a, safe(b, k));
}
template <class C>
CLIKA_INLINE C fmod_of(C a, C b, const Numbers& k) {
  if constexpr (kIsFloat<C>) {
    return fmod(a, b);
  } else {
    b = safe(b, k);
    if constexpr (kIsSigned<C>) {
      if (b == -1) return 0;
    }
    return a % b;
  }
}
template <class C>
CLIKA_INLINE C power(C a, C b) {
  if constexpr (kIsFloat<C>) {
    if (b == C(2)) return a * a;
    return pow(a, b);
  } else {
    if constexpr (kIsSigned<C>) {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    }
    C result = 1;
    for (u64 e = static_cast<u64>(b); e != 0; e >>= 1) {
      if (e & 1) result = times(result, a);
      a = times(a, a);
    }
    return result;
  }
}
CLIKA_INLINE u64 divisor(u64 a, u64 b) {
  while (b != 0) {
    const u64 r = a % b;
    a = b;
    b = r;
  }
  return a;
}
template <class C>
CLIKA_INLINE u64 magnitude(C x) {
  return x < C{} ? u64{0} - static_cast<u64>(x) : static_cast<u64>(x);
}
template <class C>
CLIKA_INLINE C multiple(C a, C b) {
  const u64 x = magnitude(a), y = magnitude(b);
  return x == 0 || y == 0 ? C{} : static_cast<C>(x / divisor(x, y) * y);
}

// ---------------------------------------------------------------- order, signs, bits
template <class C>
CLIKA_INLINE C larger(C a, C b) {
  return a != a ? a : (a > b ? a : b);  // b where b is NaN: no comparison with it holds
}
template <class C>
CLIKA_INLINE C smaller(C a, C b) {
  return a != a ? a : (a < b ? a : b);
}
template <class C>
CLIKA_INLINE C bounded(C x, C low, C high) {
  return x < low ? low : x > high ? high : x;
}
template <class C>
CLIKA_INLINE C with_sign(C a, C b) {
  if constexpr (kIsFloat<C>) return copysign(a, b);
  else return a;
}
template <class C>
CLIKA_INLINE bool is_infinite(C x) {
  if constexpr (kIsFloat<C>) return isinf(x);
  else return false;
}
template <class C>
CLIKA_INLINE bool is_signed(C x) {
  if constexpr (kIsFloat<C>) return signbit(x);
  else return x < C{};
}
template <class C>
CLIKA_INLINE C bits_and(C a, C b) {
  if constexpr (kIsFloat<C>) return a;
  else return a & b;
}
template <class C>
CLIKA_INLINE C bits_or(C a, C b) {
  if constexpr (kIsFloat<C>) return a;
  else return a | b;
}
template <class C>
CLIKA_INLINE C bits_xor(C a, C b) {
  if constexpr (kIsFloat<C>) return a;
  else return a ^ b;
}
template <class C>
CLIKA_INLINE C bits_not(C x, const Numbers& k) {  // i[0]: of truth values
  if constexpr (kIsFloat<C>) return x;
  else return k.i[0] != 0 ? static_cast<C>(x == 0) : static_cast<C>(~x);
}
// Shifts by a negative number or by all i[0] bits and more shift everything out.
template <class C>
CLIKA_INLINE C shifted_left(C a, C b, const Numbers& k) {
  if constexpr (kIsFloat<C>) return a;
  else return static_cast<u64>(b) >= static_cast<u64>(k.i[0]) ? C{} : static_cast<C>(static_cast<u64>(a) << static_cast<u64>(b));
}
template <class C>
CLIKA_INLINE C shifted_right(C a, C b, const Numbers& k) {
  if constexpr (kIsFloat<C>) {
    return a;
  } else {
    if (static_cast<u64>(b) >= static_cast<u64>(k.i[0])) return a < C{} ? static_cast<C>(-1) : C{};
    return static_cast<C>(a >> b);
  }
}
template <class C>
CLIKA_INLINE bool close(C a, C b, const Numbers& k) {
  if (a == b) return true;
  if constexpr (kIsFloat<C>) {
    if (a != a || b != b) return a != a && b != b && k.i[2] != 0;
    if (isinf(a) || isinf(b)) return false;
    return fabs(static_cast<double>(a) - static_cast<double>(b)) <= k.f[1] + fabs(k.f[0] * static_cast<double>(b));
  } else {
    const double gap = static_cast<double>(static_cast<u64>(a > b ? a : b) - static_cast<u64>(a > b ? b : a));
    return gap <= k.f[1] + fabs(k.f[0] * static_cast<double>(b));
  }
}

// ---------------------------------------------------------------- rounding
template <class C, class F>
CLIKA_INLINE C rounded(C x, const F& function) {
  if constexpr (kIsFloat<C>) return function(x);
  else return x;
}
// To i[0] decimals; f[0] is their power of ten.
template <class C>
CLIKA_INLINE C rounded_to(C x, const Numbers& k) {
  if constexpr (kIsFloat<C>) {
    if (k.i[0] == 0) return rint(x);
    const C by = static_cast<C>(k.f[0]);
    if (k.i[0] < 0) return rint(x / by) * (isinf(by) ? C(1) : by);
    const C scaled = x * by;
    return isinf(scaled) || scaled != scaled ? x : rint(scaled) / by;
  } else {
    return x;
  }
}
template <class C>
CLIKA_INLINE C finite_or(C x, const Numbers& k) {
  if constexpr (kIsFloat<C>) {
    if (x != x) return static_cast<C>(k.f[0]);
    return isinf(x) ? static_cast<C>(x > C{} ? k.f[1] : k.f[2]) : x;
  } else {
    return x;
  }
}

// ---------------------------------------------------------------- activations
template <class C>
CLIKA_INLINE C sigmoid(C x) {
  return C(1) / (C(1) + exp(-x));
}
template <class C>
CLIKA_INLINE C gelu(C x) {
  return C(0.5) * x * erfc(x * C(-0.7071067811865476));
}
// (1 + tanh u) / 2 is sigmoid(2 u), which does not cancel for negative u.
template <class C>
CLIKA_INLINE C gelu_tanh(C x) {
  return x / (C(1) + exp(C(-1.5957691216057308) * (x + C(0.044715) * x * x * x)));
}
// A gate times another operand: 0 silu, 1 gelu, 2 gelu in its tanh form, as swiglu and geglu compute them.
CLIKA_INLINE float activated(float gate, float other, int activation) {
  if (activation == 0) return gate / (1.0f + exp(-gate)) * other;
  return (activation == 2 ? gelu_tanh(gate) : gelu(gate)) * other;
}
// tanh(ln(1 + e)) with e = e^x is n / (n + 2) with n = e (e + 2).
template <class C>
CLIKA_INLINE C mish(C x) {
  if (x > C(20)) return x;
  const C e = exp(x);
  const C n = e * (e + C(2));
  return x * (n / (n + C(2)));
}
template <class C>
CLIKA_INLINE C softshrunk(C x, C by) {  // x * 0 keeps NaN
  return x > by ? x - by : x < -by ? x + by : x * C{};
}
template <class C>
CLIKA_INLINE C tanhshrunk(C x) {
  // Near 0 the difference cancels: the series of tanh without its first term.
  if (sizeof(C) == 4 && fabs(x) < C(0.3)) {
    const C s = x * x;
    return x * s * (C(1.0 / 3) - s * (C(2.0 / 15) - s * (C(17.0 / 315) - s * (C(62.0 / 2835) - s * C(1382.0 / 155925)))));
  }
  return x - tanh(x);
}
