// cat, index_select and gather: elements move as bytes, so one source serves every dtype.
#include <cstdio>

#include "level.hpp"
#include "elementwise.hpp"

int64_t axis_of(const clika_call* call, uint32_t attr, int32_t rank) {
  const int64_t dim = attr_int(call, attr, 0);
  return dim < 0 ? dim + std::max(rank, 1) : dim;
}

// Element offset of a row-major index over `shape` with dim `axis` left out.
int64_t offset_without(const clika_value& v, const int64_t* shape, int32_t axis, int64_t index) {
  int64_t offset = 0;
  for (int32_t d = v.rank - 1; d >= 0; --d) {
    if (d == axis) continue;
    offset += (index % shape[d]) * v.strides[d];
    index /= shape[d];
  }
  return offset;
}

int64_t index_at(const clika_value& v, int64_t offset) {
  return v.dtype == CLIKA_INT32 ? data_of<int32_t>(v)[offset] : data_of<int64_t>(v)[offset];
}

int32_t outside(const clika_call* call, const char* op, int64_t index, int64_t size) {
  char text[160];
  std::snprintf(text, sizeof(text), "%s: index %lld is outside 0 .. %lld", op, static_cast<long long>(index),
                static_cast<long long>(size - 1));
  return fail(call, CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT", text);
}

template <class Body>
void by_size(int32_t dtype, const Body& body) {
  switch (bytes_of(dtype)) {
    case 1: return body(uint8_t{});
    case 2: return body(uint16_t{});
    case 4: return body(uint32_t{});
    default: return body(uint64_t{});
  }
}

// tensors; attr dim.
int32_t run_cat(const clika_call* call) {
  const clika_value& list = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int32_t axis = static_cast<int32_t>(axis_of(call, 0, out.rank));
  int64_t at = 0;
  for (int32_t k = 0; k < list.n_items; ++k) {
    const clika_value& in = list.items[k];
    if (elements(in) != 0) {
      clika_value part = out;  // the piece of the result that this tensor fills
      part.shape = in.shape;
      by_size(out.dtype, [&](auto tag) {
        using T = decltype(tag);
        part.data = static_cast<T*>(out.data) + at * out.strides[axis];
        const Walk<2> walk({&part, &in});
        parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
          walk.run(begin, end, std::numeric_limits<int64_t>::max() / 2, [&](const int64_t* offset, int64_t n) {
            const T* from = static_cast<const T*>(in.data) + offset[1];
            T* to = static_cast<T*>(part.data) + offset[0];
            for (int64_t i = 0; i < n; ++i) to[i * walk.step[0]] = from[i * walk.step[1]];
          });
        });
      });
    }
    at += in.shape[axis];
  }
  return CLIKA_OK;
}

// input, index; attr dim.
int32_t run_index_select(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  const int64_t wanted = elements(index);
  const int64_t step = index.rank == 0 ? 0 : index.strides[0];
  if (in.rank == 0) {
    for (int64_t i = 0; i < wanted; ++i) {
      const int64_t k = index_at(index, i * step);
      if (k != 0) return outside(call, "index_select", k, 1);
    }
    by_size(in.dtype, [&](auto tag) { data_of<decltype(tag)>(out)[0] = data_of<decltype(tag)>(in)[0]; });
    return CLIKA_OK;
  }
  const int32_t axis = static_cast<int32_t>(axis_of(call, 0, in.rank));
  const int64_t size = in.shape[axis];
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t k = index_at(index, i * step);
    if (k < 0 || k >= size) return outside(call, "index_select", k, size);
  }
  int64_t inner = 1;  // dims after the axis: one run of the result
  for (int32_t d = axis + 1; d < in.rank; ++d) inner *= in.shape[d];
  int64_t outer = 1;
  for (int32_t d = 0; d < axis; ++d) outer *= in.shape[d];
  clika_value tail = in;  // the dims after the axis
  tail.rank = in.rank - axis - 1;
  tail.shape = in.shape + axis + 1;
  tail.strides = in.strides + axis + 1;
  clika_value head = in;
  head.rank = axis;
  const bool packed = is_contiguous(tail);
  by_size(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T* from = data_of<T>(in);
    T* to = data_of<T>(out);
    parallel(call, outer * wanted, std::max<int64_t>(1, kParallelFrom / std::max<int64_t>(inner, 1)),
             [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t base = offset_without(head, head.shape, -1, r / wanted) +
                             index_at(index, (r % wanted) * step) * in.strides[axis];
        T* target = to + r * inner;
        if (packed) {
          std::memcpy(target, from + base, static_cast<size_t>(inner) * sizeof(T));
          continue;
        }
        for (int64_t i = 0; i < inner; ++i) target[i] = from[base + offset_without(tail, tail.shape, -1, i)];
      }
    });
  });
  return CLIKA_OK;
}

// input, index of the same rank; attr dim.
int32_t run_gather(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  const int64_t n = elements(index);
  if (n == 0) return CLIKA_OK;
  const int32_t axis = in.rank == 0 ? 0 : static_cast<int32_t>(axis_of(call, 0, in.rank));
  const int64_t size = in.rank == 0 ? 1 : in.shape[axis];
  int64_t wrong = 0;
  bool bad = false;
  by_size(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T* from = data_of<T>(in);
    T* to = data_of<T>(out);
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i;
      int64_t at_index = 0;
      int64_t at_input = 0;
      for (int32_t d = index.rank - 1; d >= 0; --d) {
        const int64_t k = rest % index.shape[d];
        rest /= index.shape[d];
        at_index += k * index.strides[d];
        if (d != axis && d < in.rank) at_input += k * in.strides[d];
      }
      const int64_t k = index_at(index, at_index);
      if (k < 0 || k >= size) {
        wrong = k;
        bad = true;
        return;
      }
      to[i] = from[at_input + (in.rank == 0 ? 0 : k * in.strides[axis])];
    }
  });
  return bad ? outside(call, "gather", wrong, size) : CLIKA_OK;
}

constexpr uint64_t kWhole = F64 | FLOATS | FLOATS8 | INTS | BOOL;

CLIKA_KERNELS(index_select,
              Entry("cat", run_cat).in(kWhole).out(kWhole),
              Entry("index_select", run_index_select).in(kWhole, I32 | I64).out(kWhole),
              Entry("gather", run_gather).in(kWhole, I32 | I64).out(kWhole))
#include "level_end.hpp"
