// copy, copy_, cat and bitcast: elements move unchanged. full: one element everywhere.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"

int32_t run_copy(const clika_call* call) {
  copy_tensor(call, call->outputs[0], call->inputs[0]);
  return CLIKA_OK;
}

// An input of the same width in another dtype.
int32_t run_bitcast(const clika_call* call) {
  const clika_value& out = call->outputs[0];
  copy_tensor(call, out, call->inputs[0]);
  if (out.dtype == CLIKA_BOOL) {  // every byte but 0 is true, and a true one is 1
    uint8_t* values = static_cast<uint8_t*>(out.data);
    for (int64_t i = 0; i < elements(out); ++i) values[i] = values[i] != 0;
  }
  return CLIKA_OK;
}

// input (written in place, also output 0), source of the same dtype.
int32_t run_copy_into(const clika_call* call) {
  copy_tensor(call, call->outputs[0], call->inputs[1]);
  return CLIKA_OK;
}

// tensors; attr dim.
int32_t run_cat(const clika_call* call) {
  const clika_value& list = call->inputs[0];
  const clika_value& out = call->outputs[0];
  const int64_t given = attr_int(call, 0, 0);
  const int64_t dim = given < 0 ? given + out.rank : given;
  const int64_t size = bytes_of(out.dtype);
  int64_t start = 0;
  for (int32_t i = 0; i < list.n_items; ++i) {
    const clika_value& item = list.items[i];
    if (item.rank != out.rank) continue;  // of shape [0]
    clika_value part = out;
    part.shape = item.shape;
    part.data = static_cast<char*>(out.data) + start * out.strides[dim] * size;
    copy_tensor(call, part, item);
    start += item.shape[dim];
  }
  return CLIKA_OK;
}

// fill_value of rank 0, already in the result's dtype.
int32_t run_full(const clika_call* call) {
  copy_tensor(call, call->outputs[0], call->inputs[0]);
  return CLIKA_OK;
}

CLIKA_KERNELS(copy,
              Entry("copy", run_copy).in(kWholeBytes).out(kWholeBytes),
              Entry("bitcast", run_bitcast).in(kWholeBytes).out(kWholeBytes),
              Entry("copy_", run_copy_into).in(kWholeBytes).out(kWholeBytes).inplace(),
              Entry("cat", run_cat).in(kWholeBytes).out(kWholeBytes),
              Entry("full", run_full).in(kWholeBytes).out(kWholeBytes))
#include "level_end.hpp"
