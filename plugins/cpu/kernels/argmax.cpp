// argmax and argmin over float32, bfloat16 and float16: the index of the first largest or smallest
// element; a NaN wins, the first one. The other dtypes stand in plain/argmax.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"
#include "argmax.hpp"
#include "extremum.hpp"

template <int kSign>
int32_t run(const clika_call* call) {
  return search<float, kSign>(call, find_float<kSign>);
}

CLIKA_KERNELS(argmax,
              Entry("argmax", run<1>).in(FLOATS).out(I32 | I64),
              Entry("argmin", run<-1>).in(FLOATS).out(I32 | I64))
#include "level_end.hpp"
