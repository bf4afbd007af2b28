// Pooling over 1 to 3 spatial dimensions, channels last: values of windows are folded channel by channel, in
// ascending order of the window's places. Included after elementwise.hpp.
//
// C is the compute type; a tile of channels is loaded from each place of a window in turn.

constexpr int64_t kChannels = 128;  // in a tile

// The places of a window along one axis: from, from + step, ... below `to`, all within the input. `size` is
// how many of them count as the window's, with padding.
struct Span {
  int64_t from;
  int64_t to;
  int64_t size;
};

struct Pooling {
  const clika_value* input;
  int64_t batch = 1;
  int64_t channels;
  int64_t in_size[3] = {1, 1, 1};
  int64_t out_size[3] = {1, 1, 1};
  int64_t step[3] = {1, 1, 1};
  Span* spans[3] = {nullptr, nullptr, nullptr};
  int64_t kernel = 1;  // places of a whole window

  // The input and result are [N, spatial..., C] or [spatial..., C]. False after a failed allocation.
  bool open(const clika_call* call, int32_t n) {
    const clika_value& out = call->outputs[0];
    input = &call->inputs[0];
    channels = input->shape[input->rank - 1];
    if (input->rank == n + 2) batch = input->shape[0];
    int64_t total = 0;
    for (int32_t i = 0; i < n; ++i) {
      in_size[3 - n + i] = input->shape[input->rank - 1 - n + i];
      out_size[3 - n + i] = out.shape[out.rank - 1 - n + i];
    }
    for (int d = 0; d < 3; ++d) total += out_size[d];
    Span* memory = static_cast<Span*>(call->core->scratch(call, static_cast<size_t>(total) * sizeof(Span)));
    if (memory == nullptr) return false;
    for (int d = 0; d < 3; ++d) {
      spans[d] = memory;
      memory += out_size[d];
      for (int64_t i = 0; i < out_size[d]; ++i) spans[d][i] = {0, 1, 1};
    }
    return true;
  }

  static int64_t number(const clika_attr& attr, int32_t i) { return attr.v.ints[attr.n == 1 ? 0 : i]; }

  // Sliding windows. An absent or empty stride is the kernel's size.
  void slide(int32_t n, const clika_attr& kernels, const clika_attr& strides, const clika_attr* pads,
             const clika_attr* dilations) {
    for (int32_t i = 0; i < n; ++i) {
      const int d = 3 - n + i;
      const int64_t k = number(kernels, i);
      const int64_t pad = pads == nullptr ? 0 : number(*pads, i);
      const bool given = strides.kind == CLIKA_ATTR_INTS && strides.n > 0;
      const int64_t stride = given ? number(strides, i) : k;
      step[d] = dilations == nullptr ? 1 : number(*dilations, i);
      kernel *= k;
      for (int64_t o = 0; o < out_size[d]; ++o) {
        const int64_t start = o * stride - pad;
        const int64_t stop = std::min(start + (k - 1) * step[d] + 1, in_size[d] + pad);
        const int64_t skipped = start < 0 ? (-start + step[d] - 1) / step[d] * step[d] : 0;
        spans[d][o] = {start + skipped, std::min(stop, in_size[d]), stop - start};
      }
    }
  }
  // Windows that cover the input evenly.
  void adapt() {
    for (int d = 0; d < 3; ++d) {
      for (int64_t o = 0; o < out_size[d]; ++o) {
        // i * L / O without overflow of the product.
        const int64_t whole = in_size[d] / out_size[d];
        const int64_t rest = in_size[d] % out_size[d];
        const int64_t from = o * whole + o * rest / out_size[d];
        const int64_t to = (o + 1) * whole + ((o + 1) * rest + out_size[d] - 1) / out_size[d];
        spans[d][o] = {from, to, to - from};
      }
    }
  }

  int64_t results() const { return batch * out_size[0] * out_size[1] * out_size[2]; }
  // Work of one result, for the split.
  int64_t grain() const {
    const double places = static_cast<double>(in_size[0] * in_size[1] * in_size[2]) /
                          static_cast<double>(std::max<int64_t>(1, out_size[0] * out_size[1] * out_size[2]));
    const double work = static_cast<double>(channels) * std::max(1.0, places);
    return std::max<int64_t>(1, static_cast<int64_t>(32768.0 / std::max(1.0, work)));
  }

