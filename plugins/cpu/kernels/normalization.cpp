// batch_norm, instance_norm, group_norm over channels-last tensors, local_response_norm and normalize:
// float32 for the short floats, float64 for itself. Sums over pixels are kept in float64.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"

constexpr int64_t kRun = 32;  // pixels whose sum is one in the compute type before it joins the float64 sum

// [images][pixels][channels], normalized over the pixels of `joined` channels at a time.
template <class C>
struct Channels {
  const clika_value& in;
  clika_value& out;
  int64_t images;
  int64_t pixels;
  int64_t channels;
  LoadTile<C> load;
  StoreTile<C> store;

  explicit Channels(const clika_call* call)
      : in(call->inputs[0]),
        out(call->outputs[0]),
        images(in.shape[0]),
        channels(in.shape[in.rank - 1]),
        load(Tiles<C>::loader(in.dtype)),
        store(Tiles<C>::storer(out.dtype)) {
    pixels = channels == 0 || images == 0 ? 0 : elements(in) / (images * channels);
  }
  CLIKA_INLINE const C* row(int64_t pixel, C* buffer) const {
    if (Tiles<C>::direct(in.dtype)) return data_of<C>(in) + pixel * channels;
    load(buffer, in.data, pixel * channels, 1, channels);
    return buffer;
  }
  // total[c] = sum over pixels [begin, end) of d = x - from[c], or of its square. `part` and `buffer` hold a
  // row.
  void sums(int64_t begin, int64_t end, const double* from, bool squares, double* total, C* part,
            C* buffer) const {
    for (int64_t c = 0; c < channels; ++c) total[c] = 0.0;
    for (int64_t p = begin; p < end; p += kRun) {
      for (int64_t c = 0; c < channels; ++c) part[c] = C{0};
      for (int64_t q = p; q < std::min(end, p + kRun); ++q) {
        const C* x = row(q, buffer);
        for (int64_t c = 0; c < channels; ++c) {
          const C d = x[c] - static_cast<C>(from[c]);
          part[c] += squares ? d * d : d;
        }
      }
      for (int64_t c = 0; c < channels; ++c) total[c] += static_cast<double>(part[c]);
    }
  }
  // out = x * factor + shift for pixels [begin, end).
  void apply(int64_t begin, int64_t end, const C* mean, const C* factor, const C* shift, C* buffer) const {
    for (int64_t p = begin; p < end; ++p) {
      const C* x = row(p, buffer);
      C* to = Tiles<C>::direct(out.dtype) ? data_of<C>(out) + p * channels : buffer;
      for (int64_t c = 0; c < channels; ++c) to[c] = (x[c] - mean[c]) * factor[c] + shift[c];
      if (!Tiles<C>::direct(out.dtype)) store(to, out.data, p * channels, 1, channels);
    }
  }
};

// Averages neighbouring channels of each of `groups`, over `count` values of each channel.
inline void join(double* total, int64_t channels, int64_t groups, double count) {
  const int64_t size = channels / groups;
  for (int64_t g = 0; g < groups; ++g) {
    double sum = 0.0;
    for (int64_t c = 0; c < size; ++c) sum += total[g * size + c];
    for (int64_t c = 0; c < size; ++c) total[g * size + c] = sum / (count * static_cast<double>(size));
  }
}

// The optional [C] input as the compute type, or a value for all.
template <class C>
void channel_values(const clika_call* call, uint32_t i, int64_t channels, double otherwise, C* to) {
  if (present(call, i)) {
    const clika_value& v = call->inputs[i];
    Tiles<C>::loader(v.dtype)(to, v.data, 0, channels > 1 ? v.strides[0] : 1, channels);
    return;
  }
  for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<C>(otherwise);
}

// (x - mean) * factor + bias as (x - at) * factor + shift, where `at` is the mean as C holds it: what that
// leaves out goes into the shift.
template <class C>
void factors(const double* mean, const double* variance, int64_t channels, double eps, const C* weight,
             const C* bias, C* at, C* factor, C* shift) {
  for (int64_t c = 0; c < channels; ++c) {
    const double by = static_cast<double>(weight[c]) / std::sqrt(variance[c] + eps);
    at[c] = static_cast<C>(mean[c]);
    factor[c] = static_cast<C>(by);
    shift[c] = static_cast<C>(static_cast<double>(bias[c]) - (mean[c] - static_cast<double>(at[c])) * by);
  }
}

