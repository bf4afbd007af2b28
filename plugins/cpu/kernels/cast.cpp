// cast between float32, bfloat16 and float16. The other pairs stand in plain/cast.cpp.
#include "level.hpp"
#include "elementwise.hpp"

int32_t run(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Walk<2> walk({&out, &in});
  const LoadTile<float> loader = Tiles<float>::loader(in.dtype);
  const StoreTile<float> storer = Tiles<float>::storer(out.dtype);
  const bool direct = in.dtype == CLIKA_FLOAT32 && walk.step[1] == 1;
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) float x[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      if (!direct) loader(x, in.data, at[1], walk.step[1], n);
      storer(direct ? data_of<float>(in) + at[1] : x, out.data, at[0], walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(cast, Entry("cast", run).in(FLOATS).out(FLOATS))
#include "level_end.hpp"
