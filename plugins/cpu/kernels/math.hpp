// Vector forms of tanh, erf and gelu, each within a few ulp. The polynomials are minimax fits of our own.
// Included after level.hpp.

CLIKA_INLINE vf copy_sign(vf magnitude, vf sign) {
  return as_float((as_int(magnitude) & 0x7fffffff) | (as_int(sign) & static_cast<int32_t>(0x80000000u)));
}

// |x| < 0.6: x + x^3 P(x^2); above: 1 - 2 / (e^(2|x|) + 1).
CLIKA_INLINE vf tanh_near(vf u) {  // P(u)
  vf p = splat(-0.005905868019f);
  p = fma(p, u, splat(0.02080538496f));
  p = fma(p, u, splat(-0.05378668383f));
  p = fma(p, u, splat(0.1333195865f));
  return fma(p, u, splat(-0.3333329856f));
}
CLIKA_INLINE vf vtanh(vf x) {
  const vf a = vabs(x);
  const vf u = x * x;
  const vf small = fma(tanh_near(u) * u, x, x);
  const vf large = 1.0f - 2.0f / (vexp(a + a) + 1.0f);
  return select(a < 0.6f, small, copy_sign(large, x));
}

// x - tanh(x), without cancellation near 0.
CLIKA_INLINE vf vtanhshrink(vf x) {
  const vf u = x * x;
  return select(vabs(x) < 0.6f, -(tanh_near(u) * u) * x, x - vtanh(x));
}

// |x| < 1: x P(x^2).
CLIKA_INLINE vf erf_near(vf x) {
  const vf u = x * x;
  vf p = splat(7.853860734e-05f);
  p = fma(p, u, splat(-0.0008010193706f));
  p = fma(p, u, splat(0.005188327748f));
  p = fma(p, u, splat(-0.02685381286f));
  p = fma(p, u, splat(0.1128358543f));
  p = fma(p, u, splat(-0.3761262596f));
  p = fma(p, u, splat(1.128379107f));
  return x * p;
}
// The complement 1 - erf(z) for z >= 1: e^(-z^2) R(1 / (1 + z/2)), with its own relative accuracy.
CLIKA_INLINE vf erf_far(vf z) {
  const vf t = 1.0f / (1.0f + 0.5f * z);
  vf r = splat(0.0735822022f);
  r = fma(r, t, splat(-0.326561898f));
  r = fma(r, t, splat(0.3703687489f));
  r = fma(r, t, splat(0.03713078797f));
  r = fma(r, t, splat(0.2871079445f));
  r = fma(r, t, splat(0.2751701772f));
  r = fma(r, t, splat(0.2827469707f));
  r = fma(r, t, splat(-2.586921619e-05f));
  return r * vexp(-(z * z));
}
CLIKA_INLINE vf verf(vf x) {
  const vf a = vabs(x);
  const vf far = 1.0f - erf_far(vmin(splat(10.0f), a));
  const vf result = select(a < 1.0f, erf_near(x), copy_sign(far, x));
  return select(x == x, result, x);
}

// x Phi(x). The negative tail comes from the complement, so that nothing cancels there.
CLIKA_INLINE vf vgelu(vf x) {
  const vf z = x * 0.70710678f;
  const vf a = vabs(z);
  const vf tail = 0.5f * erf_far(vmin(splat(10.0f), a));
  const vf phi = select(a < 1.0f, 0.5f * (1.0f + erf_near(z)), select(z < 0.0f, tail, 1.0f - tail));
  return select(x == x, select(x == -std::numeric_limits<float>::infinity(), zero(), x * phi), x);
}
// (1 + tanh u) / 2 is sigmoid(2 u), which does not cancel for negative u.
CLIKA_INLINE vf vgelu_tanh(vf x) { return x * vsigmoid(1.5957691f * (x + 0.044715f * x * x * x)); }

// 2^x: the whole part goes into the exponent, e^(r ln 2) for the rest |r| <= 1/2. The clamps keep the
// exponent's bits; 2^-151 and 2^129 are 0 and infinity.
CLIKA_INLINE vf vexp2(vf x) {
  const vf clamped = vmin(splat(129.0f), vmax(splat(-151.0f), x));
  const vf n = round_small(clamped);
  const vf r = (clamped - n) * 0.693147182f;
  vf p = splat(0.00139262034f);
  p = fma(p, r, splat(0.00836319488f));
  p = fma(p, r, splat(0.0416665545f));
  p = fma(p, r, splat(0.166665769f));
  p = fma(p, r, splat(5.0e-1f));
  p = fma(p, r * r, r) + 1.0f;
  const vi whole = __builtin_convertvector(n, vi);
  const vi half = whole >> 1;
  const vf result = p * as_float((half + 127) << 23) * as_float((whole - half + 127) << 23);
  return select(x == x, result, x);
}

