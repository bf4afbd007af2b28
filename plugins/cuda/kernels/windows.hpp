// Images as the arguments of window_arguments.cuh.
#pragma once

#include "launch.hpp"
#include "window_arguments.cuh"

namespace clika_cuda {

inline int64_t number_at(const clika_attr& attr, int i) { return attr.v.ints[attr.n == 1 ? 0 : i]; }

// An image [N, spatial..., C] or [spatial..., C] of n spatial dims; whatever slides over it has size 1.
inline clika_device::Windows windows_of(const clika_value& image, int n) {
  clika_device::Windows w{};
  w.in = image.data;
  w.dtype = image.dtype;
  w.batch = image.rank == n + 2 ? image.shape[0] : 1;
  w.channels = image.shape[image.rank - 1];
  for (int d = 0; d < 3; ++d) {
    w.in_size[d] = w.out_size[d] = w.kernel[d] = w.stride[d] = w.dilation[d] = 1;
    if (d >= 3 - n) w.in_size[d] = image.shape[image.rank - 1 - 3 + d];
  }
  return w;
}

}  // namespace clika_cuda
