// A vector of float (`vf`, W lanes) and of int32 (`vi`) for the level. Included by level.hpp inside the
// level's namespace, so it has no namespace of its own. Every operation is lane by lane and every reduction
// has one fixed order: the same input gives the same bits wherever it stands in a row or a tile.

#if CLIKA_X86 && CLIKA_LEVEL == 2
constexpr int W = 16;
#elif CLIKA_X86 && CLIKA_LEVEL == 1
constexpr int W = 8;
#else
constexpr int W = 4;  // SSE2 and NEON registers
#endif

typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
typedef uint32_t vu __attribute__((vector_size(4 * W)));
typedef uint16_t vh __attribute__((vector_size(2 * W)));  // W halves: the bits of float16 or bfloat16
// The same without alignment, for loads and stores.
typedef float vf_any __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef uint16_t vh_any __attribute__((vector_size(2 * W), aligned(2), may_alias));

// Storage types of 16 bits. Plain structs, so that overloads can tell them apart.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

// ------------------------------------------------------------------ scalar conversions
CLIKA_INLINE uint32_t bits_of(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
CLIKA_INLINE float float_of(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
CLIKA_INLINE float to_float(float x) { return x; }
CLIKA_INLINE float to_float(bf16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }
inline float to_float(f16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u)
    return float_of(sign | 0x7f800000u | ((rest & 0x3ffu) << 13) | (rest > 0x7c00u ? 0x400000u : 0u));
  if (rest >= 0x400u) return float_of(sign | ((rest << 13) + 0x38000000u));
  const float small = static_cast<float>(rest) * 5.9604644775390625e-8f;  // 2^-24, exact
  return float_of(sign | bits_of(small));
}
CLIKA_INLINE bf16 to_bf16(float x) {
  const uint32_t u = bits_of(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return {static_cast<uint16_t>(nan ? ((u >> 16) | 0x40u) : rounded)};
}
inline f16 to_f16(float x) {
  const uint32_t u = bits_of(x);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu))};
  if (a >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds past 65504
  if (a < 0x38800000u) {  // subnormal: the sum rounds at 2^-24, ties to even
    const float shifted = float_of(a) + 0.5f;
    return {static_cast<uint16_t>(sign | (bits_of(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}
CLIKA_INLINE void from_float(float x, float* out) { *out = x; }
CLIKA_INLINE void from_float(float x, bf16* out) { *out = to_bf16(x); }
CLIKA_INLINE void from_float(float x, f16* out) { *out = to_f16(x); }

// ------------------------------------------------------------------ making, loading, storing
CLIKA_INLINE vf splat(float x) { return x - vf{}; }
CLIKA_INLINE vi splat_int(int32_t x) { return x - vi{}; }
CLIKA_INLINE vf zero() { return vf{}; }
CLIKA_INLINE vf as_float(vi x) { return reinterpret_cast<vf>(x); }
CLIKA_INLINE vi as_int(vf x) { return reinterpret_cast<vi>(x); }

CLIKA_INLINE vf load(const float* p) { return *reinterpret_cast<const vf_any*>(p); }
CLIKA_INLINE void store(float* p, vf x) { *reinterpret_cast<vf_any*>(p) = x; }

CLIKA_INLINE vf widen_bf16(vh h) { return reinterpret_cast<vf>(__builtin_convertvector(h, vu) << 16); }
#if CLIKA_ARM && CLIKA_LEVEL == 2
CLIKA_INLINE vh narrow_bf16(vf x) {
  const vh rounded = (vh)vcvt_bf16_f32((float32x4_t)x);
  // The instruction's NaN is not the one that the other levels store.
  const vh quiet = __builtin_convertvector((reinterpret_cast<vu>(x) >> 16) | 0x40u, vh);
  const vh number = (vh)vmovn_u32((uint32x4_t)(x == x));
  return (rounded & number) | (quiet & ~number);
}
#else
CLIKA_INLINE vh narrow_bf16(vf x) {
  const vu u = reinterpret_cast<vu>(x);
  const vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const vu quiet = (u >> 16) | 0x40u;
  return __builtin_convertvector(x == x ? rounded : quiet, vh);
}
#endif
CLIKA_INLINE vf load(const bf16* p) { return widen_bf16(*reinterpret_cast<const vh_any*>(p)); }
CLIKA_INLINE void store(bf16* p, vf x) { *reinterpret_cast<vh_any*>(p) = narrow_bf16(x); }

#if CLIKA_X86 && CLIKA_LEVEL == 2
// The plain forms pass an undefined vector for the lanes that no mask leaves out, and the compiler warns of it.
constexpr __mmask16 kEveryLane = 0xffff;
CLIKA_INLINE vf load(const f16* p) {
  return (vf)_mm512_maskz_cvtph_ps(kEveryLane, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
CLIKA_INLINE void store(f16* p, vf x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(kEveryLane, (__m512)x, _MM_FROUND_TO_NEAREST_INT));
}
#elif CLIKA_X86 && CLIKA_LEVEL == 1
CLIKA_INLINE vf load(const f16* p) {
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
CLIKA_INLINE void store(f16* p, vf x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}
#elif CLIKA_ARM && CLIKA_LEVEL >= 1
CLIKA_INLINE vf load(const f16* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
  return (vf)vcvt_f32_f16(vreinterpret_f16_u16(bits));
}
CLIKA_INLINE void store(f16* p, vf x) {
  vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}
#else
CLIKA_INLINE vf load(const f16* p) {
  vf x = {};
  for (int i = 0; i < W; ++i) x[i] = to_float(p[i]);
  return x;
}
CLIKA_INLINE void store(f16* p, vf x) {
  for (int i = 0; i < W; ++i) p[i] = to_f16(x[i]);
}
#endif

// The first n lanes (n <= W); the others are zero and are not touched in memory.
#if CLIKA_X86 && CLIKA_LEVEL == 2
CLIKA_INLINE __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
CLIKA_INLINE vf load_partial(const float* p, int64_t n) { return (vf)_mm512_maskz_loadu_ps(first_lanes(n), p); }
CLIKA_INLINE void store_partial(float* p, vf x, int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), (__m512)x);
}
#endif
template <class T>
CLIKA_INLINE vf load_partial(const T* p, int64_t n) {
  T part[W] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
}
template <class T>
CLIKA_INLINE void store_partial(T* p, vf x, int64_t n) {
  T part[W];
  store(part, x);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}

// ------------------------------------------------------------------ arithmetic
// a * b + c: fused where the level has it. Products and sums elsewhere are never contracted.
CLIKA_INLINE vf fma(vf a, vf b, vf c) {
#if CLIKA_X86 && CLIKA_LEVEL == 2
  return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif CLIKA_ARM && CLIKA_LEVEL >= 1
  return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
// The same for one float, with the same rounding as a lane of fma().
CLIKA_INLINE float fma1(float a, float b, float c) {
#if (CLIKA_X86 || CLIKA_ARM) && CLIKA_LEVEL >= 1
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
CLIKA_INLINE vf select(vi mask, vf yes, vf no) { return mask ? yes : no; }
CLIKA_INLINE vf vmax(vf a, vf b) { return a > b ? a : b; }  // b where one is NaN
CLIKA_INLINE vf vmin(vf a, vf b) { return a < b ? a : b; }
CLIKA_INLINE vf vabs(vf x) { return as_float(as_int(x) & 0x7fffffff); }
CLIKA_INLINE vf vsqrt(vf x) {
#if CLIKA_X86 && CLIKA_LEVEL == 2
  return (vf)_mm512_maskz_sqrt_ps(kEveryLane, (__m512)x);
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  return (vf)_mm256_sqrt_ps((__m256)x);
#elif CLIKA_ARM && CLIKA_LEVEL >= 1
  return (vf)vsqrtq_f32((float32x4_t)x);
#else
  for (int i = 0; i < W; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
// To the nearest integer, ties to even, for |x| < 2^22 (elsewhere it is not exact).
CLIKA_INLINE vf round_small(vf x) {
  const vf magic = splat(12582912.0f);  // 1.5 * 2^23
  return (x + magic) - magic;
}

// ------------------------------------------------------------------ reductions, one fixed tree
#if CLIKA_X86 && CLIKA_LEVEL >= 1
#if CLIKA_LEVEL == 2
#define CLIKA_EIGHT(combine, x) \
  _mm256_##combine##_ps(_mm512_castps512_ps256((__m512)x), _mm512_maskz_extractf32x8_ps(0xff, (__m512)x, 1))
#else
#define CLIKA_EIGHT(combine, x) (__m256) x
#endif
// Lane i meets lane i + 8, then i + 4, i + 2, i + 1. Where a lane is no number, max and min give the second one.
#define CLIKA_HALVES(name, combine)                                                               \
  CLIKA_INLINE float name(vf x) {                                                                 \
    const __m256 eight = CLIKA_EIGHT(combine, x);                                                 \
    const __m128 four =                                                                           \
        _mm_##combine##_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));       \
    const __m128 two = _mm_##combine##_ps(four, _mm_movehl_ps(four, four));                       \
    return _mm_cvtss_f32(_mm_##combine##_ss(two, _mm_shuffle_ps(two, two, 1)));                   \
  }
CLIKA_HALVES(reduce_add, add)
CLIKA_HALVES(reduce_max, max)
CLIKA_HALVES(reduce_min, min)
#undef CLIKA_EIGHT
#else
#define CLIKA_HALVES(name, combine)                  \
  CLIKA_INLINE float name(vf x) {                    \
    float part[W];                                   \
    store(part, x);                                  \
    for (int width = W / 2; width > 0; width /= 2) { \
      for (int i = 0; i < width; ++i) {              \
        const float a = part[i];                     \
        const float b = part[i + width];             \
        part[i] = combine;                           \
      }                                              \
    }                                                \
    return part[0];                                  \
  }
CLIKA_HALVES(reduce_add, a + b)
CLIKA_HALVES(reduce_max, a > b ? a : b)
CLIKA_HALVES(reduce_min, a < b ? a : b)
#endif
#undef CLIKA_HALVES

// ------------------------------------------------------------------ exp
// exp(x) within 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial of degree 6 in r, times 2^n in two
// steps so that subnormal results come out. NaN stays NaN, overflow gives infinity.
CLIKA_INLINE vf vexp(vf x) {
  const vf clamped = vmin(splat(89.0f), vmax(splat(-104.0f), x));
  const vf n = round_small(clamped * splat(1.44269504f));
  vf r = fma(n, splat(-0.693145751953125f), clamped);  // the high bits of ln 2: n times them is exact
  r = fma(n, splat(-1.42860677e-6f), r);
  vf p = splat(0.00139262034f);
  p = fma(p, r, splat(0.00836319488f));
  p = fma(p, r, splat(0.0416665545f));
  p = fma(p, r, splat(0.166665769f));
  p = fma(p, r, splat(5.0e-1f));
  p = fma(p, r * r, r) + 1.0f;
#if CLIKA_X86 && CLIKA_LEVEL == 2
  return static_cast<vf>(_mm512_scalef_ps(static_cast<__m512>(p), static_cast<__m512>(n)));
#else
  const vi whole = __builtin_convertvector(n, vi);
  const vi half = whole >> 1;  // 2^128 is no float: two steps, of which the last one rounds
  const vf first = as_float((half + 127) << 23);
  const vf second = as_float((whole - half + 127) << 23);
  return p * first * second;  // a NaN came through all of it
#endif
}
// exp(x) for x <= 0, as softmax wants it: 0 below -87, so that no subnormal number (slow) ever appears.
CLIKA_INLINE vf vexp_negative(vf x) {
  const vf clamped = vmax(splat(-87.0f), x);
  const vf n = round_small(clamped * splat(1.44269504f));
  vf r = fma(n, splat(-0.693145751953125f), clamped);
  r = fma(n, splat(-1.42860677e-6f), r);
  vf p = splat(0.00139262034f);
  p = fma(p, r, splat(0.00836319488f));
  p = fma(p, r, splat(0.0416665545f));
  p = fma(p, r, splat(0.166665769f));
  p = fma(p, r, splat(5.0e-1f));
  p = fma(p, r * r, r) + 1.0f;
  const vi whole = __builtin_convertvector(n, vi);
  const vf result = p * as_float((whole + 127) << 23);
  return select(x < -87.0f, zero(), select(x == x, result, x));
}
CLIKA_INLINE float exp_negative(float x) { return vexp_negative(splat(x))[0]; }
CLIKA_INLINE float exp1(float x) { return vexp(splat(x))[0]; }
CLIKA_INLINE vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }
CLIKA_INLINE vf vsilu(vf x) { return x / (1.0f + vexp(-x)); }

// ------------------------------------------------------------------ dtypes at run time
// Calls f with a value of the C++ type of a float dtype; false for any other dtype.
template <class F>
CLIKA_INLINE bool visit_float(int32_t dtype, F&& f) {
  switch (dtype) {
    case CLIKA_FLOAT32:
      f(float{});
      return true;
    case CLIKA_BFLOAT16:
      f(bf16{});
      return true;
    case CLIKA_FLOAT16:
      f(f16{});
      return true;
    default:
      return false;
  }
}

template <class T>
CLIKA_INLINE const T* data_of(const clika_value& v) {
  return static_cast<const T*>(v.data);
}
template <class T>
CLIKA_INLINE T* data_of(clika_value& v) {
  return static_cast<T*>(v.data);
}
