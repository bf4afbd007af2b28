// interpolate, resize, grid_sample and affine_grid, channels last.
//
// interpolate and resize weigh along one axis after the other, over whole runs of what follows it; sums are
// float32 for the short floats and int8, float64 for float64 and the other integers.
#include "level.hpp"
#include "elementwise.hpp"
#include "resampling.hpp"

constexpr int32_t kAxes = CLIKA_MAX_RANK;

// ------------------------------------------------------------------ along axes
// Elements as they are, for the nearest pixel along every axis.
void pick(const clika_call* call, const TapTable* tables, const bool* over) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  int32_t last = out.rank - 1;  // axes behind it are copied whole
  int64_t run = bytes_of(in.dtype);
  while (last >= 0 && !over[last]) run *= out.shape[last--];
  int64_t rows = 1;
  for (int32_t d = 0; d <= last; ++d) rows *= out.shape[d];
  parallel(call, rows, std::max<int64_t>(1, 65536 / run), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i;
      int64_t from = 0;
      int64_t step = run;
      for (int32_t d = last; d >= 0; --d) {
        const int64_t at = rest % out.shape[d];
        rest /= out.shape[d];
        from += (over[d] ? tables[d].index[at] : at) * step;
        step *= in.shape[d];
      }
      std::memcpy(data_of<char>(out) + i * run, data_of<char>(in) + from, static_cast<size_t>(run));
    }
  });
}

// A tensor of one pass: [outer][size][inner] in a dtype that the compute type loads and stores.
template <class C>
struct Pass {
  LoadTile<C> load;
  StoreTile<C> store;
  const void* from;
  void* to;
  bool direct;  // `from` holds C
};

template <class C>
void weigh_axis(const clika_call* call, const Pass<C>& pass, const TapTable& t, int64_t outer, int64_t in,
                int64_t inner) {
  const int64_t rows = outer * t.size;
  const int64_t work = inner * t.taps;
  parallel(call, rows, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C buffer[kTile];
    alignas(64) C sum[kTile];
    for (int64_t row = begin; row < end; ++row) {
      const int64_t* index = t.index + row % t.size * t.taps;
      const double* weight = t.weight + row % t.size * t.taps;
      const int64_t base = row / t.size * in;
      for (int64_t j = 0; j < inner; j += kTile) {
        const int64_t n = std::min(kTile, inner - j);
        for (int64_t i = 0; i < n; ++i) sum[i] = C{0};
        for (int64_t k = 0; k < t.taps; ++k) {
          const C w = static_cast<C>(weight[k]);
          if (w == C{0}) continue;
          const int64_t at = (base + index[k]) * inner + j;
          const C* x = static_cast<const C*>(pass.from) + at;
          if (!pass.direct) {
            pass.load(buffer, pass.from, at, 1, n);
            x = buffer;
          }
          for (int64_t i = 0; i < n; ++i) sum[i] += w * x[i];
        }
        pass.store(sum, pass.to, row * inner + j, 1, n);
      }
    }
  });
}

// Integers are rounded to the nearest, halves to even (bytes of images: up), within the range of the dtype.
template <class C, class T, bool kUp = false>
void store_rounded(const C* from, void* data, int64_t offset, int64_t step, int64_t n) {
  T* p = static_cast<T*>(data) + offset;
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  const double high = static_cast<double>(std::numeric_limits<T>::max());
  for (int64_t i = 0; i < n; ++i) {
    const double given = static_cast<double>(from[i]);
    const double x = kUp ? std::floor(given + 0.5) : std::nearbyint(given);
    p[i * step] = x >= high ? std::numeric_limits<T>::max()
                  : x <= low ? std::numeric_limits<T>::min()
                             : static_cast<T>(x);
  }
}
template <class C>
bool handlers(int32_t dtype, LoadTile<C>* load, StoreTile<C>* store) {
  const auto of = [&](auto tag) {
    using T = decltype(tag);
    *load = load_wide<C, T>;
    *store = store_rounded<C, T>;
    return true;
  };
  switch (dtype) {
    case CLIKA_INT8:
      return of(int8_t{});
    case CLIKA_UINT8:
      return of(uint8_t{});
    case CLIKA_INT16:
      return of(int16_t{});
    case CLIKA_UINT16:
      return of(uint16_t{});
    case CLIKA_INT32:
      return of(int32_t{});
    case CLIKA_UINT32:
      return of(uint32_t{});
    case CLIKA_INT64:
      return of(int64_t{});
    case CLIKA_UINT64:
      return of(uint64_t{});
    default:
      *load = Tiles<C>::loader(dtype);
      *store = Tiles<C>::storer(dtype);
      return compute_of(dtype) == (sizeof(C) == 4 ? kFloat : kDouble);
  }
}

