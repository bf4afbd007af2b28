// Vector forms of tanh, erf and gelu, each within a few ulp. The polynomials are minimax fits of our own.
// Included after level.hpp.

CLIKA_INLINE vf copy_sign(vf magnitude, vf sign) {
  return as_float((as_int(magnitude) & 0x7fffffff) | (as_int(sign) & static_cast<int32_t>(0x80000000u)));
}

// |x| < 0.6: x + x^3 P(x^2); above: 1 - 2 / (e^(2|x|) + 1).
CLIKA_INLINE vf vtanh(vf x) {
  const vf a = vabs(x);
  const vf u = x * x;
  vf p = splat(-0.005905868019f);
  p = fma(p, u, splat(0.02080538496f));
  p = fma(p, u, splat(-0.05378668383f));
  p = fma(p, u, splat(0.1333195865f));
  p = fma(p, u, splat(-0.3333329856f));
  const vf small = fma(p * u, x, x);
  const vf large = 1.0f - 2.0f / (vexp(a + a) + 1.0f);
  return select(a < 0.6f, small, copy_sign(large, x));
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
