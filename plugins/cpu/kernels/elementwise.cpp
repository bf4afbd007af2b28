// Functions of one tensor over float32, bfloat16 and float16, computed in float32. The other dtypes stand in
// plain/elementwise.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"
#include "functions.hpp"
#include "math.hpp"
#include "sines.hpp"

// Vector forms.
#define CLIKA_VECTOR(Name, expression)                        \
  struct Name {                                               \
    static CLIKA_INLINE vf apply(vf x) { return expression; } \
  };
CLIKA_VECTOR(VExp, vexp(x))
CLIKA_VECTOR(VExp2, vexp2(x))
CLIKA_VECTOR(VExpm1, vexpm1(x))
CLIKA_VECTOR(VLog, vlog(x))
CLIKA_VECTOR(VLog2, vlog2(x))
CLIKA_VECTOR(VLog10, vlog10(x))
CLIKA_VECTOR(VLog1p, vlog1p(x))
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
int32_t run_simple(const clika_call* call) {
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
int32_t run_round(const clika_call* call) {
  const int64_t decimals = attr_int(call, 0, 0);
  return decimals == 0 ? run_simple<Round>(call) : round_decimals<float>(call, decimals);
}
int32_t run_gelu(const clika_call* call) {
  return attr_int(call, 0, 0) == 1 ? run_vector<VGeluTanh>(call) : run_vector<VGelu>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS).inplace();
}

CLIKA_KERNELS(elementwise,
              over("neg", run_simple<Neg>),
              over("abs", run_simple<Abs>),
              over("square", run_simple<Square>),
              over("relu", run_simple<Relu>),
              over("sign", run_simple<Sign>),
              over("floor", run_simple<Floor>),
              over("ceil", run_simple<Ceil>),
              over("round", run_round),
              over("trunc", run_simple<Trunc>),
              over("frac", run_simple<Frac>),
              over("deg2rad", run_simple<Deg2rad>),
              over("rad2deg", run_simple<Rad2deg>),
              over("sin", run_sine<true>),
              over("cos", run_sine<false>),
              over("reciprocal", run_simple<Reciprocal>),
              over("exp", run_vector<VExp>),
              over("exp2", run_vector<VExp2>),
              over("expm1", run_vector<VExpm1>),
              over("log", run_vector<VLog>),
              over("log2", run_vector<VLog2>),
              over("log10", run_vector<VLog10>),
              over("log1p", run_vector<VLog1p>),
              over("sqrt", run_vector<VSqrt>),
              over("rsqrt", run_vector<VRsqrt>),
              over("tanh", run_vector<VTanh>),
              over("erf", run_vector<VErf>),
              over("sigmoid", run_vector<VSigmoid>),
              over("silu", run_vector<VSilu>),
              over("gelu", run_gelu))
#include "level_end.hpp"
