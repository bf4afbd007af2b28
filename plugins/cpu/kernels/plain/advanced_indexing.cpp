// index and index_put_: entries by several broadcast indices at once.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"

// What both kernels walk over: the shape of input[indices], how input's other dims lie in it, and for every
// place the offset that the indices give.
struct Places {
  int32_t rank = 0;
  int64_t shape[CLIKA_MAX_RANK];
  int64_t rest[CLIKA_MAX_RANK];     // strides of input, 0 along the dims of the indices
  int64_t across[CLIKA_MAX_RANK];   // strides of `offsets`, 0 along the others
  int64_t* offsets = nullptr;
  int64_t count = 1;                // of offsets

  // Reads all indices first, so that nothing is written when one is outside.
  int32_t read(const clika_call* call, const char* op, const clika_value& in, const clika_value& list,
               const clika_attr& dims) {
    const int32_t n = list.n_items;
    int32_t at[CLIKA_MAX_RANK];
    int32_t picked = 0;
    for (int32_t k = 0; k < n; ++k) {
      const int64_t d = dims.kind == CLIKA_ATTR_NONE ? k : dims.v.ints[k];
      at[k] = static_cast<int32_t>(d < 0 ? d + in.rank : d);
      picked = std::max(picked, list.items[k].rank);
    }
    int64_t sizes[CLIKA_MAX_RANK];
    for (int32_t d = 0; d < picked; ++d) {
      sizes[d] = 1;
      for (int32_t k = 0; k < n; ++k) {
        const int32_t own = d - (picked - list.items[k].rank);
        if (own >= 0 && list.items[k].shape[own] != 1) sizes[d] = list.items[k].shape[own];
      }
      count *= sizes[d];
    }
    const bool together = at[n - 1] - at[0] == n - 1;
    const int32_t place = together ? at[0] : 0;
    int32_t next = 0;
    for (int32_t d = 0; d <= in.rank; ++d) {
      if (rank == place) {
        int64_t step = count;
        for (int32_t i = 0; i < picked; ++i) {
          shape[rank] = sizes[i];
          step = sizes[i] > 0 ? step / sizes[i] : 0;
          across[rank] = step;
          rest[rank++] = 0;
        }
      }
      if (d == in.rank) break;
      if (next < n && at[next] == d) {
        ++next;
        continue;
      }
      shape[rank] = in.shape[d];
      across[rank] = 0;
      rest[rank++] = in.strides[d];
    }
    if (count == 0) return CLIKA_OK;
    offsets = static_cast<int64_t*>(call->core->scratch(call, static_cast<size_t>(count) * sizeof(int64_t)));
    if (offsets == nullptr) return CLIKA_INTERNAL;  // the core has set the error
    std::memset(offsets, 0, static_cast<size_t>(count) * sizeof(int64_t));
    for (int32_t k = 0; k < n; ++k) {
      const clika_value& index = list.items[k];
      const int64_t size = in.shape[at[k]];
      const bool plain = is_contiguous(index) && elements(index) == count;
      for (int64_t i = 0; i < count; ++i) {
        int64_t from = plain ? i : 0;
        int64_t left = i;
        for (int32_t d = picked - 1; !plain && d >= 0; --d) {
          const int32_t own = d - (picked - index.rank);
          if (own >= 0 && index.shape[own] != 1) from += left % sizes[d] * index.strides[own];
          left /= sizes[d];
        }
        const int64_t given =
            index.dtype == CLIKA_INT64 ? data_of<int64_t>(index)[from] : data_of<int32_t>(index)[from];
        if (given < -size || given >= size) {
          return refuse(call, "%s: index %lld is outside dim %d of size %lld", op,
                        static_cast<long long>(given), static_cast<int>(at[k]), static_cast<long long>(size));
        }
        offsets[i] += (given < 0 ? given + size : given) * in.strides[at[k]];
      }
    }
    return CLIKA_OK;
  }

  clika_value view(const clika_value& like, const int64_t* strides) const {
    clika_value v = like;
    v.rank = rank;
    v.shape = shape;
    v.strides = strides;
    return v;
  }
};

