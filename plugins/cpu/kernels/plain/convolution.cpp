// Convolutions of float64 and integers (which wrap around): plain loops.
#include <numeric>

#include "level.hpp"
#include "elementwise.hpp"
#include "convolution.hpp"

// The results of one line: C is the compute type, U the type in which it is summed.
template <class C, class U>
struct Line {
  const Convolution& c;
  const Axis* axes;

  U sum(const C* image, const C* weights, const int64_t* q, int64_t o) const {
    const int64_t group = o / c.group_made;
    U total = 0;
    for (int64_t j0 = 0; j0 < axes[0].taps; ++j0) {
      const int64_t i0 = Convolution::reads(axes[0], q[0], j0);
      if (i0 < 0 || i0 >= c.in_size[0]) continue;
      for (int64_t j1 = 0; j1 < axes[1].taps; ++j1) {
        const int64_t i1 = Convolution::reads(axes[1], q[1], j1);
        if (i1 < 0 || i1 >= c.in_size[1]) continue;
        for (int64_t j2 = 0; j2 < axes[2].taps; ++j2) {
          const int64_t i2 = Convolution::reads(axes[2], q[2], j2);
          if (i2 < 0 || i2 >= c.in_size[2]) continue;
          const C* x = image + ((i0 * c.in_size[1] + i1) * c.in_size[2] + i2) * c.channels;
          x += group * c.group_channels;
          // Forward [made, places, channels of a group], transposed [channels, places, made of a group].
          const int64_t place = c.place(axes, j0, j1, j2);
          const int64_t step = c.transposed ? c.places() * c.group_made : 1;
          const C* w = weights;
          if (c.transposed) {
            w += group * c.group_channels * step + place * c.group_made + o % c.group_made;
          } else {
            w += (o * c.places() + place) * c.group_channels;
          }
          for (int64_t k = 0; k < c.group_channels; ++k) {
            total += static_cast<U>(x[k]) * static_cast<U>(w[k * step]);
          }
        }
      }
    }
    return total;
  }
};

// All of a tensor in the compute type; null after a failed allocation.
template <class C>
const C* whole(const clika_call* call, const clika_value& v) {
  if (Tiles<C>::direct(v.dtype)) return data_of<C>(v);
  const int64_t n = elements(v);
  C* copy = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
  if (copy != nullptr) Tiles<C>::loader(v.dtype)(copy, v.data, 0, 1, n);
  return copy;
}

template <class C, class U>
int32_t convolve(const clika_call* call, const Convolution& c) {
  const C* input = whole<C>(call, *c.input);
  const C* weights = whole<C>(call, *c.weight);
  const C* bias = c.bias == nullptr ? nullptr : whole<C>(call, *c.bias);
  if (input == nullptr || weights == nullptr) return CLIKA_UNAVAILABLE;
  if (c.bias != nullptr && bias == nullptr) return CLIKA_UNAVAILABLE;
  const StoreTile<C> storer = Tiles<C>::storer(c.out->dtype);
  const int64_t image = c.in_size[0] * c.in_size[1] * c.in_size[2] * c.channels;
  for (int64_t phase = 0; phase < c.phases(); ++phase) {
    Axis axes[3];
    c.phase(phase, axes);
    const Line<C, U> line{c, axes};
    const int64_t pixels = c.batch * axes[0].count * axes[1].count * axes[2].count;
    const int64_t work = c.made * c.places() * std::max<int64_t>(1, c.group_channels);
    parallel(call, pixels, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t q[3];
        int64_t rest = i;
        for (int d = 2; d >= 0; --d) {
          q[d] = rest % axes[d].count;
          rest /= axes[d].count;
        }
        int64_t to = rest;
        for (int d = 0; d < 3; ++d) to = to * c.out_size[d] + q[d] * axes[d].out_step + axes[d].out_base;
        for (int64_t o = 0; o < c.made; ++o) {
          U total = line.sum(input + rest * image, weights, q, o);
          if (bias != nullptr) total += static_cast<U>(bias[o]);
          const C value = static_cast<C>(total);
          storer(&value, c.out->data, to * c.made + o, 1, 1);
        }
      }
    });
  }
  return CLIKA_OK;
}

template <int N, bool transposed>
int32_t run(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const Convolution c(call, N, transposed);
  return c.input->dtype == CLIKA_FLOAT64 ? convolve<double, double>(call, c)
                                         : convolve<int64_t, uint64_t>(call, c);
}

constexpr Entry entry(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(F64 | INTS).out(F64 | INTS).contiguous().parallel();
}

CLIKA_KERNELS(convolution, entry("conv1d", run<1, false>), entry("conv2d", run<2, false>),
              entry("conv3d", run<3, false>), entry("conv_transpose1d", run<1, true>),
              entry("conv_transpose2d", run<2, true>), entry("conv_transpose3d", run<3, true>))
#include "level_end.hpp"
