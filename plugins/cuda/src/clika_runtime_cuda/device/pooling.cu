// Pooling over 1 to 3 spatial dims, a thread per result; im2col, col2im, and the inverse of max pooling.
#include "prelude.cuh"
#include "general.cuh"
#include "window_arguments.cuh"

template <class C>
constexpr bool kWhole = C(0.5) == C(0);

// The places of a window along one axis: from, from + step, ... below `to`; `size` of them count with padding.
struct Span {
  i64 from, to, step, size;
};
CLIKA_INLINE Span span_of(const Windows& w, int d, i64 o) {
  if (w.adaptive != 0) {  // windows that cover the input evenly
    const i64 whole = w.in_size[d] / w.out_size[d], rest = w.in_size[d] % w.out_size[d];
    const i64 from = o * whole + o * rest / w.out_size[d];
    const i64 to = (o + 1) * whole + ((o + 1) * rest + w.out_size[d] - 1) / w.out_size[d];
    return {from, to, 1, to - from};
  }
  const i64 step = w.dilation[d], start = o * w.stride[d] - w.pad[d];
  const i64 stop = at_most(start + (w.kernel[d] - 1) * step + 1, w.in_size[d] + w.pad[d]);
  const i64 skipped = start < 0 ? (-start + step - 1) / step * step : 0;
  return {start + skipped, at_most(stop, w.in_size[d]), step, stop - start};
}
struct Window {
  Span span[3];
  i64 image, channel;
  CLIKA_INLINE Window(const Windows& w, i64 at) {
    channel = at % w.channels;
    i64 rest = at / w.channels;
    for (int d = 2; d >= 0; --d) {
      span[d] = span_of(w, d, rest % w.out_size[d]);
      rest /= w.out_size[d];
    }
    image = rest;
  }
  CLIKA_INLINE i64 size() const { return span[0].size * span[1].size * span[2].size; }
  // Calls body(element, flat place) in ascending order of places.
  template <class C, class Body>
  CLIKA_INLINE void each(const Windows& w, const Body& body) const {
    const int bytes = bytes_of(w.dtype);
    for (i64 a = span[0].from; a < span[0].to; a += span[0].step) {
      for (i64 b = span[1].from; b < span[1].to; b += span[1].step) {
        for (i64 c = span[2].from; c < span[2].to; c += span[2].step) {
          const i64 place = (a * w.in_size[1] + b) * w.in_size[2] + c;
          const i64 offset = (image * w.in_size[0] * w.in_size[1] * w.in_size[2] + place) * w.channels + channel;
          body(load<C>(static_cast<const char*>(w.in) + offset * bytes, w.dtype), place);
        }
      }
    }
  }
};
template <class C>
CLIKA_INLINE void put_result(const Windows& w, i64 at, C x) {
  store<C>(static_cast<char*>(w.out) + at * bytes_of(w.dtype), w.dtype, x);
}

template <class C>
CLIKA_INLINE void largest(const Windows& w) {
  for (i64 at = first_of_thread(); at < w.n; at += threads_of_grid()) {
    C best;
    if constexpr (kWhole<C>) best = static_cast<C>(u64{1} << 63);
    else best = static_cast<C>(-CLIKA_INFINITY);
    i64 where = 0;
    bool first = true;
    Window(w, at).each<C>(w, [&](C x, i64 place) {
      if (first || x > best || x != x) {
        best = x;
        where = place;
      }
      first = false;
    });
    put_result(w, at, best);
    if (w.indices != nullptr) w.indices[at] = where;
  }
}
template <class C>
CLIKA_INLINE void average(const Windows& w) {
  for (i64 at = first_of_thread(); at < w.n; at += threads_of_grid()) {
    const Window window(w, at);
    i64 count = window.size();
    if (w.inside != 0) {
      count = 1;
      for (const Span& s : window.span) count *= at_least(0, s.to - s.from);
    }
    const C by = static_cast<C>(w.divisor != 0 ? w.divisor : at_least(1, count));
    C sum = C(0);
    window.each<C>(w, [&](C x, i64) {
      if constexpr (kWhole<C>) sum = static_cast<C>(static_cast<u64>(sum) + static_cast<u64>(x));
      else sum += x;
    });
    if constexpr (kWhole<C>) put_result<C>(w, at, by == -1 ? static_cast<C>(u64{0} - static_cast<u64>(sum)) : sum / by);
    else put_result<C>(w, at, sum / by);
  }
}
// (sum of x^power)^(1 / power), the sum scaled to a whole window.
template <class C>
CLIKA_INLINE void power_mean(const Windows& w) {
  const C exponent = static_cast<C>(w.power), root = static_cast<C>(1.0 / w.power);
  for (i64 at = first_of_thread(); at < w.n; at += threads_of_grid()) {
    const Window window(w, at);
    const double whole = static_cast<double>(w.kernel[0] * w.kernel[1] * w.kernel[2]);
    const C scale = static_cast<C>(whole / static_cast<double>(window.size()));
    C sum = C(0);
    window.each<C>(w, [&](C x, i64) { sum += exponent == C(2) ? x * x : exponent == C(1) ? x : pow(x, exponent); });
    put_result<C>(w, at, exponent == C(2) ? sqrt(sum * scale) : pow(sum * scale, root));
  }
}
extern "C" __global__ void max_pool(const __grid_constant__ Windows w) {
  if (w.dtype == kFloat64) largest<double>(w);
  else if (is_real(w.dtype)) largest<float>(w);
  else largest<i64>(w);
}
extern "C" __global__ void average_pool(const __grid_constant__ Windows w) {
  if (w.dtype == kFloat64) average<double>(w);
  else if (is_real(w.dtype)) average<float>(w);
  else average<i64>(w);
}
extern "C" __global__ void power_pool(const __grid_constant__ Windows w) {
  if (w.dtype == kFloat64) power_mean<double>(w);
  else power_mean<float>(w);
}