// `bytes`: the image is one of bytes after each axis, the last axis first, as PyTorch resamples bytes; else
// the results between two axes keep the compute type.
template <class C>
int32_t weigh(const clika_call* call, const TapTable* tables, const bool* over, bool bytes) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  LoadTile<C> load;
  StoreTile<C> store;
  if (!handlers<C>(in.dtype, &load, &store)) return no_compute(call);
  if (bytes) {
    store = in.dtype == CLIKA_UINT8 ? store_rounded<C, uint8_t, true> : store_rounded<C, int8_t, true>;
  }
  int64_t shape[kAxes];
  int32_t axes[kAxes];
  int32_t n = 0;
  for (int32_t d = 0; d < in.rank; ++d) {
    shape[d] = in.shape[d];
    if (over[d]) axes[n++] = d;
  }
  const void* from = in.data;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t d = axes[bytes ? n - 1 - i : i];
    int64_t outer = 1;
    int64_t inner = 1;
    for (int32_t e = 0; e < d; ++e) outer *= shape[e];
    for (int32_t e = d + 1; e < in.rank; ++e) inner *= shape[e];
    const bool last = i == n - 1;
    void* to = out.data;
    if (!last) {
      const size_t room = static_cast<size_t>(outer * tables[d].size * inner) * sizeof(C);
      to = call->core->scratch(call, room);
      if (to == nullptr) return CLIKA_UNAVAILABLE;
    }
    Pass<C> pass{Tiles<C>::loader(sizeof(C) == 4 ? CLIKA_FLOAT32 : CLIKA_FLOAT64),
                 Tiles<C>::storer(sizeof(C) == 4 ? CLIKA_FLOAT32 : CLIKA_FLOAT64), from, to, true};
    if (i == 0 || bytes) {
      pass.load = load;
      pass.direct = Tiles<C>::direct(in.dtype);
    }
    if (last || bytes) pass.store = store;
    weigh_axis(call, pass, tables[d], outer, shape[d], inner);
    shape[d] = tables[d].size;
    from = to;
  }
  return CLIKA_OK;
}

// Resamples along the axes `over`; of no axis at all the input is copied.
int32_t resample(const clika_call* call, const TapTable* tables, const bool* over, bool nearest, bool image) {
  const clika_value& in = call->inputs[0];
  bool any = false;
  for (int32_t d = 0; d < in.rank; ++d) any = any || over[d];
  if (nearest || !any) {
    pick(call, tables, over);
    return CLIKA_OK;
  }
  const bool byte = bytes_of(in.dtype) == 1;
  const bool narrow = compute_of(in.dtype) == kFloat || byte;
  return narrow ? weigh<float>(call, tables, over, image && byte) : weigh<double>(call, tables, over, false);
}

// attrs: size, scale_factor, mode, align_corners, recompute_scale_factor, antialias.
int32_t run_interpolate(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const clika_attr& factors = call->attrs[1];
  const bool given = factors.kind == CLIKA_ATTR_FLOATS && attr_int(call, 4, 0) == 0;
  const int64_t mode = attr_int(call, 2, kNearest);
  TapTable tables[kAxes];
  bool over[kAxes] = {};
  for (int32_t d = 1; d < in.rank - 1; ++d) {
    const double factor = given ? factors.v.floats[factors.n == 1 ? 0 : d - 1] : 0.0;
    const InterpolateAxis axis{in.shape[d],       out.shape[d], factor, mode, attr_int(call, 3, 0) != 0,
                               attr_int(call, 5, 0) != 0};
    tables[d] = make_table(call, axis.out, axis.taps());
    if (tables[d].taps == 0) return CLIKA_UNAVAILABLE;
    axis.fill(tables[d]);
    over[d] = true;
  }
  return resample(call, tables, over, mode == kNearest || mode == kNearestExact, true);
}

