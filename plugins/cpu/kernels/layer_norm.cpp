// layer_norm: (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, in float32 with one
// rounding.
#include "level.hpp"
#include "rows.hpp"

// The sum of f(x) over a row: two accumulators per lane, one fixed order for a given length.
template <class T, class F>
CLIKA_INLINE float row_sum(const T* x, int64_t n, const F& f) {
  vf a = zero();
  vf b = zero();
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    a += f(load(x + i));
    b += f(load(x + i + W));
  }
  for (; i + W <= n; i += W) a += f(load(x + i));
  float tail = 0.0f;
  if (i < n) {
    const vf y = f(load_partial(x + i, n - i));
    for (int64_t k = 0; k < n - i; ++k) tail += y[k];
  }
  return reduce_add(a + b) + tail;
}

template <class T>
void norm_row(const T* x, const float* weight, const float* bias, T* out, int64_t n, float eps) {
  const float mean = row_sum(x, n, [](vf v) { return v; }) / static_cast<float>(n);
  const vf m = splat(mean);
  const float squares = row_sum(x, n, [m](vf v) { return (v - m) * (v - m); });
  const vf s = splat(1.0f / std::sqrt(squares / static_cast<float>(n) + eps));
  for (int64_t i = 0; i < n; i += W) {
    const int64_t left = std::min<int64_t>(W, n - i);
    vf y = ((left == W ? load(x + i) : load_partial(x + i, left)) - m) * s;
    if (weight != nullptr) y = y * (left == W ? load(weight + i) : load_partial(weight + i, left));
    if (bias != nullptr) y = y + (left == W ? load(bias + i) : load_partial(bias + i, left));
    if (left == W) {
      store(out + i, y);
    } else {
      store_partial(out + i, y, left);
    }
  }
}

// input, weight?, bias?; attr normalized_shape; scalar eps.
int32_t run(const clika_call* call) {
  const int32_t dims = normalized_dims(call, 0);
  Joined input;
  const float* parts[2];
  if (!input.open(call, call->inputs[0], dims)) return CLIKA_UNAVAILABLE;
  const Rows rows(input.v);
  const int64_t n = rows.length;
  if (n == 0 || rows.count == 0) return CLIKA_OK;
  const float eps = static_cast<float>(scalar_float(call, 0, 1e-5));
  for (uint32_t i = 0; i < 2; ++i) {
    if (!optional_row(call, i + 1, dims, &parts[i])) return CLIKA_UNAVAILABLE;
  }
  bool failed;
  char* scratch = row_scratch(call, rows, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  visit_float(input.v.dtype, [&](auto tag) {
    using T = decltype(tag);
    T* out = data_of<T>(call->outputs[0]);
    parallel(call, rows.count, std::max<int64_t>(1, 16384 / n),
             [&](int64_t begin, int64_t end, int32_t worker) {
               for (int64_t r = begin; r < end; ++r) {
                 const T* x = packed_row(rows, r, reinterpret_cast<T*>(scratch) + worker * n);
                 norm_row(x, parts[0], parts[1], out + r * n, n, eps);
               }
             });
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(layer_norm, Entry("layer_norm", run).in(FLOATS).out(FLOATS))
#include "level_end.hpp"
