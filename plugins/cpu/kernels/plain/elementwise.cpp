// Functions of one tensor over float64 and, where they have a meaning there, integers and bool.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"
#include "functions.hpp"

template <class Op>
int32_t run_all(const clika_call* call) {
  Functions<UnaryTile> f;
  f.on_double = unary_tile<Op, double>;
  f.on_int = unary_tile<Op, int64_t>;
  f.on_uint = unary_tile<Op, uint64_t>;
  return unary(call, f);
}
template <class Op>
int32_t run_double(const clika_call* call) {
  return drive_unary<double>(call, unary_tile<Op, double>);
}
int32_t run_round(const clika_call* call) {
  const int64_t decimals = attr_int(call, 0, 0);
  const bool scaled = decimals != 0 && call->inputs[0].dtype == CLIKA_FLOAT64;
  return scaled ? round_decimals<double>(call, decimals) : run_all<Round>(call);
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
int32_t run_gelu(const clika_call* call) {
  return attr_int(call, 0, 0) == 1 ? run_double<GeluTanh>(call) : run_double<Gelu>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(elementwise,
              over("neg", run_all<Neg>, F64 | INTS),
              over("abs", run_all<Abs>, F64 | INTS),
              over("square", run_all<Square>, F64 | INTS),
              over("relu", run_all<Relu>, F64 | INTS),
              over("sign", run_all<Sign>, F64 | INTS | BOOL),
              over("floor", run_all<Floor>, F64 | INTS),
              over("ceil", run_all<Ceil>, F64 | INTS),
              over("round", run_round, F64 | INTS),
              over("trunc", run_all<Trunc>, F64 | INTS),
              over("nan_to_num", run_nan_to_num, FLOATS | F64 | INTS | BOOL),
              over("frac", run_double<Frac>, F64),
              over("deg2rad", run_double<Deg2rad>, F64),
              over("rad2deg", run_double<Rad2deg>, F64),
              over("exp", run_double<Exp>, F64),
              over("exp2", run_double<Exp2>, F64),
              over("expm1", run_double<Expm1>, F64),
              over("log", run_double<Log>, F64),
              over("log2", run_double<Log2>, F64),
              over("log10", run_double<Log10>, F64),
              over("log1p", run_double<Log1p>, F64),
              over("sqrt", run_double<Sqrt>, F64),
              over("rsqrt", run_double<Rsqrt>, F64),
              over("sin", run_double<Sin>, F64),
              over("cos", run_double<Cos>, F64),
              over("tanh", run_double<Tanh>, F64),
              over("erf", run_double<Erf>, F64),
              over("reciprocal", run_double<Reciprocal>, F64),
              over("sigmoid", run_double<Sigmoid>, F64),
              over("silu", run_double<Silu>, F64),
              over("gelu", run_gelu, F64))
#include "level_end.hpp"
