// rms_norm, layer_norm and add_rms_norm, in float32, rounded once.
#include "prelude.cuh"

template <class T>
CLIKA_INLINE float at(const void* p, i64 i) {
  return to_float(static_cast<const T*>(p)[i]);
}
CLIKA_INLINE float any_at(const void* p, int dtype, i64 i) {
  return load<float>(static_cast<const char*>(p) + i * bytes_of(dtype), dtype);
}
CLIKA_INLINE float total(float x) {
  return over_block(x, 0.0f, [](float a, float b) { return a + b; });
}

// ---------------------------------------------------------------- rows on whole 16 bytes, held in registers
template <class T>
struct alignas(16) Piece {
  static constexpr int kWide = 16 / sizeof(T);
  T x[kWide];
};
// `kWide` numbers of a weight from piece `at` on, of the rows' dtype or float32.
template <class T>
CLIKA_INLINE void weights(float (&w)[Piece<T>::kWide], const Norm& e, int at) {
  constexpr int kWide = Piece<T>::kWide;
  if (e.weight == nullptr) {
#pragma unroll
    for (int k = 0; k < kWide; ++k) w[k] = 1.0f;
  } else if (e.weight_dtype == e.dtype) {
    const Piece<T> piece = static_cast<const Piece<T>*>(e.weight)[at];
#pragma unroll
    for (int k = 0; k < kWide; ++k) w[k] = to_float(piece.x[k]) + e.offset;
  } else {
#pragma unroll
    for (int k = 0; k < kWide; k += 4) {
      const Piece<float> piece = static_cast<const Piece<float>*>(e.weight)[(at * kWide + k) / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[k + i] = piece.x[i] + e.offset;
    }
  }
}
// The sum of all pieces of a row, at most 64 groups of 32 pieces. The order depends on the row's size alone: pieces of a
// group, then groups, however many pieces a thread holds. `lanes` 32: the row is a warp's.
template <int kPieces>
CLIKA_INLINE float over_row(float (&sums)[kPieces], int lanes) {
  static_assert(kPieces == 1 || kPieces == 2 || kPieces == 4, "groups are added in pairs");
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) sums[j] += shuffle_xor(sums[j], step);
  }
  if (lanes == 32) {
    if constexpr (kPieces == 1) return sums[0];
    else if constexpr (kPieces == 2) return sums[0] + sums[1];
    else return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
  __shared__ float groups[64];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5, count = kPieces * warps;
  if (lane == 0) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) groups[j * warps + warp] = sums[j];
  }
  __syncthreads();
  float sum = (lane < count ? groups[lane] : 0.0f) + (lane + 32 < count ? groups[lane + 32] : 0.0f);
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) sum += shuffle_xor(sum, step);
  return sum;
}
// Each thread holds kPieces of a row; `lanes` threads have a row, a warp or the block.
template <class T, int kPieces>
CLIKA_INLINE void rms_pieces(const Norm& e) {
  constexpr int kWide = Piece<T>::kWide;
  constexpr bool kEarly = kPieces == 1;  // few rows: the weight comes along with the row
  const bool warps = e.lanes == 32;
  const i64 row = warps ? static_cast<i64>(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5) : blockIdx.x;
  if (row >= e.rows) return;
  const int first = warps ? threadIdx.x & 31 : threadIdx.x, pieces = static_cast<int>(e.n) / kWide;
  const i64 start = row * pieces;
  if (kEarly && e.weight != nullptr && first < pieces) {
    ask_early(static_cast<const char*>(e.weight) + static_cast<i64>(first) * kWide * (e.weight_dtype == kFloat32 ? 4 : 2));
  }
  begin_early();
  Piece<T> x[kPieces];
  float w[kPieces][kWide];
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const int at = first + j * e.lanes;
    if (at < pieces) x[j] = static_cast<const Piece<T>*>(e.in)[start + at];
    if (kEarly && at < pieces) weights<T>(w[j], e, at);
  }
  if (e.residual != nullptr) {  // the sum is rounded before it is normalized
    Piece<T> y[kPieces];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int at = first + j * e.lanes;
      if (at < pieces) y[j] = static_cast<const Piece<T>*>(e.residual)[start + at];
    }
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int at = first + j * e.lanes;
      if (at >= pieces) continue;
#pragma unroll
      for (int k = 0; k < kWide; ++k) x[j].x[k] = from_float<T>(to_float(x[j].x[k]) + to_float(y[j].x[k]));
      static_cast<Piece<T>*>(e.sum)[start + at] = x[j];
    }
  }
  const float share = 1.0f / static_cast<float>(e.n);
  float squares[kPieces];
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    squares[j] = 0.0f;
    if (first + j * e.lanes >= pieces) continue;
#pragma unroll
    for (int k = 0; k < kWide; ++k) squares[j] += to_float(x[j].x[k]) * to_float(x[j].x[k]);
  }
  const float scale = rsqrtf(over_row(squares, e.lanes) * share + e.eps);
