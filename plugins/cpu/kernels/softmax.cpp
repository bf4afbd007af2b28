// softmax and log_softmax along a dimension, in float32; plain/softmax.cpp has float64. A line's result depends on the line alone.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"

CLIKA_INLINE float line_max(const float* x, int64_t n) {
  vf top = splat(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + W <= n; i += W) top = vmax(load(x + i), top);
  float best = reduce_max(top);
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// out = e^(x - top); returns the sum: one accumulator per lane and step of 2 W, then one tree.
CLIKA_INLINE float line_exp(const float* x, float* out, int64_t n, float top) {
  const vf shift = splat(top);
  vf a = zero();
  vf b = zero();
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    const vf x0 = vexp_negative(load(x + i) - shift);
    const vf x1 = vexp_negative(load(x + i + W) - shift);
    store(out + i, x0);
    store(out + i + W, x1);
    a += x0;
    b += x1;
  }
  for (; i < n; i += W) {
    const int64_t left = std::min<int64_t>(W, n - i);
    vf y = left == W ? load(x + i) : load_partial(x + i, left);
    y = vexp_negative(y - shift);
    if (left < W) {
      for (int64_t k = left; k < W; ++k) y[k] = 0.0f;
      store_partial(out + i, y, left);
    } else {
      store(out + i, y);
    }
    a += y;
  }
  return reduce_add(a + b);
}

void softmax_line(const float* x, float* out, int64_t n) {
  const float sum = line_exp(x, out, n, line_max(x, n));
  const vf divisor = splat(sum);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(out + i, load(out + i) / divisor);
  for (; i < n; ++i) out[i] = out[i] / sum;
}

void log_softmax_line(const float* x, float* out, int64_t n) {
  const float top = line_max(x, n);
  const float log_sum = std::log(line_exp(x, out, n, top));
  const vf a = splat(top);
  const vf b = splat(log_sum);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(out + i, (load(x + i) - a) - b);
  for (; i < n; ++i) out[i] = (x[i] - top) - log_sum;
}

template <void (*kLine)(const float*, float*, int64_t)>
int32_t run(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t dim = attr_int(call, 0, -1);
  const Lines from(in, dim);
  const Lines to(out, dim);
  const int64_t n = from.length;
  if (n == 0 || from.count == 0) return CLIKA_OK;
  const bool direct = in.dtype == CLIKA_FLOAT32 && from.step == 1;
  const bool direct_out = out.dtype == CLIKA_FLOAT32 && to.step == 1;
  const int64_t room = (n + 15) / 16 * 16;
  const size_t bytes = static_cast<size_t>(2 * room * call->core->num_threads()) * sizeof(float);
  float* scratch = nullptr;
  if (!direct || !direct_out) {
    scratch = static_cast<float*>(call->core->scratch(call, bytes));
    if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  }
  const LoadTile<float> loader = Tiles<float>::loader(in.dtype);
  const StoreTile<float> storer = Tiles<float>::storer(out.dtype);
  const int64_t grain = std::max<int64_t>(1, 8192 / n);
  parallel(call, from.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    float* x = scratch + worker * 2 * room;
    float* y = x + room;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t at = from.offset(line);
      const int64_t out_at = to.offset(line);
      if (!direct) loader(x, in.data, at, from.step, n);
      const float* source = direct ? data_of<float>(in) + at : x;
      float* target = direct_out ? data_of<float>(out) + out_at : y;
      kLine(source, target, n);
      if (!direct_out) storer(y, out.data, out_at, to.step, n);
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(softmax,
              Entry("softmax", run<softmax_line>).in(FLOATS).out(FLOATS),
              Entry("log_softmax", run<log_softmax_line>).in(FLOATS).out(FLOATS))
#include "level_end.hpp"
