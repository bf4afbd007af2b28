// arange.
#include "prelude.cuh"

extern "C" __global__ void sequence(const __grid_constant__ Sequence s) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const bool whole = s.dtype != kFloat16 && s.dtype != kBfloat16 && s.dtype != kFloat32 && s.dtype != kFloat64;
  char* out = static_cast<char*>(s.out);
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.n; i += step) {
    if (whole) store(out + i * bytes_of(s.dtype), s.dtype, s.whole_start + i * s.whole_step);
    else store(out + i * bytes_of(s.dtype), s.dtype, __dadd_rn(s.start, __dmul_rn(static_cast<double>(i), s.step)));
  }
}
