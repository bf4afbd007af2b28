// flip, roll, repeat, tril, triu, diag_embed, pad: elements at other places.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program* rearrange;

enum Kind { kFlip, kRoll, kRepeat, kPad, kTriangle, kDiagonal };  // of rearranging.cu
constexpr int kPerDim = 8;

General start(const clika_call* call, const char* op, Kind kind) {
  General g = general_of(call, op);
  g.i[0] = kind;
  g.i[1] = size_of(call->inputs[0].dtype);
  return g;
}

// attr dims.
int32_t run_flip(const clika_call* call) {
  General g = start(call, "flip", kFlip);
  const clika_attr& dims = call->attrs[0];
  for (int32_t i = 0; i < dims.n && g.in[0].rank > 0; ++i) g.i[kPerDim + from_front(dims.v.ints[i], g.in[0].rank)] = 1;
  return launch_each(call, "flip", rearrange, g);
}

// attrs shifts, dims. Without dims the tensors, which are contiguous, are one dim.
int32_t run_roll(const clika_call* call) {
  General g = start(call, "roll", kRoll);
  if (g.n == 0) return CLIKA_OK;
  const clika_attr& shifts = call->attrs[0];
  const clika_attr& dims = call->attrs[1];
  const bool flat = dims.kind == CLIKA_ATTR_NONE || dims.n == 0;
  if (flat || g.in[0].rank == 0) {
    for (View* view : {&g.in[0], &g.out[0]}) {
      view->rank = 1;
      view->shape[0] = g.n;
      view->strides[0] = 1;
    }
  }
  for (int32_t i = 0; i < shifts.n; ++i) {
    const int32_t d = flat ? 0 : from_front(dims.v.ints[i], g.in[0].rank);
    const int64_t size = g.in[0].shape[d];
    g.i[kPerDim + d] = (g.i[kPerDim + d] + (shifts.v.ints[i] % size + size) % size) % size;
  }
  return launch_each(call, "roll", rearrange, g);
}

int32_t run_repeat(const clika_call* call) { return launch_each(call, "repeat", rearrange, start(call, "repeat", kRepeat)); }

// attrs pad (pairs, the last dim first), mode; scalar value.
int32_t run_pad(const clika_call* call) {
  General g = start(call, "pad", kPad);
  const clika_attr& pad = call->attrs[0];
  const int32_t rank = g.in[0].rank;
  for (int32_t i = 0; pad.kind == CLIKA_ATTR_INTS && i < pad.n / 2; ++i) g.i[kPerDim + rank - 1 - i] = pad.v.ints[2 * i];
  g.i[2] = attr_int(call, 1, 0);
  const int32_t dtype = call->inputs[0].dtype;
  const double f = scalar_float(call, 0, 0.0);
  switch (dtype) {
    case CLIKA_FLOAT64: std::memcpy(&g.i[3], &f, 8); break;
    case CLIKA_BOOL: g.i[3] = f != 0.0; break;
    case CLIKA_FLOAT32: case CLIKA_FLOAT16: case CLIKA_BFLOAT16: {
      const float x = static_cast<float>(f);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      g.i[3] = dtype == CLIKA_FLOAT32 ? bits : dtype == CLIKA_FLOAT16 ? half_of(x) : bfloat_of(x);
      break;
    }
    default: g.i[3] = scalar_int(call, 0, 0);
  }
  return launch_each(call, "pad", rearrange, g);
}

// attr diagonal. Row i keeps the columns up to i + diagonal, or from there on.
template <bool kLower>
int32_t run_triangle(const clika_call* call) {
  const char* op = kLower ? "tril" : "triu";
  General g = start(call, op, kTriangle);
  g.i[2] = attr_int(call, 0, 0);
  g.i[3] = kLower;
  return launch_each(call, op, rearrange, g);
}

// attrs offset, dim1, dim2.
int32_t run_diag_embed(const clika_call* call) {
  General g = start(call, "diag_embed", kDiagonal);
  g.i[2] = attr_int(call, 0, 0);
  g.i[3] = from_front(attr_int(call, 1, -2), g.out[0].rank);
  g.i[4] = from_front(attr_int(call, 2, -1), g.out[0].rank);
  return launch_each(call, "diag_embed", rearrange, g);
}

}  // namespace

void add_rearranging(Registry& registry) {
  rearrange = registry.program("rearranging", "", "rearrange");
  registry.entry("flip", run_flip, {kEvery}, kEvery);
  registry.entry("roll", run_roll, {kEvery}, kEvery, 0);
  registry.entry("repeat", run_repeat, {kEvery}, kEvery);
  registry.entry("pad", run_pad, {kEvery}, kEvery);
  registry.entry("tril", run_triangle<true>, {kEvery}, kEvery);
  registry.entry("triu", run_triangle<false>, {kEvery}, kEvery);
  registry.entry("diag_embed", run_diag_embed, {kEvery}, kEvery);
}

}  // namespace clika_cuda
