// What a gate makes of two products. Included after linear.hpp and math.hpp.
#pragma once

CLIKA_INLINE vf gated(Gate gate, vf a, vf b) {
  if (gate == Gate::kSwiglu) return vsilu(a) * b;
  return (gate == Gate::kGeglu ? vgelu(a) : vgelu_tanh(a)) * b;
}
