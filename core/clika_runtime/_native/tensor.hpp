// The record under a Tensor handle.
#pragma once

#include "backend.hpp"

namespace clika {

struct TensorRecord {
  Storage* storage = nullptr;  // null: fake or traced
  int64_t offset = 0;          // bytes
  int64_t shape[CLIKA_MAX_RANK];    // the first `rank` entries count
  int64_t strides[CLIKA_MAX_RANK];  // elements
  int32_t rank = 0;
  int32_t dtype = 0;
  int32_t scheme = 0;
  int32_t layout = 0;
  int32_t pack_mode = 0;       // of a layout of the backend's own: the mode that it was packed for
  int32_t device = 0;
  int32_t value = -1;          // of a traced tensor: its value in the recorder's store

  char* data() const { return static_cast<char*>(storage->data()) + offset; }
  bool dense() const { return scheme == CLIKA_DENSE; }
  int64_t numel() const { return count_elements(rank, shape); }
  bool contiguous() const { return scheme != CLIKA_DENSE || is_contiguous(rank, shape, strides); }
  void set_contiguous_strides() {
    int64_t step = 1;
    for (int32_t i = rank - 1; i >= 0; --i) {
      strides[i] = step;
      step *= shape[i] > 0 ? shape[i] : 1;
    }
  }
  void fill(clika_value* out, void* data_pointer) const {
    out->data = data_pointer;
    out->shape = shape;
    out->strides = scheme == CLIKA_DENSE ? strides : nullptr;
    out->rank = rank;
    out->dtype = dtype;
    out->scheme = scheme;
    out->layout = layout;
    out->kind = CLIKA_TENSOR;
    out->n_items = 0;
    out->items = nullptr;
    out->nbytes = storage != nullptr ? static_cast<int64_t>(storage->nbytes()) - offset : 0;
  }
};

}  // namespace clika