// Results outside of the region take one value.
template <class T>
void put_outside(const clika_call* call, const TapTable* tables, const bool* over, T value) {
  clika_value& out = call->outputs[0];
  const int64_t n = elements(out);
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    bool outside = false;
    for (int32_t d = out.rank - 1; d >= 0; --d) {
      if (over[d]) outside = outside || tables[d].outside[rest % out.shape[d]];
      rest /= out.shape[d];
    }
    if (outside) data_of<T>(out)[i] = value;
  }
}

// attrs: sizes, scales, axes, mode, coordinate_transformation_mode, nearest_mode, keep_aspect_ratio_policy,
// cubic_coeff_a, exclude_outside, antialias, roi, extrapolation_value.
int32_t run_resize(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const clika_attr& sizes = call->attrs[0];
  const clika_attr& scales = call->attrs[1];
  const clika_attr& axes = call->attrs[2];
  const clika_attr& roi = call->attrs[10];
  const int64_t policy = attr_int(call, 6, 0);
  const int32_t n = axes.kind == CLIKA_ATTR_INTS ? axes.n : in.rank;
  const auto axis_at = [&](int32_t i) {
    const int64_t d = axes.kind == CLIKA_ATTR_INTS ? axes.v.ints[i] : i;
    return static_cast<int32_t>(d < 0 ? d + in.rank : d);
  };
  double common = 0.0;
  for (int32_t i = 0; sizes.kind == CLIKA_ATTR_INTS && policy != 0 && i < n; ++i) {
    const double ratio = static_cast<double>(sizes.v.ints[i]) / static_cast<double>(in.shape[axis_at(i)]);
    common = i == 0 ? ratio : policy == 1 ? std::min(common, ratio) : std::max(common, ratio);
  }
  ResizeAxis axis{};
  axis.mode = attr_int(call, 3, 0);
  axis.transform = attr_int(call, 4, 0);
  axis.nearest_mode = attr_int(call, 5, 0);
  axis.a = call->attrs[7].v.f;
  axis.exclude = attr_int(call, 8, 0) != 0;
  axis.antialias = attr_int(call, 9, 0) != 0;
  TapTable tables[kAxes];
  bool over[kAxes] = {};
  for (int32_t i = 0; i < n; ++i) {
    const int32_t d = axis_at(i);
    axis.in = in.shape[d];
    axis.out = out.shape[d];
    axis.scale = scales.kind == CLIKA_ATTR_FLOATS ? scales.v.floats[i]
                 : common > 0.0 ? common
                                : static_cast<double>(axis.out) / static_cast<double>(axis.in);
    if (axis.transform == kCrop) {
      axis.start = roi.v.floats[i];
      axis.end = roi.v.floats[n + i];
    }
    if (axis.scale == 1.0 && axis.in == axis.out && axis.transform != kCrop) continue;
    tables[d] = make_table(call, axis.out, axis.taps());
    if (tables[d].taps == 0) return CLIKA_UNAVAILABLE;
    axis.fill(tables[d]);
    over[d] = true;
  }
  const int32_t status = resample(call, tables, over, axis.mode == kResizeNearest, false);
  if (status != CLIKA_OK || axis.transform != kCrop) return status;
  const double value = call->attrs[11].v.f;
  if (out.dtype == CLIKA_FLOAT64) {
    put_outside(call, tables, over, value);
    return CLIKA_OK;
  }
  // Any other dtype: the value converted once, then placed by size.
  alignas(8) char one[8] = {};
  if (compute_of(out.dtype) == kFloat) {
    const float x = static_cast<float>(value);
    Tiles<float>::storer(out.dtype)(&x, one, 0, 1, 1);
  } else {
    LoadTile<double> load;
    StoreTile<double> store;
    if (!handlers<double>(out.dtype, &load, &store)) return no_compute(call);
    store(&value, one, 0, 1, 1);
  }
  const auto put = [&](auto tag) {
    decltype(tag) x;
    std::memcpy(&x, one, sizeof(x));
    put_outside(call, tables, over, x);
    return CLIKA_OK;
  };
  switch (bytes_of(out.dtype)) {
    case 1:
      return put(uint8_t{});
    case 2:
      return put(uint16_t{});
    case 4:
      return put(uint32_t{});
    default:
      return put(uint64_t{});
  }
}

