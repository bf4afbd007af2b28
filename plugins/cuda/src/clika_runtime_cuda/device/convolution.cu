// Convolutions, also transposed, over 1 to 3 spatial dims: products of windows and weights in tiles. A block has 64 pixels
// of the result and 64 channels of one group. Sums go over the kernel's places, and over channels within. CLIKA_C: float,
// double or i64.
#include "prelude.cuh"
#include "window_arguments.cuh"

using C = CLIKA_C;
constexpr int kTile = 64, kDepth = 16, kEach = 4;

template <class T>
CLIKA_INLINE T added(T sum, T a, T b) {
  if constexpr (T(0.5) == T(0)) return static_cast<T>(static_cast<u64>(sum) + static_cast<u64>(a) * static_cast<u64>(b));
  else return sum + a * b;
}

// The input's place along axis d under place k of the kernel, for place q of the result; -1: none.
CLIKA_INLINE int source(const Windows& w, int d, int q, int k) {
  int i = 0;
  if (w.transposed != 0) {
    const int over = q + static_cast<int>(w.pad[d]) - k * static_cast<int>(w.dilation[d]);
    const int stride = static_cast<int>(w.stride[d]);
    if (over < 0 || over % stride != 0) return -1;
    i = over / stride;
  } else {
    i = q * static_cast<int>(w.stride[d]) - static_cast<int>(w.pad[d]) + k * static_cast<int>(w.dilation[d]);
  }
  return i >= 0 && i < w.in_size[d] ? i : -1;
}

extern "C" __global__ void __launch_bounds__(256) convolve(const __grid_constant__ Windows w) {
  __shared__ C windows[kDepth][kTile + 1];
  __shared__ C weights[kDepth][kTile + 1];
  __shared__ int pixels[kTile][3];
  __shared__ i64 images[kTile];
  const i64 all = w.batch * w.out_size[0] * w.out_size[1] * w.out_size[2];
  const i64 first_pixel = blockIdx.x * static_cast<i64>(kTile), first_made = blockIdx.y * static_cast<i64>(kTile);
  const i64 group = blockIdx.z;
  for (int r = threadIdx.x; r < kTile; r += blockDim.x) {
    i64 rest = first_pixel + r;
    for (int d = 2; d >= 0; --d) {
      pixels[r][d] = static_cast<int>(rest % w.out_size[d]);
      rest /= w.out_size[d];
    }
    images[r] = first_pixel + r < all ? rest : -1;
  }
  const i64 depth = w.kernel[0] * w.kernel[1] * w.kernel[2] * w.group_channels;
  const int bytes = bytes_of(w.dtype), weight_bytes = bytes_of(w.weight_dtype);
  const int row = threadIdx.x / (kTile / kEach) * kEach, column = threadIdx.x % (kTile / kEach) * kEach;
  C sums[kEach][kEach] = {};
  for (i64 from = 0; from < depth; from += kDepth) {
    __syncthreads();
    // A thread has one element of the depth, whose neighbours lie side by side in memory.
    const int k = threadIdx.x % kDepth;
    const i64 at = from + k;
    const i64 place = at / w.group_channels, channel = at - place * w.group_channels;
    const int k2 = static_cast<int>(place % w.kernel[2]), k1 = static_cast<int>(place / w.kernel[2] % w.kernel[1]),
              k0 = static_cast<int>(place / w.kernel[2] / w.kernel[1]);
    for (int r = threadIdx.x / kDepth; r < kTile; r += blockDim.x / kDepth) {
      C x = C(0);
      if (at < depth && images[r] >= 0) {
        const int i0 = source(w, 0, pixels[r][0], k0), i1 = source(w, 1, pixels[r][1], k1), i2 = source(w, 2, pixels[r][2], k2);
        if (i0 >= 0 && i1 >= 0 && i2 >= 0) {
          const i64 pixel = ((images[r] * w.in_size[0] + i0) * w.in_size[1] + i1) * w.in_size[2] + i2;
          const i64 offset = pixel * w.channels + group * w.group_channels + channel;
          x = load<C>(static_cast<const char*>(w.in) + offset * bytes, w.dtype);
        }
      }
      windows[k][r] = x;
      C y = C(0);
      if (at < depth && first_made + r < w.group_made) {
        const i64 offset = group * w.weight_group + (first_made + r) * w.weight_made + place * w.weight_place +
                           channel * w.weight_channel;
        y = load<C>(static_cast<const char*>(w.weight) + offset * weight_bytes, w.weight_dtype);
      }
      weights[k][r] = y;
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      C a[kEach], b[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        a[i] = windows[d][row + i];
        b[i] = weights[d][column + i];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] = added(sums[i][j], a[i], b[j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const i64 pixel = first_pixel + row + i, made = first_made + column + j;
      if (pixel >= all || made >= w.group_made) continue;
      const i64 channel = group * w.group_made + made;
      C x = sums[i][j];
      if (w.bias != nullptr) {
        x = added(x, load<C>(static_cast<const char*>(w.bias) + channel * bytes_of(w.bias_dtype), w.bias_dtype), C(1));
      }
      store<C>(static_cast<char*>(w.out) + (pixel * w.made + channel) * bytes, w.dtype, x);
    }
  }
}
