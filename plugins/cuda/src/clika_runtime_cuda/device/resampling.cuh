// The taps that resampling weighs along one axis.
#pragma once

#include "window_arguments.cuh"

// Result i of an axis is the sum of weight[i * taps + k] * input[index[i * taps + k]] over k < taps.
CLIKA_INLINE i64 clipped(i64 i, i64 size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

// Keys' kernel at distance x.
CLIKA_INLINE double keys(double x, double a) {
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}
CLIKA_INLINE double triangle(double x) { return fmax(0.0, 1.0 - fabs(x)); }

// A tap of result i; places outside of the input repeat its border.
CLIKA_INLINE void set_tap(const Taps& t, i64 i, i64 k, i64 index, i64 in, double weight) {
  t.index[i * t.taps + k] = clipped(index, in);
  t.weight[i * t.taps + k] = weight;
}
CLIKA_INLINE void normalize_taps(const Taps& t, i64 i) {
  double sum = 0.0;
  for (i64 k = 0; k < t.taps; ++k) sum += t.weight[i * t.taps + k];
  if (sum == 0.0) return;
  for (i64 k = 0; k < t.taps; ++k) t.weight[i * t.taps + k] /= sum;
}

// ---------------------------------------------------------------- interpolate
enum Mode { kNearest = 0, kNearestExact, kLinear, kBilinear, kBicubic, kTrilinear, kArea };

struct InterpolateAxis {
  i64 in;
  i64 out;
  double factor;  // the scale as given, or 0
  i64 mode;
  bool align;
  bool antialias;

  // Input pixels for one of the result.
  CLIKA_INLINE double ratio() const {
    if (align) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
    return factor > 0.0 ? 1.0 / factor : static_cast<double>(in) / static_cast<double>(out);
  }
  // Nearest pixels are found in float32, as PyTorch finds them: at a boundary the rounding decides.
  CLIKA_INLINE i64 nearest(i64 i) const {
    const float r = factor > 0.0 ? static_cast<float>(1.0 / factor)
                                 : static_cast<float>(in) / static_cast<float>(out);
    if (mode == kNearestExact) {
      const float x = __fmul_rn(r, static_cast<float>(i) + 0.5f) - 0.5f;
      return clipped(static_cast<i64>(floor(x + 0.5f)), in);
    }
    if (out == in) return i;
    if (out == 2 * in) return i / 2;
    return clipped(static_cast<i64>(floor(static_cast<float>(i) * r)), in);
  }
  CLIKA_INLINE void fill(const Taps& t, i64 i) const {
    const double r = ratio();
    if (mode == kNearest || mode == kNearestExact) {
      set_tap(t, i, 0, nearest(i), in, 1.0);
    } else if (mode == kArea) {
      area(t, i);
    } else if (antialias) {
      widened(t, i, r);
    } else {
      const double place = static_cast<double>(i);
      double x = align ? r * place : r * (place + 0.5) - 0.5;
      if (mode != kBicubic) x = fmax(0.0, x);
      const double low = floor(x);
      const double rest = x - low;
      const i64 at = static_cast<i64>(low);
      if (mode == kBicubic) {
        for (i64 k = 0; k < 4; ++k) {
          set_tap(t, i, k, at + k - 1, in, keys(rest - static_cast<double>(k - 1), -0.75));
        }
      } else {
        set_tap(t, i, 0, at, in, 1.0 - rest);
        set_tap(t, i, 1, at + 1, in, rest);
      }
    }
  }
  CLIKA_INLINE void area(const Taps& t, i64 i) const {
    const i64 whole = in / out;
    const i64 left = in % out;
    const i64 from = i * whole + i * left / out;
    const i64 to = (i + 1) * whole + ((i + 1) * left + out - 1) / out;
    for (i64 k = 0; k < t.taps; ++k) {
      set_tap(t, i, k, from + k, in, from + k < to ? 1.0 / static_cast<double>(to - from) : 0.0);
    }
  }
  CLIKA_INLINE void widened(const Taps& t, i64 i, double r) const {
    const double wide = (mode == kBicubic ? 2.0 : 1.0) * fmax(1.0, r);
    const double shrink = 1.0 / fmax(1.0, r);
    const double center = r * (static_cast<double>(i) + 0.5);
    const i64 from = at_least(0, static_cast<i64>(center - wide + 0.5));
    const i64 to = at_most(in, static_cast<i64>(center + wide + 0.5));
    for (i64 k = 0; k < t.taps; ++k) {
      const double x = (static_cast<double>(from + k) - center + 0.5) * shrink;
      const double w = mode == kBicubic ? keys(x, -0.5) : triangle(x);
      set_tap(t, i, k, from + k, in, from + k < to ? w : 0.0);
    }
    normalize_taps(t, i);
  }
};

// ---------------------------------------------------------------- resize
enum Transform { kHalfPixel = 0, kSymmetric, kTorchHalfPixel, kAlignCorners, kAsymmetric, kCrop };
enum ResizeMode { kResizeNearest = 0, kResizeLinear, kResizeCubic };

struct ResizeAxis {
  i64 in;
  i64 out;
  double scale;
  double start = 0.0;  // of the region
  double end = 1.0;
  i64 mode;
  i64 transform;
  i64 nearest_mode;
  double a;
  bool exclude;
  bool antialias;

  CLIKA_INLINE double place(i64 index) const {
    const double i = static_cast<double>(index);
    const double size = static_cast<double>(in);
    const double made = scale * size;  // not rounded
    const double half = (i + 0.5) / scale - 0.5;
    switch (transform) {
      case kSymmetric:
        return size / 2.0 * (1.0 - static_cast<double>(out) / made) + half;
      case kTorchHalfPixel:
        return out > 1 ? half : 0.0;
      case kAlignCorners:
        return made == 1.0 ? 0.0 : i * (size - 1.0) / (made - 1.0);
      case kAsymmetric:
        return i / scale;
      case kCrop:
        if (out == 1) return 0.5 * (start + end) * (size - 1.0);
        return start * (size - 1.0) + i * (end - start) * (size - 1.0) / (made - 1.0);
      default:
        return half;
    }
  }
  CLIKA_INLINE double narrow() const { return antialias ? fmin(1.0, scale) : 1.0; }
  CLIKA_INLINE i64 first() const {  // of the taps, from the pixel at or before the place
    const double wide = mode == kResizeCubic ? 2.0 : 1.0;
    return static_cast<i64>(floor(-wide / narrow())) + 1;
  }
  CLIKA_INLINE i64 nearest(double x) const {
    const double low = floor(x);
    const double rest = x - low;
    const bool up = rest != 0.0 && (nearest_mode == 3 || (nearest_mode == 0 && rest > 0.5) ||
                                    (nearest_mode == 1 && rest >= 0.5));
    return static_cast<i64>(low) + (up ? 1 : 0);
  }
  CLIKA_INLINE void fill(const Taps& t, i64 i) const {
    const double most = static_cast<double>(in) + 1e6;
    double x = place(i);
    t.outside[i] = transform == kCrop && !(x >= 0.0 && x <= static_cast<double>(in - 1));
    x = x == x ? fmin(most, fmax(-1e6, x)) : 0.0;
    if (mode == kResizeNearest) {
      set_tap(t, i, 0, nearest(x), in, 1.0);
      return;
    }
    const double low = floor(x);
    const double rest = x - low;
    for (i64 k = 0; k < t.taps; ++k) {
      const i64 from = first() + k;
      const double distance = (static_cast<double>(from) - rest) * narrow();
      double w = mode == kResizeCubic ? keys(distance, a) : triangle(distance);
      const i64 at = static_cast<i64>(low) + from;
      if (exclude && (at < 0 || at >= in)) w = 0.0;
      set_tap(t, i, k, at, in, w);
    }
    if (exclude || antialias) normalize_taps(t, i);
  }
};
