// interpolate, resize, grid_sample and affine_grid, channels last; a thread per result.
#include "prelude.cuh"
#include "general.cuh"
#include "resampling.cuh"

extern "C" __global__ void fill_taps(const __grid_constant__ AxisOfTaps a) {
  for (i64 i = first_of_thread(); i < a.table.size; i += threads_of_grid()) {
    a.table.outside[i] = 0;
    if (a.onnx != 0) {
      ResizeAxis{a.in, a.out, a.factor, a.start, a.end, a.mode, a.transform, a.nearest_mode, a.a, a.exclude != 0, a.antialias != 0}
          .fill(a.table, i);
    } else {
      InterpolateAxis{a.in, a.out, a.factor, a.mode, a.align != 0, a.antialias != 0}.fill(a.table, i);
    }
  }
}

// Elements as they are, for the nearest pixel along every axis.
extern "C" __global__ void nearest_elements(const __grid_constant__ Resampling r) {
  for (i64 at = first_of_thread(); at < r.n; at += threads_of_grid()) {
    i64 rest = at, from = 0, step = 1;
    for (int d = r.rank - 1; d >= 0; --d) {
      const i64 i = rest % r.to_shape[d];
      rest /= r.to_shape[d];
      from += (r.tables[d].size > 0 ? r.tables[d].index[i] : i) * step;
      step *= r.from_shape[d];
    }
    move_element(static_cast<char*>(r.to) + at * r.bytes, static_cast<const char*>(r.from) + from * r.bytes, r.bytes);
  }
}
// Results outside of the region take one value.
extern "C" __global__ void put_outside(const __grid_constant__ Resampling r) {
  for (i64 at = first_of_thread(); at < r.n; at += threads_of_grid()) {
    i64 rest = at;
    bool outside = false;
    for (int d = r.rank - 1; d >= 0; --d) {
      if (r.tables[d].size > 0) outside = outside || r.tables[d].outside[rest % r.to_shape[d]] != 0;
      rest /= r.to_shape[d];
    }
    if (outside) move_element(static_cast<char*>(r.to) + at * r.bytes, &r.value, r.bytes);
  }
}

// Integers are rounded to the nearest, halves to even (bytes of images: up), within the range of the dtype.
CLIKA_INLINE void store_rounded(void* p, int dtype, double given, bool up) {
  const double x = up ? floor(given + 0.5) : rint(given);
  const int bits = 8 * bytes_of(dtype);
  const bool is_unsigned = dtype == kUint8 || dtype == kUint16 || dtype == kUint32 || dtype == kUint64;
  const double top = ldexp(1.0, is_unsigned ? bits : bits - 1);
  const double low = is_unsigned ? 0.0 : -top;
  const u64 largest = is_unsigned ? ~u64{0} >> (64 - bits) : (u64{1} << (bits - 1)) - 1;
  if (x >= top - 1.0 && (bits < 64 || x >= top)) store<u64>(p, dtype, largest);
  else if (x <= low) store<i64>(p, dtype, is_unsigned ? 0 : static_cast<i64>(~((u64{1} << (bits - 1)) - 1)));
  else if (dtype == kUint64) store<u64>(p, dtype, static_cast<u64>(x));
  else store<i64>(p, dtype, static_cast<i64>(x));
}
// One axis: [outer][in][inner] to [outer][size][inner].
template <class C>
CLIKA_INLINE void weigh(const Resampling& r) {
  const Taps& t = r.tables[r.axis];
  const int from_bytes = bytes_of(r.from_dtype), to_bytes = bytes_of(r.to_dtype);
  for (i64 at = first_of_thread(); at < r.n; at += threads_of_grid()) {
    const i64 column = at % r.inner, row = at / r.inner;
    const i64 i = row % t.size, base = row / t.size * r.in;
    C sum = C(0);
    for (i64 k = 0; k < t.taps; ++k) {
      const C w = static_cast<C>(t.weight[i * t.taps + k]);
      if (w == C(0)) continue;
      const i64 offset = (base + t.index[i * t.taps + k]) * r.inner + column;
      sum += w * load<C>(static_cast<const char*>(r.from) + offset * from_bytes, r.from_dtype);
    }
    void* to = static_cast<char*>(r.to) + at * to_bytes;
    if (is_real(r.to_dtype)) store<C>(to, r.to_dtype, sum);
    else store_rounded(to, r.to_dtype, static_cast<double>(sum), r.image != 0);
  }
}
extern "C" __global__ void weigh_axis(const __grid_constant__ Resampling r) {
  if (r.wide != 0) weigh<double>(r);
  else weigh<float>(r);
}

