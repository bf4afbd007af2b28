// Tensors from nothing: arange, rand, randn.
#include "level.hpp"
#include "elementwise.hpp"
#include "philox.hpp"

double number(const clika_attr& a) { return a.kind == CLIKA_ATTR_FLOAT ? a.v.f : static_cast<double>(a.v.i); }
int64_t whole(const clika_attr& a) {  // towards zero, within 64 bits
  if (a.kind != CLIKA_ATTR_FLOAT) return a.v.i;
  return static_cast<int64_t>(std::max(-9.2e18, std::min(9.2e18, a.v.f)));
}

// attrs start, end, step (end None: start is the end), dtype, device.
int32_t run_arange(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const int64_t n = elements(out);
  const bool one = call->attrs[1].kind == CLIKA_ATTR_NONE;
  const clika_attr& step = call->attrs[2];
  const Compute compute = compute_of(out.dtype);
  if (compute == kInt || compute == kUint) {
    int64_t x[kTile];
    const StoreTile<int64_t> storer = Tiles<int64_t>::storer(out.dtype);
    for (int64_t begin = 0; begin < n; begin += kTile) {
      const int64_t count = std::min(kTile, n - begin);
      for (int64_t i = 0; i < count; ++i) {
        x[i] = (one ? 0 : whole(call->attrs[0])) + (begin + i) * whole(step);
      }
      storer(x, out.data, begin, 1, count);
    }
    return CLIKA_OK;
  }
  const double start = one ? 0.0 : number(call->attrs[0]);
  const double by = number(step);
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = std::min(kTile, n - begin);
    double x[kTile];
    for (int64_t i = 0; i < count; ++i) x[i] = start + static_cast<double>(begin + i) * by;
    if (compute == kDouble) {
      store_wide<double, double>(x, out.data, begin, 1, count);
    } else {
      float y[kTile];
      for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
      Tiles<float>::storer(out.dtype)(y, out.data, begin, 1, count);
    }
  }
  return CLIKA_OK;
}

void uniform(const Philox& block, float* x) {
  for (int i = 0; i < 4; ++i) x[i] = unit(block.word[i]);
}
void normal(const Philox& block, float* x) {  // Box-Muller on the pairs (0, 1) and (2, 3)
  for (int i = 0; i < 4; i += 2) {
    const float u = (static_cast<float>(block.word[i] >> 8) + 1.0f) * 5.9604644775390625e-8f;
    const float radius = std::sqrt(-2.0f * std::log(u));
    const float angle = 6.28318531f * unit(block.word[i + 1]);
    x[i] = radius * std::cos(angle);
    x[i + 1] = radius * std::sin(angle);
  }
}

// scalars seed, offset.
template <void (*kMake)(const Philox&, float*)>
int32_t run_random(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const int64_t n = elements(out);
  const uint64_t seed = static_cast<uint64_t>(scalar_int(call, 0, 0));
  const uint64_t offset = static_cast<uint64_t>(scalar_int(call, 1, 0));
  const int64_t blocks = (n + 3) / 4;
  parallel(call, blocks, 4096, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t b = begin; b < end; ++b) {
      float x[4];
      kMake(philox(seed, static_cast<uint64_t>(b), offset), x);
      const int64_t count = std::min<int64_t>(4, n - 4 * b);
      if (out.dtype == CLIKA_FLOAT64) {
        for (int64_t i = 0; i < count; ++i) data_of<double>(out)[4 * b + i] = x[i];
      } else {
        Tiles<float>::storer(out.dtype)(x, out.data, 4 * b, 1, count);
      }
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(factory,
              Entry("arange", run_arange).out(FLOATS | F64 | INTS),
              Entry("rand", run_random<uniform>).out(FLOATS | F64),
              Entry("randn", run_random<normal>).out(FLOATS | F64))
#include "level_end.hpp"
