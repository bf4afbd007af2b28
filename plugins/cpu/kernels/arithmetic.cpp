// Arithmetic of two operands with broadcasting, over float32, bfloat16 and float16: computed in float32. The
// other dtypes stand in plain/arithmetic.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "arithmetic.hpp"

template <class Op>
int32_t run_plain(const clika_call* call) {
  if (plain_floats(call)) {
    binary_tile<Op, float>(data_of<float>(call->inputs[0]), data_of<float>(call->inputs[1]),
                           data_of<float>(call->outputs[0]), elements(call->outputs[0]), Params());
    return CLIKA_OK;
  }
  return drive_binary<float>(call, binary_tile<Op, float>, Params());
}

template <class Op, int kSign>
int32_t run_sum(const clika_call* call) {
  Params params;
  params.f = scalar_float(call, 0, 1.0);
  if (params.f == 1.0) return run_plain<Op>(call);
  return drive_binary<float>(call, scaled_tile<kSign, float>, params);
}

int32_t run_div(const clika_call* call) {
  switch (attr_int(call, 0, 0)) {
    case 1:
      return run_plain<DivideTrunc>(call);
    case 2:
      return run_plain<DivideFloor>(call);
    default:
      return run_plain<Divide>(call);
  }
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(FLOATS).out(FLOATS).inplace();
}

CLIKA_KERNELS(arithmetic,
              over("add", run_sum<Add, 1>),
              over("sub", run_sum<Sub, -1>),
              over("mul", run_plain<Mul>),
              over("div", run_div),
              over("pow", run_plain<Power>),
              over("maximum", run_plain<Maximum>),
              over("minimum", run_plain<Minimum>),
              over("remainder", run_plain<Remainder>),
              over("floor_divide", run_plain<DivideFloor>),
              over("fmod", run_plain<Fmod>),
              over("fmax", run_plain<Fmax>),
              over("fmin", run_plain<Fmin>),
              over("heaviside", run_plain<Heaviside>),
              over("copysign", run_plain<Copysign>))
#include "level_end.hpp"
