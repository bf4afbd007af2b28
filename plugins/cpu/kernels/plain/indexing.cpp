// index_select and gather: picking along a dimension by int32 or int64 indices.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"
#include "indices.hpp"

int32_t run_index_select(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  const int32_t dim = front_of(attr_int(call, 0, 0), in);
  const Axis axis = axis_of(in, dim);
  const int64_t count = elements(index);
  const int64_t index_step = index.rank == 0 ? 0 : index.strides[0];
  const int64_t size = bytes_of(in.dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = index_at(index, i * index_step);
    if (at < 0 || at >= axis.size) return outside(call, "index_select", at, axis.size);
  }
  if (elements(out) == 0) return CLIKA_OK;
  if (in.rank == 0) {
    std::memcpy(out.data, in.data, static_cast<size_t>(size));
    return CLIKA_OK;
  }
  // Each index copies one slice: the tensor without the dimension.
  int64_t shape[CLIKA_MAX_RANK];
  for (int32_t d = 0; d < in.rank; ++d) shape[d] = d == dim ? 1 : in.shape[d];
  parallel(call, count, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, elements(out) / count)),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t i = begin; i < end; ++i) {
               clika_value from = in;
               clika_value to = out;
               from.shape = shape;
               to.shape = shape;
               from.data = static_cast<char*>(in.data) + index_at(index, i * index_step) * axis.stride * size;
               to.data = data_of<char>(out) + i * out.strides[dim] * size;
               const Walk<2> walk({&to, &from});
               walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
                 copy_elements(size, static_cast<char*>(to.data) + at[0] * size, walk.step[0],
                               static_cast<const char*>(from.data) + at[1] * size, walk.step[1], n);
               });
             }
           });
  return CLIKA_OK;
}

int32_t run_gather(const clika_call* call) { return gather_along(call, "gather", attr_int(call, 0, 0), false); }

CLIKA_KERNELS(indexing,
              Entry("index_select", run_index_select).in(kWholeBytes, I32 | I64).out(kWholeBytes),
              Entry("gather", run_gather).in(kWholeBytes, I32 | I64).out(kWholeBytes))
#include "level_end.hpp"