// e^x - 1 for x of any size: 2^n (e^r - 1) + (2^n - 1), where nothing cancels.
CLIKA_INLINE vf vexpm1(vf x) {
  const vf clamped = vmin(splat(89.0f), vmax(splat(-25.0f), x));  // below it the result rounds to -1
  const vf n = round_small(clamped * splat(1.44269504f));
  vf r = fma(n, splat(-0.693145751953125f), clamped);
  r = fma(n, splat(-1.42860677e-6f), r);
  vf p = splat(0.00139262034f);
  p = fma(p, r, splat(0.00836319488f));
  p = fma(p, r, splat(0.0416665545f));
  p = fma(p, r, splat(0.166665769f));
  p = fma(p, r, splat(5.0e-1f));
  const vf less = fma(p, r * r, r);
  const vi whole = __builtin_convertvector(n, vi);
  const vi half = whole >> 1;  // 2^128 is no float: two steps
  const vf first = as_float((half + 127) << 23);
  const vf second = as_float((whole - half + 127) << 23);
  const vf scale = first * second;
  const vf result = select(n > 126.0f, (less + 1.0f) * first * second, fma(less, scale, scale - 1.0f));
  return select(x == x, select(vabs(x) < 1e-7f, x, result), x);
}

// ln(x) = e ln 2 + ln(m) for x = 2^e m with m in [1/sqrt 2, sqrt 2): gives e, and ln(m) by
// f - f^2/2 + f^3 P(f) with f = m - 1. x must be positive and finite; a subnormal one is scaled first.
CLIKA_INLINE vf log_parts(vf x, vf* exponent) {
  const vi tiny = x < 1.17549435e-38f;
  const vf scaled = select(tiny, x * 8388608.0f, x);
  const vi shifted = as_int(scaled) - 0x3f3504f3;  // the bits of 1/sqrt 2
  const vi e = shifted >> 23;
  const vf f = as_float((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f;
  *exponent = __builtin_convertvector(e, vf) - select(tiny, splat(23.0f), zero());
  vf p = splat(0.0674660131f);
  p = fma(p, f, splat(-0.116756409f));
  p = fma(p, f, splat(0.118881747f));
  p = fma(p, f, splat(-0.124055915f));
  p = fma(p, f, splat(0.142195508f));
  p = fma(p, f, splat(-0.166679963f));
  p = fma(p, f, splat(0.200021192f));
  p = fma(p, f, splat(-0.250000089f));
  p = fma(p, f, splat(0.333333135f));
  const vf square = f * f;
  return f + fma(square * f, p, -0.5f * square);
}
// What a logarithm gives outside (0, inf).
CLIKA_INLINE vf log_border(vf x, vf inside) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const vf nan = splat(std::numeric_limits<float>::quiet_NaN());
  const vf edge = select(x == 0.0f, splat(-kInf), select(x == kInf, x, nan));
  return select((x > 0.0f) & (x < kInf), inside, edge);
}
CLIKA_INLINE vf vlog(vf x) {
  vf e;
  const vf m = log_parts(x, &e);
  return log_border(x, fma(e, splat(0.693145751953125f), fma(e, splat(1.42860677e-6f), m)));
}
CLIKA_INLINE vf vlog2(vf x) {
  vf e;
  const vf m = log_parts(x, &e);
  return log_border(x, fma(m, splat(1.44269502f), fma(m, splat(1.92596303e-8f), e)));
}
CLIKA_INLINE vf vlog10(vf x) {
  vf e;
  const vf m = log_parts(x, &e);
  const vf low = fma(e, splat(4.60503898e-6f), m * -1.010305e-8f);
  return log_border(x, fma(e, splat(0.301025391f), fma(m, splat(0.434294492f), low)));
}
// ln(1 + x): the rounding of w = 1 + x is put right by its first order, (x - (w - 1)) / w.
CLIKA_INLINE vf vlog1p(vf x) {
  const vf w = 1.0f + x;
  const vf result = vlog(w) + (x - (w - 1.0f)) / w;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  return select((x > -1.0f) & (x < kInf), select(vabs(x) < 1e-7f, x, result), vlog(w));
}
