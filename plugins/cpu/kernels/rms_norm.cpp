// rms_norm and add_rms_norm: y = x / sqrt(mean(x^2) + eps) * (offset + weight), all in float32 with one
// rounding to the result's dtype.
#include "level.hpp"
#include "rows.hpp"

constexpr int64_t kGrainElements = 16384;  // below this much work a row loop stays on the caller

// The sum of squares of a row: four accumulators over K in steps of 4 W, one fixed order for a given K.
template <class T>
CLIKA_INLINE float sum_of_squares(const T* x, int64_t n) {
  vf a0 = zero();
  vf a1 = zero();
  vf a2 = zero();
  vf a3 = zero();
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    const vf x0 = load(x + i);
    const vf x1 = load(x + i + W);
    const vf x2 = load(x + i + 2 * W);
    const vf x3 = load(x + i + 3 * W);
    a0 = fma(x0, x0, a0);
    a1 = fma(x1, x1, a1);
    a2 = fma(x2, x2, a2);
    a3 = fma(x3, x3, a3);
  }
  for (; i + W <= n; i += W) {
    const vf x0 = load(x + i);
    a0 = fma(x0, x0, a0);
  }
  if (i < n) {
    const vf x0 = load_partial(x + i, n - i);
    a1 = fma(x0, x0, a1);
  }
  return reduce_add((a0 + a1) + (a2 + a3));
}

template <class T>
CLIKA_INLINE void scale_row(const T* x, const float* weight, T* out, int64_t n, float scale, float offset) {
  const vf s = splat(scale);
  const vf o = splat(offset);
  int64_t i = 0;
  if (weight == nullptr) {
    for (; i + W <= n; i += W) store(out + i, load(x + i) * s);
    if (i < n) store_partial(out + i, load_partial(x + i, n - i) * s, n - i);
    return;
  }
  for (; i + W <= n; i += W) store(out + i, (load(x + i) * s) * (load(weight + i) + o));
  if (i < n) {
    const vf y = (load_partial(x + i, n - i) * s) * (load_partial(weight + i, n - i) + o);
    store_partial(out + i, y, n - i);
  }
}

struct Norm {
  int64_t n;
  const float* weight;
  const float* bias = nullptr;
  float eps;
  float offset;

  template <class T>
  void row(const T* x, T* out) const {
    const float mean = sum_of_squares(x, n) / static_cast<float>(n);
    scale_row(x, weight, out, n, 1.0f / std::sqrt(mean + eps), offset);
    if (bias == nullptr) return;
    int64_t i = 0;
    for (; i + W <= n; i += W) store(out + i, load(out + i) + load(bias + i));
    if (i < n) store_partial(out + i, load_partial(out + i, n - i) + load_partial(bias + i, n - i), n - i);
  }
};

template <class T>
void norm_rows(const clika_call* call, const Rows& rows, char* scratch, const Norm& norm) {
  T* out = data_of<T>(call->outputs[0]);
  const int64_t n = rows.length;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / n);
  parallel(call, rows.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t r = begin; r < end; ++r) {
      norm.row(packed_row(rows, r, reinterpret_cast<T*>(scratch) + worker * n), out + r * n);
    }
  });
}

// input, weight?; attr normalized_shape; scalars eps, offset.
int32_t run_rms_norm(const clika_call* call) {
  const int32_t dims = normalized_dims(call, 0);
  Joined input;
  if (!input.open(call, call->inputs[0], dims)) return CLIKA_UNAVAILABLE;
  const Rows rows(input.v);
  if (rows.length == 0 || rows.count == 0) return CLIKA_OK;
  Norm norm;
  norm.n = rows.length;
  norm.eps = static_cast<float>(scalar_float(call, 0, std::numeric_limits<float>::epsilon()));
  norm.offset = static_cast<float>(scalar_float(call, 1, 0.0));
  if (!optional_row(call, 1, dims, &norm.weight)) return CLIKA_UNAVAILABLE;
  bool failed;
  char* scratch = row_scratch(call, rows, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  visit_float(input.v.dtype, [&](auto tag) { norm_rows<decltype(tag)>(call, rows, scratch, norm); });
  return CLIKA_OK;
}

// The sum of two rows and of up to two biases, rounded once.
template <class T>
CLIKA_INLINE void add_row(const T* x, const T* y, const float* const* biases, T* sum, int64_t n) {
  for (int64_t i = 0; i < n; i += W) {
    const int64_t left = std::min<int64_t>(W, n - i);
    vf s = left == W ? load(x + i) + load(y + i) : load_partial(x + i, left) + load_partial(y + i, left);
    for (int k = 0; k < 2; ++k) {
      if (biases[k] == nullptr) continue;
      s += left == W ? load(biases[k] + i) : load_partial(biases[k] + i, left);
    }
    if (left == W) {
      store(sum + i, s);
    } else {
      store_partial(sum + i, s, left);
    }
  }
}

// input, residual, input_bias?, residual_bias?, weight?, bias?; attr normalized_shape; scalars offset, eps;
// outputs the norm and the sum, which is rounded to the dtype before it is normalized.
int32_t run_add_rms_norm(const clika_call* call) {
  const int32_t dims = normalized_dims(call, 0);
  Joined input;
  Joined residual;
  if (!input.open(call, call->inputs[0], dims)) return CLIKA_UNAVAILABLE;
  if (!residual.open(call, call->inputs[1], dims)) return CLIKA_UNAVAILABLE;
  const Rows rows(input.v);
  const Rows others(residual.v);
  const int64_t n = rows.length;
  if (n == 0 || rows.count == 0) return CLIKA_OK;
  Norm norm;
  norm.n = n;
  norm.offset = static_cast<float>(scalar_float(call, 0, 0.0));
  norm.eps = static_cast<float>(scalar_float(call, 1, 1e-6));
  const float* biases[2];
  if (!optional_row(call, 2, dims, &biases[0]) || !optional_row(call, 3, dims, &biases[1]) ||
      !optional_row(call, 4, dims, &norm.weight) || !optional_row(call, 5, dims, &norm.bias)) {
    return CLIKA_UNAVAILABLE;
  }
  bool failed;
  char* scratch = row_scratch(call, rows, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  char* other_scratch = row_scratch(call, others, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  visit_float(input.v.dtype, [&](auto tag) {
    using T = decltype(tag);
    T* normed = data_of<T>(call->outputs[0]);
    T* sums = data_of<T>(call->outputs[1]);
    const int64_t grain = std::max<int64_t>(1, kGrainElements / n);
    parallel(call, rows.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = packed_row(rows, r, reinterpret_cast<T*>(scratch) + worker * n);
        const T* y = packed_row(others, r, reinterpret_cast<T*>(other_scratch) + worker * n);
        add_row(x, y, biases, sums + r * n, n);
        norm.row(static_cast<const T*>(sums + r * n), normed + r * n);
      }
    });
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(rms_norm,
              Entry("rms_norm", run_rms_norm).in(FLOATS).out(FLOATS),
              Entry("add_rms_norm", run_add_rms_norm).in(FLOATS).out(FLOATS))
#include "level_end.hpp"
