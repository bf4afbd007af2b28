// Functions of one tensor over float64 and, where they have a meaning there, integers and bool.
#include "level.hpp"
#include "elementwise.hpp"
#include "functions.hpp"

template <class Op>
int32_t run_numbers(const clika_call* call) {
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
int32_t run_gelu(const clika_call* call) {
  return attr_int(call, 0, 0) == 1 ? run_double<GeluTanh>(call) : run_double<Gelu>(call);
}

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(elementwise,
              over("neg", run_numbers<Neg>, F64 | INTS),
              over("abs", run_numbers<Abs>, F64 | INTS),
              over("square", run_numbers<Square>, F64 | INTS),
              over("relu", run_numbers<Relu>, F64 | INTS),
              over("sign", run_numbers<Sign>, F64 | INTS | BOOL),
              over("floor", run_numbers<Floor>, F64 | INTS),
              over("ceil", run_numbers<Ceil>, F64 | INTS),
              over("round", run_numbers<Round>, F64 | INTS),
              over("exp", run_double<Exp>, F64),
              over("log", run_double<Log>, F64),
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