// Statistics of `units` ranges of pixels, one after the other: of all images together (batch_norm), or of
// each (instance_norm, group_norm); or given ones.
template <class C>
int32_t normalize_channels(const clika_call* call, uint32_t weight, bool own, bool together, int64_t groups,
                           double eps) {
  const Channels<C> x(call);
  if (elements(x.out) == 0) return CLIKA_OK;
  const int64_t n = x.channels;
  const int64_t all = x.images * x.pixels;
  const int64_t workers = call->core->num_threads();
  // Per worker: two rows of double, five of C; then weight and bias.
  const int64_t room = (n * (5 * static_cast<int64_t>(sizeof(C)) + 16) + 127) / 64 * 64;
  char* memory = static_cast<char*>(call->core->scratch(
      call, static_cast<size_t>(workers * room + 2 * n * static_cast<int64_t>(sizeof(C)))));
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  C* weights = reinterpret_cast<C*>(memory + workers * room);
  C* biases = weights + n;
  channel_values(call, weight, n, 1.0, weights);
  channel_values(call, weight + 1, n, 0.0, biases);
  struct Room {
    double* mean;
    double* variance;
    C* part;
    C* buffer;
    C* at;
    C* factor;
    C* shift;
  };
  const auto room_of = [&](int64_t worker) {
    Room r;
    r.mean = reinterpret_cast<double*>(memory + worker * room);
    r.variance = r.mean + n;
    r.part = reinterpret_cast<C*>(r.variance + n);
    r.buffer = r.part + n;
    r.at = r.buffer + n;
    r.factor = r.at + n;
    r.shift = r.factor + n;
    return r;
  };
  const auto measure = [&](const Room& r, int64_t begin, int64_t end) {
    const double count = static_cast<double>(end - begin);
    // Counted from the first pixel, so that values far from 0 lose nothing.
    const C* first = x.row(begin, r.buffer);
    for (int64_t c = 0; c < n; ++c) r.variance[c] = static_cast<double>(first[c]);
    x.sums(begin, end, r.variance, false, r.mean, r.part, r.buffer);
    for (int64_t c = 0; c < n; ++c) r.mean[c] += r.variance[c] * count;
    join(r.mean, n, groups, count);
    x.sums(begin, end, r.mean, true, r.variance, r.part, r.buffer);
    join(r.variance, n, groups, count);
    factors(r.mean, r.variance, n, eps, weights, biases, r.at, r.factor, r.shift);
  };
  if (own && !together) {
    parallel(call, x.images, std::max<int64_t>(1, 16384 / (x.pixels * n)),
             [&](int64_t begin, int64_t end, int32_t worker) {
               const Room r = room_of(worker);
               for (int64_t i = begin; i < end; ++i) {
                 measure(r, i * x.pixels, (i + 1) * x.pixels);
                 x.apply(i * x.pixels, (i + 1) * x.pixels, r.at, r.factor, r.shift, r.buffer);
               }
             });
    return CLIKA_OK;
  }
  const Room first = room_of(0);
  if (own) {
    measure(first, 0, all);
  } else {
    channel_values(call, 1, n, 0.0, first.part);
    channel_values(call, 2, n, 1.0, first.buffer);
    for (int64_t c = 0; c < n; ++c) {
      first.mean[c] = static_cast<double>(first.part[c]);
      first.variance[c] = static_cast<double>(first.buffer[c]);
    }
    factors(first.mean, first.variance, n, eps, weights, biases, first.at, first.factor, first.shift);
  }
  parallel(call, all, std::max<int64_t>(1, 32768 / n), [&](int64_t begin, int64_t end, int32_t worker) {
    x.apply(begin, end, first.at, first.factor, first.shift, room_of(worker).buffer);
  });
  return CLIKA_OK;
}

int32_t choose(const clika_call* call, uint32_t weight, bool own, bool together, int64_t groups, double eps) {
  return call->inputs[0].dtype == CLIKA_FLOAT64
             ? normalize_channels<double>(call, weight, own, together, groups, eps)
             : normalize_channels<float>(call, weight, own, together, groups, eps);
}

// input, running_mean?, running_var?, weight?, bias?; attr training; scalars momentum, eps.
int32_t run_batch(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  return choose(call, 3, attr_int(call, 0, 0) != 0, true, in.shape[in.rank - 1], scalar_float(call, 1, 1e-5));
}
int32_t run_instance(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const bool own = attr_int(call, 0, 1) != 0;
  return choose(call, 3, own, false, in.shape[in.rank - 1], scalar_float(call, 1, 1e-5));
}
// input, weight?, bias?; attr num_groups; scalar eps.
int32_t run_group(const clika_call* call) {
  return choose(call, 1, true, false, attr_int(call, 0, 1), scalar_float(call, 0, 1e-5));
}

// ------------------------------------------------------------------ neighbouring channels
// The type in which numbers are multiplied and added without undefined overflow.
template <class T>
struct Unsigned {
  using type = T;
};
template <>
struct Unsigned<int64_t> {
  using type = uint64_t;
};

