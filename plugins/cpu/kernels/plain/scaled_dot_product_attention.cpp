// scaled_dot_product_attention of float64: plain loops.
#include "level.hpp"
#include "elementwise.hpp"
#include "heads.hpp"

// The number that a mask adds to a score.
double bias_of(const clika_value& mask, int64_t at) {
  if (mask.dtype == CLIKA_FLOAT64) return data_of<double>(mask)[at];
  if (mask.dtype == CLIKA_BOOL) {
    return data_of<uint8_t>(mask)[at] != 0 ? 0.0 : -std::numeric_limits<double>::infinity();
  }
  float x;
  Tiles<float>::loader(mask.dtype)(&x, mask.data, at, 1, 1);
  return static_cast<double>(x);
}

void attend(const Heads& h, int64_t index, int64_t row, double* weights) {
  const clika_value& q = *h.query;
  const clika_value& k = *h.key;
  const clika_value& v = *h.value;
  const double* query = data_of<double>(q) + h.offset(q, index, 1) + row * q.strides[q.rank - 2];
  const double* keys = data_of<double>(k) + h.offset(k, index, h.group);
  const double* values = data_of<double>(v) + h.offset(v, index, h.group);
  double* out = data_of<double>(*h.out) + (index * h.length + row) * h.value_size;
  const int64_t n = h.seen(row);
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    double s = 0.0;
    for (int64_t d = 0; d < h.size; ++d) {
      s += query[d * q.strides[q.rank - 1]] * keys[j * k.strides[k.rank - 2] + d * k.strides[k.rank - 1]];
    }
    s *= h.scale;
    if (h.softcap > 0.0) s = h.softcap * std::tanh(s / h.softcap);
    if (h.mask != nullptr) s += bias_of(*h.mask, h.mask_row(index, row) + j * h.mask_step());
    weights[j] = s;
    top = s > top ? s : top;
  }
  if (std::isinf(top)) top = 0.0;
  double sum = 0.0;
  for (int64_t j = 0; j < n; ++j) {
    weights[j] = std::exp(weights[j] - top);
    sum += weights[j];
  }
  for (int64_t e = 0; e < h.value_size; ++e) {
    double total = 0.0;
    for (int64_t j = 0; j < n; ++j) {
      total += weights[j] * values[j * v.strides[v.rank - 2] + e * v.strides[v.rank - 1]];
    }
    out[e] = sum == 0.0 ? 0.0 : total / sum;
  }
}

int32_t run(const clika_call* call) {
  if (scalar_float(call, 0, 0.0) != 0.0) {
    return refuse(call,
                  "scaled_dot_product_attention: dropout_p %g must be 0: nothing is dropped in inference",
                  scalar_float(call, 0, 0.0));
  }
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const Heads h(call);
  const int64_t workers = call->core->num_threads();
  double* memory = static_cast<double*>(
      call->core->scratch(call, static_cast<size_t>(workers * h.positions + 1) * sizeof(double)));
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t grain = std::max<int64_t>(1, 65536 / (1 + h.positions * (h.size + h.value_size)));
  parallel(call, h.count * h.length, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    for (int64_t i = begin; i < end; ++i) {
      attend(h, i / h.length, i % h.length, memory + worker * h.positions);
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(scaled_dot_product_attention,
              Entry("scaled_dot_product_attention", run).in(F64, F64, F64, FLOATS | F64 | BOOL).out(F64)
                  .parallel())
#include "level_end.hpp"
