// rms_norm, layer_norm and add_rms_norm: a block per row, in float32, rounded once.
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
