// Sine and cosine together. Included after level.hpp.

constexpr int64_t kSines = 64;  // angles of a step

// Splits angles into a multiple of pi/2 and a rest in [-pi/4, pi/4]. The product is formed in float64, which
// is exact enough for every angle below 2^30. Returns whether an angle lies beyond (or is NaN).
inline bool reduce_angles(const float* __restrict angle, int64_t n, float* __restrict rest,
                          int32_t* __restrict quadrant) {
  int32_t far = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = angle[i];
    const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    const double whole = (x * 0.63661977236758134308 + magic) - magic;
    const double fraction = (whole * 0.25 + magic) - magic;
    quadrant[i] = static_cast<int32_t>(whole - 4.0 * fraction);  // -2 .. 2, modulo 4
    rest[i] = static_cast<float>((x - whole * 1.57079632679489655800) - whole * 6.12323399573676603587e-17);
    far |= !(std::fabs(angle[i]) < 1.0e9f);
  }
  return far != 0;
}

// cosine = cos(angle) * factor and sine = sin(angle) * factor, within 2 ulp.
inline void sines(const float* angle, int64_t n, float factor, float* cosine, float* sine) {
  const vf f = splat(factor);
  for (int64_t begin = 0; begin < n; begin += kSines) {
    alignas(64) float rest[kSines] = {};
    alignas(64) int32_t quadrant[kSines] = {};
    alignas(64) float both[2][kSines];
    const int64_t count = std::min(kSines, n - begin);
    const bool far = reduce_angles(angle + begin, count, rest, quadrant);
    for (int64_t i = 0; i < count; i += W) {
      const vf r = load(rest + i);
      const vf u = r * r;
      // Taylor polynomials: on |r| <= pi/4 the terms left out are below 2^-25.
      vf s = fma(u, splat(1.0f / 362880), splat(-1.0f / 5040));
      s = fma(u, s, splat(1.0f / 120));
      s = fma(u, s, splat(-1.0f / 6));
      s = fma(r * u, s, r);
      vf c = fma(u, splat(1.0f / 40320), splat(-1.0f / 720));
      c = fma(u, c, splat(1.0f / 24));
      c = fma(u * u, c, 1.0f - 0.5f * u);
      const vi q = *reinterpret_cast<const vi_any*>(quadrant + i);
      const vi odd = (q & 1) != 0;
      const vi sine_sign = (q & 2) << 30;
      const vi cosine_sign = ((q + 1) & 2) << 30;
      store(both[0] + i, as_float(as_int(select(odd, s, c)) ^ cosine_sign) * f);
      store(both[1] + i, as_float(as_int(select(odd, c, s)) ^ sine_sign) * f);
    }
    std::memcpy(cosine + begin, both[0], static_cast<size_t>(count) * sizeof(float));
    std::memcpy(sine + begin, both[1], static_cast<size_t>(count) * sizeof(float));
    if (!far) continue;
    for (int64_t i = begin; i < begin + count; ++i) {
      if (std::fabs(angle[i]) < 1.0e9f) continue;
      cosine[i] = std::cos(angle[i]) * factor;
      sine[i] = std::sin(angle[i]) * factor;
    }
  }
}
