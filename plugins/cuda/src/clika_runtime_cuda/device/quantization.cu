// Affine quantization: codes and real numbers with one scale and zero point, those of a place on an axis, or of a block.
#include "prelude.cuh"
#include "general.cuh"

// in[0]: [.., i[0] places, i[1] elements]; in[1]: scales, in[2]: zero points or none. i[2]: places that share a scale,
// i[3]: scales along the axis (0: one for all), i[4]: by blocks. Scale and zero point without tensors: f[0], i[5].
CLIKA_INLINE i64 scale_of(const General& g, i64 at) {
  if (g.i[3] == 0) return 0;
  const i64 row = at / g.i[1], place = row % g.i[0] / g.i[2];
  return g.i[4] != 0 ? (row / g.i[0] * g.i[3] + place) * g.i[1] + at % g.i[1] : place;
}
template <class C>
CLIKA_INLINE C scale_at(const General& g, i64 k) {
  return g.in[1].dtype != 0 ? item_of<C>(g.in[1], k) : static_cast<C>(g.f[0]);
}
CLIKA_INLINE i64 zero_at(const General& g, i64 k) { return g.in[2].dtype != 0 ? item_of<i64>(g.in[2], k) : g.i[5]; }

// The code of x before zero point and range; 0 for NaN. `inverse`: by a product with the reciprocal of the scale.
template <class C>
CLIKA_INLINE double rounded(C x, C scale, bool inverse) {
  const C q = rint(inverse ? x * (C(1) / scale) : x / scale);
  return q == q ? static_cast<double>(q) : 0.0;
}
CLIKA_INLINE double limited(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

// i[6]: inverse; f[1], f[2]: the range of codes.
template <class C>
CLIKA_INLINE void quantize(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 k = scale_of(g, at);
    const double code = rounded<C>(item_of<C>(g.in[0], at), scale_at<C>(g, k), g.i[6] != 0) + static_cast<double>(zero_at(g, k));
    put_item<i64>(g.out[0], at, static_cast<i64>(limited(code, g.f[1], g.f[2])));
  }
}
extern "C" __global__ void to_codes(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) quantize<double>(g);
  else quantize<float>(g);
}
template <class C>
CLIKA_INLINE void dequantize(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 k = scale_of(g, at);
    put_item<C>(g.out[0], at, static_cast<C>(item_of<i64>(g.in[0], at) - zero_at(g, k)) * scale_at<C>(g, k));
  }
}
extern "C" __global__ void from_codes(const __grid_constant__ General g) {
  if (g.in[1].dtype == kFloat64) dequantize<double>(g);
  else dequantize<float>(g);
}
template <class C>
CLIKA_INLINE void fake(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 k = scale_of(g, at);
    const double zero = static_cast<double>(zero_at(g, k));
    const double code = limited(rounded<C>(item_of<C>(g.in[0], at), scale_at<C>(g, k), true) + zero, g.f[1], g.f[2]);
    put_item<C>(g.out[0], at, static_cast<C>(code - zero) * scale_at<C>(g, k));
  }
}
extern "C" __global__ void through_codes(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) fake<double>(g);
  else fake<float>(g);
}
// The scale (out[1]) and zero point (out[2]) of all i[0] elements, for bytes. One block.
extern "C" __global__ void __launch_bounds__(512) find_scale(const __grid_constant__ General g) {
  float low = 0.0f, high = 0.0f;
  for (i64 at = threadIdx.x; at < g.i[0]; at += blockDim.x) {
    const float x = item_of<float>(g.in[0], at);
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  low = over_block(low, 0.0f, [](float a, float b) { return b < a ? b : a; });
  high = over_block(high, 0.0f, [](float a, float b) { return b > a ? b : a; });
  if (threadIdx.x == 0) {
    const float scale = high == low ? 1.0f : (high - low) / 255.0f;
    put_item<float>(g.out[1], 0, scale);
    put_item<i64>(g.out[2], 0, static_cast<i64>(limited(rounded<float>(-low, scale, false), 0.0, 255.0)));
  }
}