  // Calls body(window, offset of the image in elements, index of the result) for results [begin, end).
  struct Window {
    Span span[3];
    int64_t size() const { return span[0].size * span[1].size * span[2].size; }
  };
  template <class Body>
  CLIKA_INLINE void each(int64_t begin, int64_t end, const Body& body) const {
    const int64_t image = in_size[0] * in_size[1] * in_size[2] * channels;
    for (int64_t i = begin; i < end; ++i) {
      Window w;
      int64_t rest = i;
      for (int d = 2; d >= 0; --d) {
        w.span[d] = spans[d][rest % out_size[d]];
        rest /= out_size[d];
      }
      body(w, rest * image, i);
    }
  }
  // Calls body(offset in elements from the image's start, flat place) for the places of a window.
  template <class Body>
  CLIKA_INLINE void places(const Window& w, const Body& body) const {
    for (int64_t a = w.span[0].from; a < w.span[0].to; a += step[0]) {
      for (int64_t b = w.span[1].from; b < w.span[1].to; b += step[1]) {
        for (int64_t c = w.span[2].from; c < w.span[2].to; c += step[2]) {
          const int64_t place = (a * in_size[1] + b) * in_size[2] + c;
          body(place * channels, place);
        }
      }
    }
  }
};

template <class C>
constexpr C lowest_of() {
  return std::is_floating_point<C>::value ? -std::numeric_limits<C>::infinity()
                                          : std::numeric_limits<C>::lowest();
}

// A tile of values: where they lie, or a copy.
template <class C>
struct Reader {
  const clika_value& v;
  LoadTile<C> loader;
  bool direct;
  explicit Reader(const clika_value& value)
      : v(value), loader(Tiles<C>::loader(value.dtype)), direct(Tiles<C>::direct(value.dtype)) {}
  CLIKA_INLINE const C* read(int64_t offset, int64_t n, C* buffer) const {
    if (direct) return data_of<C>(v) + offset;
    loader(buffer, v.data, offset, 1, n);
    return buffer;
  }
};

// Sums and quotients: integers wrap around.
template <class C>
CLIKA_INLINE C plus(C a, C b) {
  if constexpr (std::is_integral<C>::value) {
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class C>
CLIKA_INLINE C over(C a, C b) {
  if constexpr (std::is_integral<C>::value) {
    if (b == C{-1}) return static_cast<C>(uint64_t{0} - static_cast<uint64_t>(a));
  }
  return a / b;
}

template <class C>
void max_pool(const clika_call* call, const Pooling& p) {
  clika_value& out = call->outputs[0];
  int64_t* indices = call->n_outputs > 1 ? data_of<int64_t>(call->outputs[1]) : nullptr;
  const Reader<C> reader(*p.input);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  parallel(call, p.results(), p.grain(), [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C buffer[kChannels];
    alignas(64) C best[kChannels];
    int64_t at[kChannels];
    p.each(begin, end, [&](const Pooling::Window& w, int64_t image, int64_t result) {
      for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
        const int64_t n = std::min(kChannels, p.channels - channel);
        for (int64_t c = 0; c < n; ++c) {
          best[c] = lowest_of<C>();
          at[c] = 0;
        }
        if (indices == nullptr) {
          p.places(w, [&](int64_t offset, int64_t) {
            const C* x = reader.read(image + offset + channel, n, buffer);
            for (int64_t c = 0; c < n; ++c) best[c] = x[c] > best[c] || x[c] != x[c] ? x[c] : best[c];
          });
        } else {
          bool first = true;
          p.places(w, [&](int64_t offset, int64_t place) {
            const C* x = reader.read(image + offset + channel, n, buffer);
            for (int64_t c = 0; c < n; ++c) {
              const bool better = first || x[c] > best[c] || x[c] != x[c];
              best[c] = better ? x[c] : best[c];
              at[c] = better ? place : at[c];
            }
            first = false;
          });
          std::memcpy(indices + result * p.channels + channel, at, static_cast<size_t>(n) * 8);
        }
        storer(best, out.data, result * p.channels + channel, 1, n);
      }
    });
  });
}

// The sum of each window over its divisor. divisor 0: what the window counts; `inside`: without padding.
template <class C>
void avg_pool(const clika_call* call, const Pooling& p, int64_t divisor, bool inside) {
  clika_value& out = call->outputs[0];
  const Reader<C> reader(*p.input);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  parallel(call, p.results(), p.grain(), [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C buffer[kChannels];
    alignas(64) C sum[kChannels];
    p.each(begin, end, [&](const Pooling::Window& w, int64_t image, int64_t result) {
      int64_t count = w.size();
      if (inside) {
        count = 1;
        for (const Span& s : w.span) count *= std::max<int64_t>(0, s.to - s.from);
      }
      const C by = static_cast<C>(divisor != 0 ? divisor : std::max<int64_t>(1, count));
      for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
        const int64_t n = std::min(kChannels, p.channels - channel);
        for (int64_t c = 0; c < n; ++c) sum[c] = C{0};
        p.places(w, [&](int64_t offset, int64_t) {
          const C* x = reader.read(image + offset + channel, n, buffer);
          for (int64_t c = 0; c < n; ++c) sum[c] = plus(sum[c], x[c]);
        });
        for (int64_t c = 0; c < n; ++c) sum[c] = over(sum[c], by);
        storer(sum, out.data, result * p.channels + channel, 1, n);
      }
    });
  });
}

