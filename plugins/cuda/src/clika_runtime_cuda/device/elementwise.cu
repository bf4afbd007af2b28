// Functions of one, two or three operands over any strides. One module per operator (CLIKA_OP) and compute type
// (CLIKA_C): float for float32, bfloat16 and float16; double; i64 and u64 for integers and bool.
#include "prelude.cuh"
#include "functions.cuh"
#include "arithmetic.cuh"
#include "elementwise.cuh"
#include "gates.cuh"
#if defined(CLIKA_WIDE)
#include "special.cuh"
#endif

#define CLIKA_X(name, dtypes, result, ...)                                      \
  struct op_##name {                                                            \
    static constexpr int operands = 1;                                          \
    template <class C>                                                          \
    static CLIKA_INLINE C apply(C x, C, C, const Numbers& k) {                  \
      return __VA_ARGS__;                                                       \
    }                                                                           \
  };
CLIKA_UNARY(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, dtypes, result, ...)                                      \
  struct op_##name {                                                            \
    static constexpr int operands = 2;                                          \
    template <class C>                                                          \
    static CLIKA_INLINE C apply(C a, C b, C, const Numbers& k) {                \
      return __VA_ARGS__;                                                       \
    }                                                                           \
  };
CLIKA_ARITHMETIC(CLIKA_X)
CLIKA_GATED(CLIKA_X)
#undef CLIKA_X
#if defined(CLIKA_WIDE)  // in double for every dtype
#define CLIKA_X(name, ...)                                                      \
  struct op_##name {                                                            \
    static constexpr int operands = 1;                                          \
    static CLIKA_INLINE double apply(double x, double, double, const Numbers& k) { return __VA_ARGS__; } \
  };
CLIKA_SPECIAL(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, ...)                                                      \
  struct op_##name {                                                            \
    static constexpr int operands = 2;                                          \
    static CLIKA_INLINE double apply(double a, double b, double, const Numbers& k) { return __VA_ARGS__; } \
  };
CLIKA_SPECIAL_OF_TWO(CLIKA_X)
#undef CLIKA_X
#endif
// A function that needs more than two operands, or stands in no table.
struct op_clamp {  // which bounds there are: numbers 0 and 1
  static constexpr int operands = 3;
  template <class C>
  static CLIKA_INLINE C apply(C x, C low, C high, const Numbers& k) {
    if (k.i[0] != 0) x = larger(x, low);
    return k.i[1] != 0 ? smaller(x, high) : x;
  }
};
struct op_prelu {
  static constexpr int operands = 2;
  template <class C>
  static CLIKA_INLINE C apply(C a, C b, C, const Numbers&) {
    return a > C{} ? a : a * b;
  }
};
struct op_isclose {  // rtol, atol; i[2]: NaN is close to NaN
  static constexpr int operands = 2;
  template <class C>
  static CLIKA_INLINE C apply(C a, C b, C, const Numbers& k) {
    return static_cast<C>(close(a, b, k));
  }
};

// start + weight * (end - start), from the nearer end so that weight 1 gives `end` itself.
struct op_lerp {
  static constexpr int operands = 3;
  template <class C>
  static CLIKA_INLINE C apply(C start, C end, C weight, const Numbers&) {
    const C span = end - start;
    return absolute(weight) < C(0.5) ? start + weight * span : end - span * (C(1) - weight);
  }
};
struct op_addcmul {  // value
  static constexpr int operands = 3;
  template <class C>
  static CLIKA_INLINE C apply(C x, C a, C b, const Numbers& k) {
    if constexpr (kIsFloat<C>) return x + static_cast<C>(k.f[0]) * a * b;
    else return plus(x, times(times(static_cast<C>(k.i[0]), a), b));
  }
};
struct op_addcdiv {
  static constexpr int operands = 3;
  template <class C>
  static CLIKA_INLINE C apply(C x, C a, C b, const Numbers& k) {
    return x + static_cast<C>(k.f[0]) * a / b;
  }
};

using Op = CLIKA_OP;
using Compute = CLIKA_C;

