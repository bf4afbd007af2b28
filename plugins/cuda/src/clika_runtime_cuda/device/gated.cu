// The activation of a gated product whose two products are there: eight numbers a thread.
#include "gates.cuh"
#include "linear_arguments.cuh"
#include "words.cuh"

template <class A, int kActivation>
CLIKA_INLINE void gate(const Gated& p) {
  A* to = static_cast<A*>(p.gate);
  const A* other = static_cast<const A*>(p.other);
  for (i64 at = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * 8; at < p.n;
       at += static_cast<i64>(gridDim.x) * blockDim.x * 8) {
    if (at + 8 > p.n || reinterpret_cast<u64>(to) % 16 != 0 || reinterpret_cast<u64>(other) % 16 != 0) {
      for (i64 i = at; i < at + 8 && i < p.n; ++i) {
        to[i] = from_float<A>(activated_for<A, kActivation>(to_float(to[i]), to_float(other[i])));
      }
      continue;
    }
    constexpr int kWords = sizeof(A) / 2;
    Words4 a[kWords], b[kWords];
    A x[8], y[8];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      a[i] = reinterpret_cast<const Words4*>(to + at)[i];
      b[i] = reinterpret_cast<const Words4*>(other + at)[i];
    }
    memcpy(x, a, sizeof(x));
    memcpy(y, b, sizeof(y));
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = from_float<A>(activated_for<A, kActivation>(to_float(x[i]), to_float(y[i])));
    memcpy(a, x, sizeof(x));
#pragma unroll
    for (int i = 0; i < kWords; ++i) reinterpret_cast<Words4*>(to + at)[i] = a[i];
  }
}

template <class A>
CLIKA_INLINE void gates(const Gated& p) {
  if (p.activation == 0) gate<A, 0>(p);
  else if (p.activation == 1) gate<A, 1>(p);
  else gate<A, 2>(p);
}

extern "C" __global__ void __launch_bounds__(256) gate_values(const __grid_constant__ Gated p) {
  begin_early();
  if (p.dtype == kFloat32) gates<float>(p);
  else if (p.dtype == kFloat16) gates<f16>(p);
  else gates<bf16>(p);
}
