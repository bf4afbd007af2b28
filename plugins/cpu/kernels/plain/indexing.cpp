// index_select and gather: picking along a dimension by int32 or int64 indices.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"

CLIKA_INLINE int64_t index_at(const clika_value& v, int64_t offset) {
  return v.dtype == CLIKA_INT64 ? data_of<int64_t>(v)[offset] : data_of<int32_t>(v)[offset];
}

int32_t outside(const clika_call* call, const char* op, int64_t index, int64_t size) {
  return refuse(call, "%s: index %lld is outside 0 .. %lld", op, static_cast<long long>(index),
                static_cast<long long>(size - 1));
}

// The dimension that attr 0 names.
int32_t dim_of(const clika_call* call, const clika_value& v) {
  const int64_t dim = attr_int(call, 0, 0);
  return static_cast<int32_t>(dim < 0 ? dim + v.rank : dim);
}

// A tensor of rank 0 is treated as one of shape [1].
struct Axis {
  int64_t size;
  int64_t stride;
};
Axis axis_of(const clika_value& v, int32_t dim) {
  return v.rank == 0 ? Axis{1, 0} : Axis{v.shape[dim], v.strides[dim]};
}

int32_t run_index_select(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  const int32_t dim = dim_of(call, in);
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

// Returns the first index outside the dimension in `bad`, and whether there is none.
template <class U>
bool gather(const clika_value& in, const clika_value& index, clika_value& out, int32_t dim, int64_t* bad) {
  const Axis axis = axis_of(in, dim);
  // The input seen with index's shape, standing still along the gathered dimension.
  // A scalar input counts as one dimension of size 1, so the index may have a dimension that the input lacks.
  int64_t strides[CLIKA_MAX_RANK] = {};
  for (int32_t d = 0; d < in.rank; ++d) strides[d] = d == dim ? 0 : in.strides[d];
  clika_value base = in;
  base.shape = index.shape;
  base.strides = strides;
  base.rank = index.rank;
  const Walk<3> walk({&out, &index, &base});
  bool inside = true;
  walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = index_at(index, at[1] + i * walk.step[1]);
      if (k < 0 || k >= axis.size) {
        if (inside) *bad = k;
        inside = false;
        continue;
      }
      data_of<U>(out)[at[0] + i * walk.step[0]] = data_of<U>(in)[at[2] + i * walk.step[2] + k * axis.stride];
    }
  });
  return inside;
}

int32_t run_gather(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const int32_t dim = dim_of(call, in);
  const int64_t size = bytes_of(in.dtype);
  int64_t bad = 0;
  const bool inside = size == 1   ? gather<uint8_t>(in, index, out, dim, &bad)
                      : size == 2 ? gather<uint16_t>(in, index, out, dim, &bad)
                      : size == 4 ? gather<uint32_t>(in, index, out, dim, &bad)
                                  : gather<uint64_t>(in, index, out, dim, &bad);
  return inside ? static_cast<int32_t>(CLIKA_OK) : outside(call, "gather", bad, axis_of(in, dim).size);
}

CLIKA_KERNELS(indexing,
              Entry("index_select", run_index_select).in(kWholeBytes, I32 | I64).out(kWholeBytes),
              Entry("gather", run_gather).in(kWholeBytes, I32 | I64).out(kWholeBytes))
#include "level_end.hpp"