CLIKA_INLINE Numbers numbers_of(const Elementwise& e) {
  Numbers k;
  for (int j = 0; j < 6; ++j) {
    k.f[j] = e.f[j];
    k.i[j] = e.i[j];
  }
  k.reporter = e.reporter;
  return k;
}

// Any dtypes and strides; fewer than 2^31 elements.
extern "C" __global__ void strided(const __grid_constant__ Elementwise e) {
  begin_early();
  const Numbers k = numbers_of(e);
  const u32 n = static_cast<u32>(e.n), step = gridDim.x * blockDim.x;
  for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += step) {
    Compute x[3] = {};
    for (int j = 0; j < Op::operands; ++j) {
      const Operand& in = e.in[j];
      if (in.is_number != 0) {
        x[j] = load<Compute>(&in.number, in.dtype);
      } else if (in.data != nullptr) {
        const i64 offset = offset_of<u32>(at, e.rank, e.shape, in.strides);
        x[j] = load<Compute>(static_cast<const char*>(in.data) + offset * bytes_of(in.dtype), in.dtype);
      }
    }
    const i64 offset = offset_of<u32>(at, e.rank, e.shape, e.out_strides);
    store(static_cast<char*>(e.out) + offset * bytes_of(e.out_dtype), e.out_dtype, Op::apply(x[0], x[1], x[2], k));
  }
}

#if defined(CLIKA_FLAT)
// The function for results of dtype T.
template <class T, class O>
struct For {
  static CLIKA_INLINE float apply(const float (&x)[3], const Numbers& k) { return O::apply(x[0], x[1], x[2], k); }
};
template <class T>
struct For<T, op_swiglu> {
  static CLIKA_INLINE float apply(const float (&x)[3], const Numbers&) { return activated_for<T, 0>(x[0], x[1]); }
};
template <class T>
struct For<T, op_geglu> {
  static CLIKA_INLINE float apply(const float (&x)[3], const Numbers& k) {
    return k.i[0] == 1 ? activated_for<T, 2>(x[0], x[1]) : activated_for<T, 1>(x[0], x[1]);
  }
};

// Operands in one piece and of one dtype, or numbers: 16 bytes at a time.
template <class T>
CLIKA_INLINE void flat(const Elementwise& e) {
  constexpr int kWide = 16 / sizeof(T);
  struct alignas(16) Pack {
    T x[kWide];
  };
  const Numbers k = numbers_of(e);
  const i64 packs = e.n / kWide;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  float number[3] = {};
  for (int j = 0; j < Op::operands; ++j) {
    if (e.in[j].is_number != 0) number[j] = load<float>(&e.in[j].number, e.in[j].dtype);
  }
  for (i64 at = first; at < packs; at += step) {
    Pack in[3];
#pragma unroll
    for (int j = 0; j < Op::operands; ++j) {
      if (e.in[j].is_number == 0 && e.in[j].data != nullptr) in[j] = static_cast<const Pack*>(e.in[j].data)[at];
    }
    Pack out;
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
      float x[3] = {number[0], number[1], number[2]};
#pragma unroll
      for (int j = 0; j < Op::operands; ++j) {
        if (e.in[j].is_number == 0 && e.in[j].data != nullptr) x[j] = to_float(in[j].x[w]);
      }
      out.x[w] = from_float<T>(For<T, Op>::apply(x, k));
    }
    static_cast<Pack*>(e.out)[at] = out;
  }
  for (i64 at = packs * kWide + first; at < e.n; at += step) {
    float x[3] = {number[0], number[1], number[2]};
    for (int j = 0; j < Op::operands; ++j) {
      if (e.in[j].is_number == 0 && e.in[j].data != nullptr) x[j] = to_float(static_cast<const T*>(e.in[j].data)[at]);
    }
    static_cast<T*>(e.out)[at] = from_float<T>(For<T, Op>::apply(x, k));
  }
}
extern "C" __global__ void flat_float32(const __grid_constant__ Elementwise e) { begin_early(); flat<float>(e); }
extern "C" __global__ void flat_bfloat16(const __grid_constant__ Elementwise e) { begin_early(); flat<bf16>(e); }
extern "C" __global__ void flat_float16(const __grid_constant__ Elementwise e) { begin_early(); flat<f16>(e); }
#endif