// ---------------------------------------------------------------- grids
// in[0]: [N, sizes..., channels]; in[1]: [N, ..., n] places, x first; i[0]: n, i[1]: mode, i[2]: padding, i[3]: corners are
// aligned, i[4]: channels, i[5]: pixels of the result in an image, i[8 + d]: sizes. All in one piece.
template <class C>
struct Sampler {
  const General& g;
  i64 image, channel;
  CLIKA_INLINE i64 size(int d) const { return g.i[8 + d]; }
  CLIKA_INLINE C pixel(C x, i64 extent) const {  // from [-1, 1]
    if (!(x == x)) x = C(-1);
    const C s = static_cast<C>(extent);
    return g.i[3] != 0 ? (x + C(1)) / C(2) * (s - C(1)) : ((x + C(1)) * s - C(1)) / C(2);
  }
  CLIKA_INLINE C clip(C x, i64 extent) const {
    x = x > C(0) ? x : C(0);
    return x < static_cast<C>(extent - 1) ? x : static_cast<C>(extent - 1);
  }
  CLIKA_INLINE C reflect(C x, i64 extent) const {
    const C low = g.i[3] != 0 ? C(0) : C(-0.5);
    const C high = g.i[3] != 0 ? static_cast<C>(extent - 1) : static_cast<C>(extent) - C(0.5);
    const C span = high - low;
    if (span == C(0)) return C(0);
    x = fabs(x - low);
    const C rest = fmod(x, span), turns = floor(x / span);
    return fmod(turns, C(2)) == C(0) ? rest + low : span - rest + low;
  }
  // A coordinate within the image where the padding asks for it; far ones come out just outside.
  CLIKA_INLINE C padded(C x, i64 extent) const {
    if (g.i[2] == 1) x = clip(x, extent);
    if (g.i[2] == 2) x = clip(reflect(x, extent), extent);
    return fabs(x) < C(1e9) ? x : C(-100);
  }
  CLIKA_INLINE C at(const C* place) const {  // 0 where there is no pixel
    i64 offset = image;
    for (int d = 0; d < g.i[0]; ++d) {
      const i64 i = static_cast<i64>(place[d]);
      if (i < 0 || i >= size(d)) return C(0);
      offset = offset * size(d) + i;
    }
    return item_of<C>(g.in[0], offset * g.i[4] + channel);
  }
  CLIKA_INLINE C sample(const C* place) const {
    const int n = static_cast<int>(g.i[0]);
    C x[3];
    if (g.i[1] == 2) return bicubic(place);
    for (int d = 0; d < n; ++d) x[d] = padded(pixel(place[d], size(d)), size(d));
    if (g.i[1] == 1) {
      for (int d = 0; d < n; ++d) x[d] = rint(x[d]);
      return at(x);
    }
    C sum = C(0);
    for (int corner = 0; corner < 1 << n; ++corner) {
      C where[3];
      C weight = C(1);
      for (int d = 0; d < n; ++d) {
        const C low = floor(x[d]);
        const bool up = (corner >> (n - 1 - d) & 1) != 0;
        where[d] = up ? low + C(1) : low;
        weight *= up ? x[d] - low : low + C(1) - x[d];
      }
      sum += weight * at(where);
    }
    return sum;
  }
  CLIKA_INLINE C bicubic(const C* place) const {
    C low[2], rest[2], sum = C(0);
    for (int d = 0; d < 2; ++d) {
      C x = pixel(place[d], size(d));
      x = fabs(x) < C(1e9) ? x : C(-100);
      low[d] = floor(x);
      rest[d] = x - low[d];
    }
    for (int i = -1; i < 3; ++i) {
      for (int j = -1; j < 3; ++j) {
        const C where[2] = {padded(low[0] + C(i), size(0)), padded(low[1] + C(j), size(1))};
        const double w = keys(static_cast<double>(rest[0]) - i, -0.75) * keys(static_cast<double>(rest[1]) - j, -0.75);
        sum += static_cast<C>(w) * at(where);
      }
    }
    return sum;
  }
};
template <class C>
CLIKA_INLINE void sample_grid(const General& g) {
  const int n = static_cast<int>(g.i[0]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 pixel = at / g.i[4];
    C place[3];
    for (int d = 0; d < n; ++d) place[d] = item_of<C>(g.in[1], pixel * n + n - 1 - d);
    put_item<C>(g.out[0], at, Sampler<C>{g, pixel / g.i[5], at % g.i[4]}.sample(place));
  }
}
extern "C" __global__ void sample_grids(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) sample_grid<double>(g);
  else sample_grid<float>(g);
}
// out[0]: [N, sizes..., n]; i[0]: n, i[1]: corners are aligned, i[2]: pixels of an image.
template <class C>
CLIKA_INLINE void make_grid(const General& g) {
  const int n = static_cast<int>(g.i[0]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 pixel = at / n, row = at % n;
    i64 rest = pixel % g.i[2];
    double place[4] = {0.0, 0.0, 0.0, 1.0};
    place[n] = 1.0;
    for (int d = n - 1; d >= 0; --d) {
      const i64 size = g.out[0].shape[1 + d];
      const double x = static_cast<double>(rest % size), s = static_cast<double>(size);
      rest /= size;
      place[n - 1 - d] = size <= 1 ? 0.0 : g.i[1] != 0 ? 2.0 * x / (s - 1.0) - 1.0 : (2.0 * x + 1.0) / s - 1.0;
    }
    double sum = 0.0;
    for (int k = 0; k <= n; ++k) {
      sum += static_cast<double>(item_of<C>(g.in[0], (pixel / g.i[2] * n + row) * (n + 1) + k)) * place[k];
    }
    put_item<C>(g.out[0], at, static_cast<C>(sum));
  }
}
extern "C" __global__ void affine_grids(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) make_grid<double>(g);
  else make_grid<float>(g);
}