#pragma unroll
  for (int j = 0; j < kPieces; ++j) {
    const int at = first + j * e.lanes;
    if (at >= pieces) continue;
    if (!kEarly) weights<T>(w[j], e, at);
#pragma unroll
    for (int k = 0; k < kWide; ++k) x[j].x[k] = from_float<T>(to_float(x[j].x[k]) * scale * w[j][k]);
    static_cast<Piece<T>*>(e.out)[start + at] = x[j];
  }
}
extern "C" __global__ void __launch_bounds__(1024) rms_float32_1(const __grid_constant__ Norm e) { rms_pieces<float, 1>(e); }
extern "C" __global__ void __launch_bounds__(1024) rms_float32_2(const __grid_constant__ Norm e) { rms_pieces<float, 2>(e); }
extern "C" __global__ void __launch_bounds__(512) rms_float32_4(const __grid_constant__ Norm e) { rms_pieces<float, 4>(e); }
extern "C" __global__ void __launch_bounds__(1024) rms_bfloat16_1(const __grid_constant__ Norm e) { rms_pieces<bf16, 1>(e); }
extern "C" __global__ void __launch_bounds__(1024) rms_bfloat16_2(const __grid_constant__ Norm e) { rms_pieces<bf16, 2>(e); }
extern "C" __global__ void __launch_bounds__(512) rms_bfloat16_4(const __grid_constant__ Norm e) { rms_pieces<bf16, 4>(e); }
extern "C" __global__ void __launch_bounds__(1024) rms_float16_1(const __grid_constant__ Norm e) { rms_pieces<f16, 1>(e); }
extern "C" __global__ void __launch_bounds__(1024) rms_float16_2(const __grid_constant__ Norm e) { rms_pieces<f16, 2>(e); }
extern "C" __global__ void __launch_bounds__(512) rms_float16_4(const __grid_constant__ Norm e) { rms_pieces<f16, 4>(e); }

// ---------------------------------------------------------------- any row: a block each
template <class T>
CLIKA_INLINE void rms(const Norm& e) {
  const T* x = static_cast<const T*>(e.in) + static_cast<i64>(blockIdx.x) * e.n;
  T* out = static_cast<T*>(e.out) + static_cast<i64>(blockIdx.x) * e.n;
  if (e.residual != nullptr) {  // the sum is rounded before it is normalized
    const T* y = static_cast<const T*>(e.residual) + static_cast<i64>(blockIdx.x) * e.n;
    T* sum = static_cast<T*>(e.sum) + static_cast<i64>(blockIdx.x) * e.n;
    for (i64 i = threadIdx.x; i < e.n; i += blockDim.x) {
      float s = to_float(x[i]) + to_float(y[i]);
      if (e.in_bias != nullptr) s += any_at(e.in_bias, e.in_bias_dtype, i);
      if (e.residual_bias != nullptr) s += any_at(e.residual_bias, e.residual_bias_dtype, i);
      sum[i] = from_float<T>(s);
    }
    x = sum;  // each thread reads what it has written
  }
  float squares = 0.0f;
  for (i64 i = threadIdx.x; i < e.n; i += blockDim.x) squares += to_float(x[i]) * to_float(x[i]);
  const float scale = 1.0f / sqrt(total(squares) / static_cast<float>(e.n) + e.eps);
  for (i64 i = threadIdx.x; i < e.n; i += blockDim.x) {
    float y = to_float(x[i]) * scale;
    if (e.weight != nullptr) y *= any_at(e.weight, e.weight_dtype, i) + e.offset;
    if (e.bias != nullptr) y += any_at(e.bias, e.bias_dtype, i);
    out[i] = from_float<T>(y);
  }
}
template <class T>
CLIKA_INLINE void layer(const Norm& e) {
  const T* x = static_cast<const T*>(e.in) + static_cast<i64>(blockIdx.x) * e.n;
  T* out = static_cast<T*>(e.out) + static_cast<i64>(blockIdx.x) * e.n;
  float sum = 0.0f;
  for (i64 i = threadIdx.x; i < e.n; i += blockDim.x) sum += to_float(x[i]);
  const float mean = total(sum) / static_cast<float>(e.n);
  float squares = 0.0f;
  for (i64 i = threadIdx.x; i < e.n; i += blockDim.x) {
    const float gap = to_float(x[i]) - mean;
    squares += gap * gap;
  }
  const float scale = 1.0f / sqrt(total(squares) / static_cast<float>(e.n) + e.eps);
  for (i64 i = threadIdx.x; i < e.n; i += blockDim.x) {
    float y = (to_float(x[i]) - mean) * scale;
    if (e.weight != nullptr) y *= any_at(e.weight, e.weight_dtype, i);
    if (e.bias != nullptr) y += any_at(e.bias, e.bias_dtype, i);
    out[i] = from_float<T>(y);
  }
}
extern "C" __global__ void __launch_bounds__(512) rms_float32(const __grid_constant__ Norm e) { begin_early(); rms<float>(e); }
extern "C" __global__ void __launch_bounds__(512) rms_bfloat16(const __grid_constant__ Norm e) { begin_early(); rms<bf16>(e); }
extern "C" __global__ void __launch_bounds__(512) rms_float16(const __grid_constant__ Norm e) { begin_early(); rms<f16>(e); }
extern "C" __global__ void __launch_bounds__(512) layer_float32(const __grid_constant__ Norm e) { begin_early(); layer<float>(e); }
extern "C" __global__ void __launch_bounds__(512) layer_bfloat16(const __grid_constant__ Norm e) { begin_early(); layer<bf16>(e); }
extern "C" __global__ void __launch_bounds__(512) layer_float16(const __grid_constant__ Norm e) { begin_early(); layer<f16>(e); }
