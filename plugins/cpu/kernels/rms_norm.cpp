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
  float eps;
  float offset;

  template <class T>
  void row(const T* x, T* out) const {
    const float mean = sum_of_squares(x, n) / static_cast<float>(n);
    scale_row(x, weight, out, n, 1.0f / std::sqrt(mean + eps), offset);
  }
};

int32_t prepare(const clika_call* call, uint32_t weight_index, int64_t n, Norm* norm) {
  norm->n = n;
  norm->weight = nullptr;
  norm->eps = static_cast<float>(scalar_float(call, 0, 1e-6));
  norm->offset = static_cast<float>(scalar_float(call, 1, 0.0));
  if (!present(call, weight_index)) return CLIKA_OK;
  norm->weight = float_vector(call, call->inputs[weight_index]);
  return norm->weight ? CLIKA_OK : CLIKA_UNAVAILABLE;
}

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

// input, weight?; scalars eps, offset.
int32_t run_rms_norm(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const Rows rows(input);
  if (rows.length == 0 || rows.count == 0) return CLIKA_OK;
  Norm norm;
  if (prepare(call, 1, rows.length, &norm) != CLIKA_OK) return CLIKA_UNAVAILABLE;
  bool failed;
  char* scratch = row_scratch(call, rows, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  visit_float(input.dtype, [&](auto tag) { norm_rows<decltype(tag)>(call, rows, scratch, norm); });
  return CLIKA_OK;
}

template <class T>
void add_norm_rows(const clika_call* call, const Rows& rows, const Rows& others, char* scratch,
                   char* other_scratch, const Norm& norm) {
  T* sums = data_of<T>(call->outputs[0]);
  T* out = data_of<T>(call->outputs[1]);
  const int64_t n = rows.length;
  const int64_t grain = std::max<int64_t>(1, kGrainElements / n);
  parallel(call, rows.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = packed_row(rows, r, reinterpret_cast<T*>(scratch) + worker * n);
      const T* y = packed_row(others, r, reinterpret_cast<T*>(other_scratch) + worker * n);
      T* sum = sums + r * n;
      int64_t i = 0;
      for (; i + W <= n; i += W) store(sum + i, load(x + i) + load(y + i));
      for (; i < n; ++i) from_float(to_float(x[i]) + to_float(y[i]), sum + i);
      norm.row(static_cast<const T*>(sum), out + r * n);
    }
  });
}

// input, residual, weight?; scalars eps, offset; outputs the sum (rounded to the dtype) and its norm.
int32_t run_add_rms_norm(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const Rows rows(input);
  const Rows others(call->inputs[1]);
  if (rows.length == 0 || rows.count == 0) return CLIKA_OK;
  Norm norm;
  if (prepare(call, 2, rows.length, &norm) != CLIKA_OK) return CLIKA_UNAVAILABLE;
  bool failed;
  char* scratch = row_scratch(call, rows, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  char* other_scratch = row_scratch(call, others, 4, &failed);
  if (failed) return CLIKA_UNAVAILABLE;
  visit_float(input.dtype, [&](auto tag) {
    add_norm_rows<decltype(tag)>(call, rows, others, scratch, other_scratch, norm);
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(rms_norm,
              Entry("rms_norm", run_rms_norm).in(FLOATS).out(FLOATS),
              Entry("add_rms_norm", run_add_rms_norm).in(FLOATS).out(FLOATS))
#include "level_end.hpp"
