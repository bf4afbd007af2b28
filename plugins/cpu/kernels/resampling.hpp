// Tables of the taps that resampling weighs along one axis. Included after level.hpp.

// Result i of an axis is the sum of weight[i * taps + k] * input[index[i * taps + k]] over k < taps.
struct TapTable {
  int64_t size;  // of the result
  int64_t taps;
  int64_t* index;
  double* weight;
  bool* outside;  // results that take a constant instead, or null
};

CLIKA_INLINE int64_t clipped(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

// Keys' kernel at distance x.
CLIKA_INLINE double keys(double x, double a) {
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}
CLIKA_INLINE double triangle(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

// Memory for a table; taps of 0 where it could not be had.
inline TapTable make_table(const clika_call* call, int64_t size, int64_t taps) {
  const size_t n = static_cast<size_t>(size * taps);
  char* memory = static_cast<char*>(call->core->scratch(call, n * 16 + static_cast<size_t>(size)));
  TapTable t;
  t.size = size;
  t.taps = memory == nullptr ? 0 : taps;
  t.index = reinterpret_cast<int64_t*>(memory);
  t.weight = reinterpret_cast<double*>(memory + n * 8);
  t.outside = reinterpret_cast<bool*>(memory + n * 16);
  if (memory != nullptr) std::memset(t.outside, 0, static_cast<size_t>(size));
  return t;
}

// A tap of result i; places outside of the input repeat its border.
inline void set_tap(const TapTable& t, int64_t i, int64_t k, int64_t index, int64_t in, double weight) {
  t.index[i * t.taps + k] = clipped(index, in);
  t.weight[i * t.taps + k] = weight;
}
inline void normalize_taps(const TapTable& t, int64_t i) {
  double sum = 0.0;
  for (int64_t k = 0; k < t.taps; ++k) sum += t.weight[i * t.taps + k];
  if (sum == 0.0) return;
  for (int64_t k = 0; k < t.taps; ++k) t.weight[i * t.taps + k] /= sum;
}

// ------------------------------------------------------------------ interpolate
enum Mode { kNearest = 0, kNearestExact, kLinear, kBilinear, kBicubic, kTrilinear, kArea };

struct InterpolateAxis {
  int64_t in;
  int64_t out;
  double factor;  // the scale as given, or 0
  int64_t mode;
  bool align;
  bool antialias;

  // Input pixels for one of the result.
  double ratio() const {
    if (align) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
    return factor > 0.0 ? 1.0 / factor : static_cast<double>(in) / static_cast<double>(out);
  }
  // Nearest pixels are found in float32, as PyTorch finds them: at a boundary the rounding decides.
  int64_t nearest(int64_t i) const {
    const float r = factor > 0.0 ? static_cast<float>(1.0 / factor)
                                 : static_cast<float>(in) / static_cast<float>(out);
    if (mode == kNearestExact) {
      const float x = r * (static_cast<float>(i) + 0.5f) - 0.5f;
      return clipped(static_cast<int64_t>(std::floor(x + 0.5f)), in);
    }
    if (out == in) return i;
    if (out == 2 * in) return i / 2;
    return clipped(static_cast<int64_t>(std::floor(static_cast<float>(i) * r)), in);
  }
  int64_t taps() const {
    if (mode == kNearest || mode == kNearestExact) return 1;
    if (mode == kArea) return (in + out - 1) / out + 1;
    const double wide = mode == kBicubic ? 2.0 : 1.0;
    if (!antialias) return mode == kBicubic ? 4 : 2;
    return std::min(in, static_cast<int64_t>(std::ceil(wide * std::max(1.0, ratio()))) * 2 + 1);
  }

  void fill(const TapTable& t) const {
    const double r = ratio();
    for (int64_t i = 0; i < out; ++i) {
      if (mode == kNearest || mode == kNearestExact) {
        set_tap(t, i, 0, nearest(i), in, 1.0);
      } else if (mode == kArea) {
        area(t, i);
      } else if (antialias) {
        widened(t, i, r);
      } else {
        const double place = static_cast<double>(i);
        double x = align ? r * place : r * (place + 0.5) - 0.5;
        if (mode != kBicubic) x = std::max(0.0, x);
        const double low = std::floor(x);
        const double rest = x - low;
        const int64_t at = static_cast<int64_t>(low);
        if (mode == kBicubic) {
          for (int64_t k = 0; k < 4; ++k) {
            set_tap(t, i, k, at + k - 1, in, keys(rest - static_cast<double>(k - 1), -0.75));
          }
        } else {
          set_tap(t, i, 0, at, in, 1.0 - rest);
          set_tap(t, i, 1, at + 1, in, rest);
        }
      }
    }
  }
  void area(const TapTable& t, int64_t i) const {
    const int64_t whole = in / out;
    const int64_t left = in % out;
    const int64_t from = i * whole + i * left / out;
    const int64_t to = (i + 1) * whole + ((i + 1) * left + out - 1) / out;
    for (int64_t k = 0; k < t.taps; ++k) {
      set_tap(t, i, k, from + k, in, from + k < to ? 1.0 / static_cast<double>(to - from) : 0.0);
    }
  }
  void widened(const TapTable& t, int64_t i, double r) const {
    const double wide = (mode == kBicubic ? 2.0 : 1.0) * std::max(1.0, r);
    const double shrink = 1.0 / std::max(1.0, r);
    const double center = r * (static_cast<double>(i) + 0.5);
    const int64_t from = std::max<int64_t>(0, static_cast<int64_t>(center - wide + 0.5));
    const int64_t to = std::min(in, static_cast<int64_t>(center + wide + 0.5));
    for (int64_t k = 0; k < t.taps; ++k) {
      const double x = (static_cast<double>(from + k) - center + 0.5) * shrink;
      const double w = mode == kBicubic ? keys(x, -0.5) : triangle(x);
      set_tap(t, i, k, from + k, in, from + k < to ? w : 0.0);
    }
    normalize_taps(t, i);
  }
};

// ------------------------------------------------------------------ resize
enum Transform { kHalfPixel = 0, kSymmetric, kTorchHalfPixel, kAlignCorners, kAsymmetric, kCrop };
enum ResizeMode { kResizeNearest = 0, kResizeLinear, kResizeCubic };

struct ResizeAxis {
  int64_t in;
  int64_t out;
  double scale;
  double start = 0.0;  // of the region
  double end = 1.0;
  int64_t mode;
  int64_t transform;
  int64_t nearest_mode;
  double a;
  bool exclude;
  bool antialias;

  double place(int64_t index) const {
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
  double narrow() const { return antialias ? std::min(1.0, scale) : 1.0; }
  int64_t first() const {  // of the taps, from the pixel at or before the place
    const double wide = mode == kResizeCubic ? 2.0 : 1.0;
    return static_cast<int64_t>(std::floor(-wide / narrow())) + 1;
  }
  int64_t taps() const { return mode == kResizeNearest ? 1 : 2 - 2 * first(); }

  int64_t nearest(double x) const {
    const double low = std::floor(x);
    const double rest = x - low;
    const bool up = rest != 0.0 && (nearest_mode == 3 || (nearest_mode == 0 && rest > 0.5) ||
                                    (nearest_mode == 1 && rest >= 0.5));
    return static_cast<int64_t>(low) + (up ? 1 : 0);
  }
  void fill(const TapTable& t) const {
    const double most = static_cast<double>(in) + 1e6;
    for (int64_t i = 0; i < out; ++i) {
      double x = place(i);
      t.outside[i] = transform == kCrop && !(x >= 0.0 && x <= static_cast<double>(in - 1));
      x = x == x ? std::min(most, std::max(-1e6, x)) : 0.0;
      if (mode == kResizeNearest) {
        set_tap(t, i, 0, nearest(x), in, 1.0);
        continue;
      }
      const double low = std::floor(x);
      const double rest = x - low;
      for (int64_t k = 0; k < t.taps; ++k) {
        const int64_t from = first() + k;
        const double distance = (static_cast<double>(from) - rest) * narrow();
        double w = mode == kResizeCubic ? keys(distance, a) : triangle(distance);
        const int64_t at = static_cast<int64_t>(low) + from;
        if (exclude && (at < 0 || at >= in)) w = 0.0;
        set_tap(t, i, k, at, in, w);
      }
      if (exclude || antialias) normalize_taps(t, i);
    }
  }
};
