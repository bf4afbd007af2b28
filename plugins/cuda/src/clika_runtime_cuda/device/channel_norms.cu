// batch_norm, instance_norm, group_norm over channels-last tensors, local_response_norm, normalize.
#include "prelude.cuh"
#include "general.cuh"

// in[0]: [units, pixels, channels]; i[0] pixels of a unit, i[1] channels, i[2] groups of neighbouring ones. A block per
// unit and group finds mean and variance: room[0].
extern "C" __global__ void __launch_bounds__(256) measure(const __grid_constant__ General g) {
  const i64 size = g.i[1] / g.i[2], group = blockIdx.x % g.i[2], unit = blockIdx.x / g.i[2];
  const i64 n = g.i[0] * size, first = unit * g.i[0] * g.i[1] + group * size;
  const auto add = [](double a, double b) { return a + b; };
  const auto at = [&](i64 i) { return item_of<double>(g.in[0], first + i / size * g.i[1] + i % size); };
  const double start = at(0);  // counted from there, so that values far from 0 lose nothing
  double sum = 0.0;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += at(i) - start;
  const double mean = start + over_block(sum, 0.0, add) / static_cast<double>(n);
  double squares = 0.0;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) squares += (at(i) - mean) * (at(i) - mean);
  squares = over_block(squares, 0.0, add);
  if (threadIdx.x == 0) {
    static_cast<double*>(g.room[0])[2 * blockIdx.x] = mean;
    static_cast<double*>(g.room[0])[2 * blockIdx.x + 1] = squares / static_cast<double>(n);
  }
}
// (x - mean) * factor + shift. Given statistics: out[1], out[2] of i[1] channels. in[1]: weight, in[2]: bias. f[0]: eps.
template <class C>
CLIKA_INLINE void apply_norm(const General& g) {
  const i64 size = g.i[1] / g.i[2];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 channel = at % g.i[1];
    double mean, variance;
    if (g.room[0] != nullptr) {
      const double* own = static_cast<const double*>(g.room[0]) + 2 * (at / (g.i[0] * g.i[1]) * g.i[2] + channel / size);
      mean = own[0];
      variance = own[1];
    } else {
      mean = g.out[1].dtype != 0 ? value_of<double>(g.out[1], channel) : 0.0;
      variance = g.out[2].dtype != 0 ? value_of<double>(g.out[2], channel) : 1.0;
    }
    const double weight = g.in[1].dtype != 0 ? value_of<double>(g.in[1], channel) : 1.0;
    const double bias = g.in[2].dtype != 0 ? value_of<double>(g.in[2], channel) : 0.0;
    const double by = weight / sqrt(variance + g.f[0]);
    const C x = item_of<C>(g.in[0], at);
    put_item<C>(g.out[0], at, static_cast<C>((static_cast<double>(x) - mean) * by + bias));
  }
}
extern "C" __global__ void normalize_channels(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) apply_norm<double>(g);
  else apply_norm<float>(g);
}

// i[0]: size of a window of i[1] channels; f: alpha, beta, k. Integers are read whole, their mean is rounded towards 0.
template <class C, class In>
CLIKA_INLINE void respond(const General& g) {
  const i64 size = g.i[0];
  const C alpha = static_cast<C>(g.f[0]), beta = static_cast<C>(g.f[1]), base = static_cast<C>(g.f[2]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 channel = at % g.i[1], row = at - channel;
    const i64 from = at_least(0, channel - size / 2), to = at_most(g.i[1], channel - size / 2 + size);
    In sum = In(0);
    for (i64 i = from; i < to; ++i) {
      const In x = item_of<In>(g.in[0], row + i);
      if constexpr (In(0.5) == In(0)) sum = static_cast<In>(static_cast<u64>(sum) + static_cast<u64>(x) * static_cast<u64>(x));
      else sum += x * x;
    }
    const C mean = static_cast<C>(sum / static_cast<In>(size));
    put_item<C>(g.out[0], at, static_cast<C>(item_of<In>(g.in[0], at)) / pow(mean * alpha + base, beta));
  }
}
extern "C" __global__ void response_norm(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) respond<double, double>(g);
  else if (is_real(g.in[0].dtype)) respond<float, float>(g);
  else respond<float, i64>(g);
}

// Lines, the last dim of in[0] and out[0], of i[0] elements; f: p, eps. A block per line.
extern "C" __global__ void __launch_bounds__(256) unit_lines(const __grid_constant__ General g) {
  const i64 n = g.i[0], first = blockIdx.x * n;
  const double p = g.f[0];
  const bool endless = isinf(p), smallest = endless && p < 0.0;
  double sum = smallest ? static_cast<double>(CLIKA_INFINITY) : 0.0;
  const double start = sum;
  const auto join = [&](double a, double b) {
    if (!endless) return a + b;
    if (a != a || b != b) return a != a ? a : b;
    return smallest == (a < b) ? a : b;
  };
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const double a = fabs(value_of<double>(g.in[0], first + i));
    sum = join(sum, endless ? a : p == 2.0 ? a * a : p == 1.0 ? a : p == 0.0 ? (a != 0.0 ? 1.0 : 0.0) : pow(a, p));
  }
  sum = over_block(sum, start, join);
  if (p == 2.0) sum = sqrt(sum);
  else if (p != 0.0 && p != 1.0 && !endless) sum = pow(sum, 1.0 / p);
  const double by = sum < g.f[1] ? g.f[1] : sum;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    if (g.in[0].dtype == kFloat64) put<double>(g.out[0], first + i, value_of<double>(g.in[0], first + i) / by);
    else put<float>(g.out[0], first + i, value_of<float>(g.in[0], first + i) / static_cast<float>(by));
  }
}