// (sum of x^power)^(1 / power), the sum scaled to a whole window.
template <class C>
void lp_pool(const clika_call* call, const Pooling& p, double power) {
  clika_value& out = call->outputs[0];
  const Reader<C> reader(*p.input);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const C exponent = static_cast<C>(power);
  const C root = static_cast<C>(1.0 / power);
  parallel(call, p.results(), p.grain(), [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C buffer[kChannels];
    alignas(64) C sum[kChannels];
    p.each(begin, end, [&](const Pooling::Window& w, int64_t image, int64_t result) {
      const C scale = static_cast<C>(static_cast<double>(p.kernel) / static_cast<double>(w.size()));
      for (int64_t channel = 0; channel < p.channels; channel += kChannels) {
        const int64_t n = std::min(kChannels, p.channels - channel);
        for (int64_t c = 0; c < n; ++c) sum[c] = C{0};
        p.places(w, [&](int64_t offset, int64_t) {
          const C* x = reader.read(image + offset + channel, n, buffer);
          for (int64_t c = 0; c < n; ++c) {
            sum[c] += exponent == C{2} ? x[c] * x[c] : exponent == C{1} ? x[c] : std::pow(x[c], exponent);
          }
        });
        for (int64_t c = 0; c < n; ++c) {
          sum[c] = exponent == C{2} ? std::sqrt(sum[c] * scale) : std::pow(sum[c] * scale, root);
        }
        storer(sum, out.data, result * p.channels + channel, 1, n);
      }
    });
  });
}

// ------------------------------------------------------------------ entries
template <int N, class C>
int32_t run_max(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  Pooling p;
  if (!p.open(call, N)) return CLIKA_UNAVAILABLE;
  p.slide(N, call->attrs[0], call->attrs[1], &call->attrs[2], &call->attrs[3]);
  max_pool<C>(call, p);
  return CLIKA_OK;
}
template <int N, class C>
int32_t run_adaptive_max(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  Pooling p;
  if (!p.open(call, N)) return CLIKA_UNAVAILABLE;
  p.adapt();
  max_pool<C>(call, p);
  return CLIKA_OK;
}
// attrs: kernel, stride, padding, ceil_mode, count_include_pad, divisor_override.
template <int N, class C>
int32_t run_average(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  Pooling p;
  if (!p.open(call, N)) return CLIKA_UNAVAILABLE;
  p.slide(N, call->attrs[0], call->attrs[1], &call->attrs[2], nullptr);
  avg_pool<C>(call, p, attr_int(call, 5, 0), attr_int(call, 4, 1) == 0);
  return CLIKA_OK;
}
template <int N, class C>
int32_t run_adaptive_average(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  Pooling p;
  if (!p.open(call, N)) return CLIKA_UNAVAILABLE;
  p.adapt();
  avg_pool<C>(call, p, 0, false);
  return CLIKA_OK;
}
// attrs: kernel, stride, ceil_mode; scalar norm_type.
template <int N, class C>
int32_t run_power(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const double power = scalar_float(call, 0, 2.0);
  if (power == 0.0) return refuse(call, "lp_pool%dd: norm_type must not be 0", N);
  Pooling p;
  if (!p.open(call, N)) return CLIKA_UNAVAILABLE;
  p.slide(N, call->attrs[0], call->attrs[1], nullptr, nullptr);
  lp_pool<C>(call, p, power);
  return CLIKA_OK;
}
