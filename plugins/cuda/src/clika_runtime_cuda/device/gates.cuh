// Activations of gated products as results of 16 bits take them: exponential and quotient are the hardware's, within 2^-17.
#pragma once

#include "functions.cuh"
#include "tensor_cores.cuh"

// x / (1 + e^-t).
CLIKA_INLINE float gated_by(float x, float t) { return x * reciprocal_of(1.0f + exp2_of(t * -1.4426950408889634f)); }
CLIKA_INLINE float silu_near(float x) { return gated_by(x, x); }
CLIKA_INLINE float gelu_tanh_near(float x) { return gated_by(x, 1.5957691216057308f * (x + 0.044715f * x * x * x)); }

// A gate times another operand, as `activated` says. T is the dtype of the result.
template <class T, int kActivation>
CLIKA_INLINE float activated_for(float gate, float other) {
  if constexpr (sizeof(T) == 2 && kActivation == 0) return silu_near(gate) * other;
  if constexpr (sizeof(T) == 2 && kActivation == 2) return gelu_tanh_near(gate) * other;
  return activated(gate, other, kActivation);
}