// Where each element of in goes; n: elements of an input that lies in one piece, out_size: places of an image.
extern "C" __global__ void unpool_items(const __grid_constant__ Windows w) {
  const i64 places = w.out_size[0] * w.out_size[1] * w.out_size[2];
  const i64 of_image = w.n / w.batch;
  for (i64 at = first_of_thread(); at < w.n; at += threads_of_grid()) {
    const i64 place = w.index_dtype == kInt64 ? w.indices[at] : reinterpret_cast<const int*>(w.indices)[at];
    u64 key = kNanKey;
    if (place < 0 || place >= places) report(w.reporter.to, kIndexOutside, w.reporter.op, place, places);
    else key = static_cast<u64>((at / of_image * places + place) * w.channels + at % w.channels);
    static_cast<Item*>(w.items)[at] = {key, at};
  }
}

// ---------------------------------------------------------------- windows as rows: [batch, windows, channels * places]
extern "C" __global__ void windows_to_rows(const __grid_constant__ Windows w) {
  const i64 places = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const int bytes = bytes_of(w.dtype);
  const i64 zero = 0;
  for (i64 at = first_of_thread(); at < w.n; at += threads_of_grid()) {
    i64 k = at % places;
    const i64 channel = at / places % w.channels;
    i64 rest = at / places / w.channels, pixel = 0, step = 1;
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
      const i64 i = rest % w.out_size[d] * w.stride[d] - w.pad[d] + k % w.kernel[d] * w.dilation[d];
      rest /= w.out_size[d];
      k /= w.kernel[d];
      inside = inside && i >= 0 && i < w.in_size[d];
      pixel += i * step;
      step *= w.in_size[d];
    }
    const i64 offset = (rest * step + pixel) * w.channels + channel;
    const void* from = inside ? static_cast<const void*>(static_cast<const char*>(w.in) + offset * bytes) : &zero;
    move_element(static_cast<char*>(w.out) + at * bytes, from, bytes);
  }
}
// A thread per pixel and channel of the image (in_size) adds what lies over it, window by window.
template <class C>
CLIKA_INLINE void rows_to_image(const Windows& w) {
  const i64 places = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const i64 windows = w.out_size[0] * w.out_size[1] * w.out_size[2];
  const int bytes = bytes_of(w.dtype);
  for (i64 at = first_of_thread(); at < w.n; at += threads_of_grid()) {
    const i64 channel = at % w.channels;
    i64 rest = at / w.channels, pixel[3];
    for (int d = 2; d >= 0; --d) {
      pixel[d] = rest % w.in_size[d];
      rest /= w.in_size[d];
    }
    C sum = C(0);
    // Windows ascend where places descend.
    for (i64 k = places - 1; k >= 0; --k) {
      i64 left = k, window = 0, step = 1;
      bool over = true;
      for (int d = 2; d >= 0; --d) {
        const i64 start = pixel[d] + w.pad[d] - left % w.kernel[d] * w.dilation[d];
        left /= w.kernel[d];
        const i64 number = start / w.stride[d];
        over = over && start >= 0 && start % w.stride[d] == 0 && number < w.out_size[d];
        window += number * step;
        step *= w.out_size[d];
      }
      if (!over) continue;
      const i64 offset = ((rest * windows + window) * w.channels + channel) * places + k;
      const C x = load<C>(static_cast<const char*>(w.in) + offset * bytes, w.dtype);
      if constexpr (kWhole<C>) sum = static_cast<C>(static_cast<u64>(sum) + static_cast<u64>(x));
      else sum += x;
    }
    put_result<C>(w, at, sum);
  }
}
extern "C" __global__ void add_windows(const __grid_constant__ Windows w) {
  if (w.dtype == kFloat64) rows_to_image<double>(w);
  else if (is_real(w.dtype)) rows_to_image<float>(w);
  else rows_to_image<i64>(w);
}