// ------------------------------------------------------------------ grids
enum Padding { kZeros = 0, kBorder, kReflection };

template <class C>
struct Sampler {
  const clika_value& input;
  int32_t n;  // spatial dimensions
  int64_t mode;
  int64_t padding;
  bool align;
  int64_t size[3];
  int64_t stride[3];  // of the input, in elements
  int64_t channels;
  LoadTile<C> load;

  // From [-1, 1] to pixels.
  C pixel(C x, int64_t extent) const {
    if (!(x == x)) x = C{-1};
    const C s = static_cast<C>(extent);
    return align ? (x + C{1}) / C{2} * (s - C{1}) : ((x + C{1}) * s - C{1}) / C{2};
  }
  static C clip(C x, int64_t extent) { return std::min(static_cast<C>(extent - 1), std::max(x, C{0})); }
  C reflect(C x, int64_t extent) const {
    const C low = align ? C{0} : C(-0.5);
    const C high = align ? static_cast<C>(extent - 1) : static_cast<C>(extent) - C(0.5);
    const C span = high - low;
    if (span == C{0}) return C{0};
    x = std::fabs(x - low);
    const C rest = std::fmod(x, span);
    const C turns = std::floor(x / span);
    return std::fmod(turns, C{2}) == C{0} ? rest + low : span - rest + low;
  }
  // A coordinate within the image where the padding asks for it; far ones come out just outside.
  C padded(C x, int64_t extent) const {
    if (padding == kBorder) x = clip(x, extent);
    if (padding == kReflection) x = clip(reflect(x, extent), extent);
    return std::fabs(x) < C(1e9) ? x : C{-100};
  }

  // out += weight * input at the pixel, where there is one.
  void add(const C* pixel_at, C weight, int64_t image, C* buffer, C* out) const {
    int64_t at = image;
    for (int32_t d = 0; d < n; ++d) {
      const int64_t i = static_cast<int64_t>(pixel_at[d]);
      if (i < 0 || i >= size[d]) return;
      at += i * stride[d];
    }
    const C* x = data_of<C>(input) + at;
    if (!Tiles<C>::direct(input.dtype)) {
      load(buffer, input.data, at, 1, channels);
      x = buffer;
    }
    for (int64_t c = 0; c < channels; ++c) out[c] += weight * x[c];
  }

  // `place` in the order of the image's dimensions.
  void sample(const C* place, int64_t image, C* buffer, C* out) const {
    for (int64_t c = 0; c < channels; ++c) out[c] = C{0};
    C x[3];
    if (mode == 2) {
      bicubic(place, image, buffer, out);
      return;
    }
    for (int32_t d = 0; d < n; ++d) x[d] = padded(pixel(place[d], size[d]), size[d]);
    if (mode == 1) {
      for (int32_t d = 0; d < n; ++d) x[d] = std::nearbyint(x[d]);
      add(x, C{1}, image, buffer, out);
      return;
    }
    for (int32_t corner = 0; corner < 1 << n; ++corner) {
      C at[3];
      C weight = C{1};
      for (int32_t d = 0; d < n; ++d) {
        const C low = std::floor(x[d]);
        const bool up = corner >> (n - 1 - d) & 1;
        at[d] = up ? low + C{1} : low;
        weight *= up ? x[d] - low : low + C{1} - x[d];
      }
      add(at, weight, image, buffer, out);
    }
  }
  void bicubic(const C* place, int64_t image, C* buffer, C* out) const {
    C low[2];
    C rest[2];
    for (int32_t d = 0; d < 2; ++d) {
      C x = pixel(place[d], size[d]);
      x = std::fabs(x) < C(1e9) ? x : C{-100};
      low[d] = std::floor(x);
      rest[d] = x - low[d];
    }
    for (int i = -1; i < 3; ++i) {
      for (int j = -1; j < 3; ++j) {
        const C at[2] = {padded(low[0] + C(i), size[0]), padded(low[1] + C(j), size[1])};
        const double w = keys(static_cast<double>(rest[0]) - i, -0.75) *
                         keys(static_cast<double>(rest[1]) - j, -0.75);
        add(at, static_cast<C>(w), image, buffer, out);
      }
    }
  }
};

