// Functions of one tensor over float32, bfloat16 and float16, computed in float32. The other dtypes stand in
// plain/elementwise.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "functions.hpp"
#include "math.hpp"
#include "sines.hpp"

// Vector forms.
#define CLIKA_VECTOR(Name, expression)                        \
  struct Name {                                               \
    static CLIKA_INLINE vf apply(vf x) { return expression; } \
  };
CLIKA_VECTOR(VExp, vexp(x))
CLIKA_VECTOR(VSqrt, vsqrt(x))
CLIKA_VECTOR(VRsqrt, 1.0f / vsqrt(x))
CLIKA_VECTOR(VSigmoid, vsigmoid(x))
CLIKA_VECTOR(VSilu, vsilu(x))
CLIKA_VECTOR(VTanh, vtanh(x))
CLIKA_VECTOR(VErf, verf(x))
CLIKA_VECTOR(VGelu, vgelu(x))
CLIKA_VECTOR(VGeluTanh, vgelu_tanh(x))
#undef CLIKA_VECTOR

template <class Op>
int32_t run_each(const clika_call* call) {
  return drive_unary<float>(call, unary_tile<Op, float>);
}
template <class Op>
int32_t run_vector(const clika_call* call) {
  return drive_unary<float>(call, vector_tile<Op>);
}
// sines() gives both; the one that is not wanted goes into a buffer.
template <bool kSine>
void sine_tile(const float* x, float* out, int64_t n) {
  float other[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = std::min(kTile, n - i);
    if (kSine) {
      sines(x + i, count, 1.0f, other, out + i);
    } else {
      sines(x + i, count, 1.0f, out + i, other);
    }
  }
}
template <bool kSine>
int32_t run_sine(const clika_call* call) {
  return drive_unary<float>(call, sine_tile<kSine>);
}
int32_t run_gelu(const clika_call* call) {
  return attr_int(call, 0, 0) == 1 ? run_vector<VGeluTanh>(call) : run_vector<VGelu>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS).inplace();
}

CLIKA_KERNELS(elementwise,
              over("neg", run_each<Neg>),
              over("abs", run_each<Abs>),
              over("square", run_each<Square>),
              over("relu", run_each<Relu>),
              over("sign", run_each<Sign>),
              over("floor", run_each<Floor>),
              over("ceil", run_each<Ceil>),
              over("round", run_each<Round>),
              over("log", run_each<Log>),
              over("sin", run_sine<true>),
              over("cos", run_sine<false>),
              over("reciprocal", run_each<Reciprocal>),
              over("exp", run_vector<VExp>),
              over("sqrt", run_vector<VSqrt>),
              over("rsqrt", run_vector<VRsqrt>),
              over("tanh", run_vector<VTanh>),
              over("erf", run_vector<VErf>),
              over("sigmoid", run_vector<VSigmoid>),
              over("silu", run_vector<VSilu>),
              over("gelu", run_gelu))
#include "level_end.hpp"