// n elements whose places on the side of the indexed tensor are offsets[i * offset_step] further on.
template <class U, bool kRead>
void move_run(void* indexed, int64_t indexed_step, const int64_t* offsets, int64_t offset_step, void* other,
              int64_t other_step, int64_t n) {
  U* x = static_cast<U*>(indexed);
  U* y = static_cast<U*>(other);
  for (int64_t i = 0; i < n; ++i) {
    U& place = x[i * indexed_step + offsets[i * offset_step]];
    if (kRead) {
      y[i * other_step] = place;
    } else {
      place = y[i * other_step];
    }
  }
}
template <bool kRead>
auto mover(int64_t size) {
  return size == 1   ? move_run<uint8_t, kRead>
         : size == 2 ? move_run<uint16_t, kRead>
         : size == 4 ? move_run<uint32_t, kRead>
                     : move_run<uint64_t, kRead>;
}

// input, indices; attr dims.
int32_t run_index(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  Places places;
  const int32_t status = places.read(call, "index", in, call->inputs[1], call->attrs[0]);
  if (status != CLIKA_OK || elements(out) == 0) return status;
  const clika_value from = places.view(in, places.rest);
  const clika_value offset = places.view(in, places.across);
  const Walk<3> walk({&out, &from, &offset});
  const int64_t size = bytes_of(in.dtype);
  const auto move = mover<true>(size);
  parallel(call, walk.outer * walk.length, 65536, [&](int64_t begin, int64_t end, int32_t) {
    walk.run(begin, end, walk.length, [&](const int64_t* at, int64_t n) {
      char* to = static_cast<char*>(out.data) + at[0] * size;
      char* base = static_cast<char*>(in.data) + at[1] * size;
      const int64_t* offsets = places.offsets + at[2];
      if (walk.step[2] == 0) {
        copy_elements(size, to, walk.step[0], base + *offsets * size, walk.step[1], n);
      } else {
        move(base, walk.step[1], offsets, walk.step[2], to, walk.step[0], n);
      }
    });
  });
  return CLIKA_OK;
}

template <class C>
void add_one(int32_t dtype, void* to, const void* value) {
  C a;
  C b;
  Tiles<C>::loader(dtype)(&a, to, 0, 1, 1);
  Tiles<C>::loader(dtype)(&b, value, 0, 1, 1);
  if (std::is_same<C, int64_t>::value) {  // wraps around, as integers do
    a = static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    a = a + b;
  }
  Tiles<C>::storer(dtype)(&a, to, 0, 1, 1);
}

// input (written in place, also output 0), indices, values of the same dtype; attrs dims, accumulate.
int32_t run_index_put(const clika_call* call) {
  const clika_value& in = call->outputs[0];
  const clika_value& values = call->inputs[2];
  Places places;
  const int32_t status = places.read(call, "index_put_", in, call->inputs[1], call->attrs[0]);
  if (status != CLIKA_OK || places.count == 0) return status;
  const bool accumulate = attr_int(call, 1, 0) != 0;
  const clika_value to = places.view(in, places.rest);
  const clika_value offset = places.view(in, places.across);
  const Walk<3> walk({&to, &values, &offset});
  const int64_t size = bytes_of(in.dtype);
  const Compute compute = compute_of(in.dtype);
  if (accumulate && compute == kNoCompute) return no_compute(call);
  const auto add = compute == kFloat    ? add_one<float>
                   : compute == kDouble ? add_one<double>
                                        : add_one<int64_t>;
  // In order and alone: where two indices name one place, the last value stays, or sums have one order.
  const auto move = mover<false>(size);
  walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
    char* base = static_cast<char*>(in.data) + at[0] * size;
    char* value = static_cast<char*>(values.data) + at[1] * size;
    const int64_t* offsets = places.offsets + at[2];
    if (!accumulate && walk.step[2] == 0) {
      copy_elements(size, base + *offsets * size, walk.step[0], value, walk.step[1], n);
      return;
    }
    if (!accumulate) {
      move(base, walk.step[0], offsets, walk.step[2], value, walk.step[1], n);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = i * walk.step[0] + offsets[i * walk.step[2]];
      add(in.dtype, base + place * size, value + i * walk.step[1] * size);
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(advanced_indexing,
              Entry("index", run_index).in(kWholeBytes, I32 | I64).out(kWholeBytes),
              Entry("index_put_", run_index_put)
                  .in(kWholeBytes, I32 | I64, kWholeBytes)
                  .out(kWholeBytes)
                  .inplace())
#include "level_end.hpp"
