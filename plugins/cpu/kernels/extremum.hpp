// The first largest or smallest of floats. Included after level.hpp.

// The extremum of a line of floats first (with a look for NaN), then its first place.
template <int kSign>
inline int64_t find_float(const float* x, int64_t n) {
  vf best = splat(-std::numeric_limits<float>::infinity());
  vi nan = splat_int(0);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const vf y = load(x + i);
    nan |= y != y;
    best = vmax(kSign > 0 ? y : -y, best);
  }
  float top = reduce_max(best);
  bool has_nan = false;
  for (int k = 0; k < W; ++k) has_nan |= nan[k] != 0;
  for (; i < n; ++i) {
    const float y = kSign > 0 ? x[i] : -x[i];
    has_nan |= y != y;
    top = y > top ? y : top;
  }
  if (has_nan) {
    for (i = 0; i < n; ++i) {
      if (x[i] != x[i]) return i;
    }
  }
  const float wanted = kSign > 0 ? top : -top;
  const vf w = splat(wanted);
  for (i = 0; i + W <= n; i += W) {
    const vi equal = load(x + i) == w;
    int32_t any = 0;
    for (int k = 0; k < W; ++k) any |= equal[k];
    if (any) break;
  }
  for (; i < n; ++i) {
    if (x[i] == wanted) return i;
  }
  return 0;
}