template <class C>
int32_t sample_grid(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const clika_value& grid = call->inputs[1];
  clika_value& out = call->outputs[0];
  Sampler<C> s{input,
               input.rank - 2,
               attr_int(call, 0, 0),
               attr_int(call, 1, 0),
               attr_int(call, 2, 0) != 0,
               {},
               {},
               input.shape[input.rank - 1],
               Tiles<C>::loader(input.dtype)};
  int64_t step = s.channels;
  for (int32_t d = s.n - 1; d >= 0; --d) {
    s.size[d] = input.shape[1 + d];
    s.stride[d] = step;
    step *= s.size[d];
  }
  const LoadTile<C> load_grid = Tiles<C>::loader(grid.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const int64_t pixels = elements(grid) / s.n;
  const int64_t of_image = pixels / input.shape[0];
  const int64_t workers = call->core->num_threads();
  const int64_t room = 2 * s.channels;
  C* memory = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(workers * room) * sizeof(C)));
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t grain = std::max<int64_t>(1, 4096 / (1 + s.channels));
  parallel(call, pixels, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    C* buffer = memory + worker * room;
    C* sum = buffer + s.channels;
    for (int64_t i = begin; i < end; ++i) {
      C given[3];
      C place[3];
      load_grid(given, grid.data, i * s.n, 1, s.n);
      for (int32_t d = 0; d < s.n; ++d) place[d] = given[s.n - 1 - d];  // x comes first
      s.sample(place, i / of_image * step, buffer, sum);
      storer(sum, out.data, i * s.channels, 1, s.channels);
    }
  });
  return CLIKA_OK;
}

int32_t run_grid_sample(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? sample_grid<double>(call) : sample_grid<float>(call);
}

// attrs: size, align_corners. The result is [N, sizes..., n].
template <class C>
void make_grid(const clika_call* call) {
  const clika_value& theta = call->inputs[0];
  clika_value& out = call->outputs[0];
  const bool align = attr_int(call, 1, 0) != 0;
  const int32_t n = out.rank - 2;
  const LoadTile<C> load = Tiles<C>::loader(theta.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const int64_t pixels = elements(out) / n;
  const int64_t of_image = pixels / out.shape[0];
  parallel(call, pixels, 4096, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i % of_image;
      double place[4] = {0.0, 0.0, 0.0, 1.0};
      place[n] = 1.0;
      for (int32_t d = n - 1; d >= 0; --d) {
        const int64_t size = out.shape[1 + d];
        const double at = static_cast<double>(rest % size);
        rest /= size;
        const double s = static_cast<double>(size);
        double x = 0.0;
        if (size > 1) x = align ? 2.0 * at / (s - 1.0) - 1.0 : (2.0 * at + 1.0) / s - 1.0;
        place[n - 1 - d] = x;
      }
      C map[12];
      load(map, theta.data, i / of_image * n * (n + 1), 1, n * (n + 1));
      C result[3];
      for (int32_t r = 0; r < n; ++r) {
        double sum = 0.0;
        for (int32_t k = 0; k <= n; ++k) sum += static_cast<double>(map[r * (n + 1) + k]) * place[k];
        result[r] = static_cast<C>(sum);
      }
      storer(result, out.data, i * n, 1, n);
    }
  });
}

int32_t run_affine_grid(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  call->inputs[0].dtype == CLIKA_FLOAT64 ? make_grid<double>(call) : make_grid<float>(call);
  return CLIKA_OK;
}

CLIKA_KERNELS(resampling,
              Entry("interpolate", run_interpolate).in(FLOATS | F64 | INTS).out(FLOATS | F64 | INTS)
                  .contiguous().parallel(),
              Entry("resize", run_resize).in(FLOATS | F64 | INTS).out(FLOATS | F64 | INTS)
                  .contiguous().parallel(),
              Entry("grid_sample", run_grid_sample).in(FLOATS | F64).out(FLOATS | F64)
                  .contiguous().parallel(),
              Entry("affine_grid", run_affine_grid).in(FLOATS | F64).out(FLOATS | F64).contiguous())
#include "level_end.hpp"
