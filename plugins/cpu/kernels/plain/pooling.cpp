// Pooling of float64 and integers, and the inverse of max pooling for every dtype.
#include "level.hpp"
#include "elementwise.hpp"
#include "pooling.hpp"

// The kernel of a compute type by the input's dtype.
using Run = int32_t (*)(const clika_call*);
template <Run on_double, Run on_int>
int32_t choose(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? on_double(call) : on_int(call);
}

// input, indices; the result is [N, spatial..., C] or [spatial..., C].
template <int N, class U>
int32_t unpool(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const clika_value& indices = call->inputs[1];
  clika_value& out = call->outputs[0];
  const int64_t channels = input.shape[input.rank - 1];
  const int64_t images = input.rank == N + 2 ? input.shape[0] : 1;
  const int64_t all = elements(input);
  const int64_t made = elements(out);
  std::memset(out.data, 0, static_cast<size_t>(made) * sizeof(U));
  if (all == 0) return CLIKA_OK;
  const int64_t places = made / (images * channels);
  const int64_t of_image = all / images;
  const LoadTile<int64_t> load = Tiles<int64_t>::loader(indices.dtype);
  const U* from = data_of<U>(input);
  U* to = data_of<U>(out);
  for (int64_t i = 0; i < all; ++i) {
    int64_t place;
    load(&place, indices.data, i, 1, 1);
    if (place < 0 || place >= places) {
      return refuse(call, "max_unpool%dd: index %lld is outside the %lld places of the result", N,
                    static_cast<long long>(place), static_cast<long long>(places));
    }
    to[(i / of_image * places + place) * channels + i % channels] = from[i];
  }
  return CLIKA_OK;
}
template <int N>
int32_t run_unpool(const clika_call* call) {
  switch (bytes_of(call->inputs[0].dtype)) {
    case 1:
      return unpool<N, uint8_t>(call);
    case 2:
      return unpool<N, uint16_t>(call);
    case 4:
      return unpool<N, uint32_t>(call);
    default:
      return unpool<N, uint64_t>(call);
  }
}

constexpr uint64_t kWide = F64 | SINTS | (UINTS & ~CLIKA_BIT(CLIKA_UINT64));
constexpr Entry any(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(kWide).out(kWide).contiguous().parallel();
}
constexpr Entry wide(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(F64).out(F64).contiguous().parallel();
}
constexpr Entry inverse(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(FLOATS | F64 | INTS, I32 | I64).out(FLOATS | F64 | INTS).contiguous();
}

CLIKA_KERNELS(pooling, any("max_pool1d", choose<run_max<1, double>, run_max<1, int64_t>>),
              any("max_pool2d", choose<run_max<2, double>, run_max<2, int64_t>>),
              any("max_pool3d", choose<run_max<3, double>, run_max<3, int64_t>>),
              any("avg_pool1d", choose<run_average<1, double>, run_average<1, int64_t>>),
              any("avg_pool2d", choose<run_average<2, double>, run_average<2, int64_t>>),
              any("avg_pool3d", choose<run_average<3, double>, run_average<3, int64_t>>),
              wide("lp_pool1d", run_power<1, double>), wide("lp_pool2d", run_power<2, double>),
              wide("lp_pool3d", run_power<3, double>),
              wide("adaptive_avg_pool1d", run_adaptive_average<1, double>),
              wide("adaptive_avg_pool2d", run_adaptive_average<2, double>),
              wide("adaptive_avg_pool3d", run_adaptive_average<3, double>),
              any("adaptive_max_pool1d", choose<run_adaptive_max<1, double>, run_adaptive_max<1, int64_t>>),
              any("adaptive_max_pool2d", choose<run_adaptive_max<2, double>, run_adaptive_max<2, int64_t>>),
              any("adaptive_max_pool3d", choose<run_adaptive_max<3, double>, run_adaptive_max<3, int64_t>>),
              inverse("max_unpool1d", run_unpool<1>), inverse("max_unpool2d", run_unpool<2>),
              inverse("max_unpool3d", run_unpool<3>))
#include "level_end.hpp"