// attr size; scalars alpha, beta, k. Integers are read as int64, their mean is rounded towards 0.
template <class C, class In>
int32_t respond(const clika_call* call) {
  using U = typename Unsigned<In>::type;
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t channels = in.shape[in.rank - 1];
  if (elements(out) == 0) return CLIKA_OK;
  const int64_t rows = elements(out) / channels;
  const int64_t size = attr_int(call, 0, 1);
  const C alpha = static_cast<C>(scalar_float(call, 0, 1e-4));
  const C beta = static_cast<C>(scalar_float(call, 1, 0.75));
  const C base = static_cast<C>(scalar_float(call, 2, 1.0));
  const int64_t workers = call->core->num_threads();
  const int64_t room = 2 * channels;
  In* memory = static_cast<In*>(call->core->scratch(call, static_cast<size_t>(workers * room) * sizeof(In)));
  C* results =
      static_cast<C*>(call->core->scratch(call, static_cast<size_t>(workers * channels) * sizeof(C)));
  if (memory == nullptr || results == nullptr) return CLIKA_UNAVAILABLE;
  const LoadTile<In> load = Tiles<In>::loader(in.dtype);
  const StoreTile<C> store = Tiles<C>::storer(out.dtype);
  const int64_t grain = std::max<int64_t>(1, 4096 / channels);
  parallel(call, rows, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    In* x = memory + worker * room;
    In* squares = x + channels;
    C* y = results + worker * channels;
    for (int64_t r = begin; r < end; ++r) {
      load(x, in.data, r * channels, 1, channels);
      for (int64_t c = 0; c < channels; ++c) {
        squares[c] = static_cast<In>(static_cast<U>(x[c]) * static_cast<U>(x[c]));
      }
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t from = std::max<int64_t>(0, c - size / 2);
        const int64_t to = std::min(channels, c - size / 2 + size);
        In sum = In{0};
        for (int64_t i = from; i < to; ++i) {
          sum = static_cast<In>(static_cast<U>(sum) + static_cast<U>(squares[i]));
        }
        const C mean = static_cast<C>(sum / static_cast<In>(size));
        y[c] = static_cast<C>(x[c]) / std::pow(mean * alpha + base, beta);
      }
      store(y, out.data, r * channels, 1, channels);
    }
  });
  return CLIKA_OK;
}

int32_t run_response(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return respond<float, float>(call);
    case kDouble:
      return respond<double, double>(call);
    default:
      return respond<float, int64_t>(call);
  }
}

// ------------------------------------------------------------------ unit length
// The p-norm of a line of n numbers, from their absolute values.
template <class C>
double norm_of(const C* x, int64_t n, double p, double sum) {
  if (p == 2.0) {
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  } else if (p == 1.0) {
    for (int64_t i = 0; i < n; ++i) sum += std::fabs(static_cast<double>(x[i]));
  } else if (p == 0.0) {
    for (int64_t i = 0; i < n; ++i) sum += x[i] != C{0} ? 1.0 : 0.0;
  } else if (std::isinf(p)) {
    for (int64_t i = 0; i < n; ++i) {
      const double a = std::fabs(static_cast<double>(x[i]));
      if (a != a || (p > 0.0 ? a > sum : a < sum)) sum = a;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) sum += std::pow(std::fabs(static_cast<double>(x[i])), p);
  }
  return sum;
}

// attr dim; scalars p, eps.
template <class C>
int32_t to_unit(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const double p = scalar_float(call, 0, 2.0);
  const double eps = scalar_float(call, 1, 1e-12);
  const int64_t dim = attr_int(call, 0, 1);
  const Lines from(in, dim);
  const Lines to(out, dim);
  const LoadTile<C> load = Tiles<C>::loader(in.dtype);
  const StoreTile<C> store = Tiles<C>::storer(out.dtype);
  const int64_t grain = std::max<int64_t>(1, 8192 / from.length);
  parallel(call, from.count, grain, [&](int64_t begin, int64_t end, int32_t) {
    C x[kTile];
    for (int64_t line = begin; line < end; ++line) {
      double sum = std::isinf(p) && p < 0.0 ? std::numeric_limits<double>::infinity() : 0.0;
      for (int64_t i = 0; i < from.length; i += kTile) {
        const int64_t n = std::min(kTile, from.length - i);
        load(x, in.data, from.offset(line) + i * from.step, from.step, n);
        sum = norm_of(x, n, p, sum);
      }
      if (p == 2.0) sum = std::sqrt(sum);
      if (p != 0.0 && p != 1.0 && p != 2.0 && !std::isinf(p)) sum = std::pow(sum, 1.0 / p);
      const C by = static_cast<C>(sum < eps ? eps : sum);
      for (int64_t i = 0; i < from.length; i += kTile) {
        const int64_t n = std::min(kTile, from.length - i);
        load(x, in.data, from.offset(line) + i * from.step, from.step, n);
        for (int64_t j = 0; j < n; ++j) x[j] = x[j] / by;
        store(x, out.data, to.offset(line) + i * to.step, to.step, n);
      }
    }
  });
  return CLIKA_OK;
}

int32_t run_normalize(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? to_unit<double>(call) : to_unit<float>(call);
}

constexpr uint64_t kReal = FLOATS | F64;

CLIKA_KERNELS(normalization,
              Entry("batch_norm", run_batch).in(kReal).out(kReal).contiguous().parallel(),
              Entry("instance_norm", run_instance).in(kReal).out(kReal).contiguous().parallel(),
              Entry("group_norm", run_group).in(kReal).out(kReal).contiguous().parallel(),
              Entry("local_response_norm", run_response).in(kReal | INTS).out(kReal).contiguous().parallel(),
              Entry("normalize", run_normalize).in(kReal).out(kReal).parallel())
#include "level_end.hpp"
