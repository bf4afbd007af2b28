// Functions of one tensor. float32, bfloat16 and float16 are computed in float32.
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
int32_t run_all(const clika_call* call) {
  Functions<UnaryTile> f;
  f.on_float = unary_tile<Op, float>;
  f.on_double = unary_tile<Op, double>;
  f.on_int = unary_tile<Op, int64_t>;
  f.on_uint = unary_tile<Op, uint64_t>;
  return unary(call, f);
}
template <class Op>
int32_t run_floats(const clika_call* call) {
  Functions<UnaryTile> f;
  f.on_float = unary_tile<Op, float>;
  f.on_double = unary_tile<Op, double>;
  return unary(call, f);
}
template <class Vector, class Op>
int32_t run_vector(const clika_call* call) {
  Functions<UnaryTile> f;
  f.on_float = vector_tile<Vector>;
  f.on_double = unary_tile<Op, double>;
  return unary(call, f);
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
  Functions<UnaryTile> f;
  f.on_float = sine_tile<kSine>;
  f.on_double = kSine ? unary_tile<Sin, double> : unary_tile<Cos, double>;
  return unary(call, f);
}
int32_t run_gelu(const clika_call* call) {
  return attr_int(call, 0, 0) == 1 ? run_vector<VGeluTanh, GeluTanh>(call) : run_vector<VGelu, Gelu>(call);
}
int32_t run_round(const clika_call* call) {
  const int64_t decimals = attr_int(call, 0, 0);
  const Compute compute = compute_of(call->inputs[0].dtype);
  if (decimals == 0 || compute == kInt || compute == kUint) return run_all<Round>(call);
  return compute == kDouble ? round_decimals<double>(call, decimals) : round_decimals<float>(call, decimals);
}

// Finite numbers in the place of NaN and the infinities; absent ones are 0 and the largest of the dtype.
struct NanToNum {
  template <class T>
  static T apply(T x, const Numbers& k) {
    if (x != x) return static_cast<T>(k.f[0]);
    constexpr T kInf = std::numeric_limits<T>::infinity();
    return x == kInf ? static_cast<T>(k.f[1]) : x == -kInf ? static_cast<T>(k.f[2]) : x;
  }
};
struct Same {
  template <class T>
  static T apply(T x) {
    return x;
  }
};
int32_t run_nan_to_num(const clika_call* call) {
  const int32_t dtype = call->inputs[0].dtype;
  const Compute compute = compute_of(dtype);
  if (compute == kInt || compute == kUint) return run_all<Same>(call);
  const double largest = dtype == CLIKA_FLOAT16    ? 65504.0
                         : dtype == CLIKA_BFLOAT16 ? 3.38953138925153547590e38
                         : dtype == CLIKA_FLOAT32  ? std::numeric_limits<float>::max()
                                                   : std::numeric_limits<double>::max();
  Numbers numbers;
  numbers.f[0] = scalar_float(call, 0, 0.0);
  numbers.f[1] = scalar_float(call, 1, largest);
  numbers.f[2] = scalar_float(call, 2, -largest);
  if (compute == kDouble) {
    return drive_each<double, Own<double>>(call, {&call->inputs[0]}, each_tile<NanToNum, double, 1>, numbers);
  }
  return drive_each<float, Own<float>>(call, {&call->inputs[0]}, each_tile<NanToNum, float, 1>, numbers);
}
constexpr uint64_t kFloats = FLOATS | F64;
constexpr uint64_t kNumbers = kFloats | INTS;

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes = kFloats) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(elementwise,
              over("neg", run_all<Neg>, kNumbers),
              over("abs", run_all<Abs>, kNumbers),
              over("square", run_all<Square>, kNumbers),
              over("relu", run_all<Relu>, kNumbers),
              over("sign", run_all<Sign>, kNumbers | BOOL),
              over("floor", run_all<Floor>, kNumbers),
              over("ceil", run_all<Ceil>, kNumbers),
              over("round", run_round, kNumbers),
              over("trunc", run_all<Trunc>, kNumbers),
              over("nan_to_num", run_nan_to_num, kNumbers | BOOL),
              over("frac", run_floats<Frac>),
              over("deg2rad", run_floats<Deg2rad>),
              over("rad2deg", run_floats<Rad2deg>),
              over("reciprocal", run_floats<Reciprocal>),
              over("sin", run_sine<true>),
              over("cos", run_sine<false>),
              over("exp", run_vector<VExp, Exp>),
              over("exp2", run_vector<VExp2, Exp2>),
              over("expm1", run_vector<VExpm1, Expm1>),
              over("log", run_vector<VLog, Log>),
              over("log2", run_vector<VLog2, Log2>),
              over("log10", run_vector<VLog10, Log10>),
              over("log1p", run_vector<VLog1p, Log1p>),
              over("sqrt", run_vector<VSqrt, Sqrt>),
              over("rsqrt", run_vector<VRsqrt, Rsqrt>),
              over("tanh", run_vector<VTanh, Tanh>),
              over("erf", run_vector<VErf, Erf>),
              over("sigmoid", run_vector<VSigmoid, Sigmoid>),
              over("silu", run_vector<VSilu, Silu>),
              over("gelu", run_gelu))
#include "level_end.hpp"
