// Reading indices and what they name. Included after elementwise.hpp and copying.hpp.

inline int32_t outside(const clika_call* call, const char* op, int64_t index, int64_t size) {
  return refuse(call, "%s: index %lld is outside 0 .. %lld", op, static_cast<long long>(index),
                static_cast<long long>(size - 1));
}

// Calls body(tag) with the unsigned integer of so many bytes.
template <class Body>
CLIKA_INLINE void by_size(int64_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}

CLIKA_INLINE int64_t index_at(const clika_value& v, int64_t offset) {
  return v.dtype == CLIKA_INT64 ? data_of<int64_t>(v)[offset] : data_of<int32_t>(v)[offset];
}
// Whether an index is inside; with `from_end` a negative one counts from the end.
CLIKA_INLINE bool settle_index(int64_t* index, int64_t size, bool from_end) {
  if (from_end && *index < 0) *index += size;
  return *index >= 0 && *index < size;
}

// Calls body(k) for every index in row-major order; false, and the first bad one in `bad`, where one is outside.
template <class Body>
bool each_index(const clika_value& index, int64_t size, bool from_end, int64_t* bad, const Body& body) {
  const Walk<1> walk({&index});
  bool inside = true;
  walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
    for (int64_t i = 0; i < n && inside; ++i) {
      const int64_t given = index_at(index, at[0] + i * walk.step[0]);
      int64_t k = given;
      if (settle_index(&k, size, from_end)) {
        body(k);
      } else {
        *bad = given;
        inside = false;
      }
    }
  });
  return inside;
}

// ------------------------------------------------------------------ shapes
inline void compact_strides(int32_t rank, const int64_t* shape, int64_t* strides) {
  int64_t step = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= std::max<int64_t>(1, shape[d]);
  }
}

// A value without data that has the common shape of two.
inline clika_value broadcast_of(const clika_value& a, const clika_value& b, int64_t* shape) {
  clika_value both{};
  both.rank = std::max(a.rank, b.rank);
  both.shape = shape;
  both.strides = shape;  // not looked at
  for (int32_t d = 0; d < both.rank; ++d) {
    const int32_t i = d - (both.rank - a.rank);
    const int32_t k = d - (both.rank - b.rank);
    shape[d] = i < 0 || (k >= 0 && a.shape[i] == 1) ? b.shape[k] : a.shape[i];
  }
  return both;
}

// A tensor of rank 0 is treated as one of shape [1].
struct Axis {
  int64_t size;
  int64_t stride;
};
inline Axis axis_of(const clika_value& v, int32_t dim) {
  return v.rank == 0 ? Axis{1, 0} : Axis{v.shape[dim], v.strides[dim]};
}
inline int32_t front_of(int64_t dim, const clika_value& v) {
  return static_cast<int32_t>(dim < 0 ? dim + v.rank : dim);
}

// to = from, elements of so many bytes and one shape.
inline void copy_slice(const clika_value& to, const clika_value& from, int64_t size) {
  if (to.rank == 0) {
    std::memcpy(to.data, from.data, static_cast<size_t>(size));
    return;
  }
  const Walk<2> walk({&to, &from});
  walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
    copy_elements(size, static_cast<char*>(to.data) + at[0] * size, walk.step[0], data_of<char>(from) + at[1] * size,
                  walk.step[1], n);
  });
}

// ------------------------------------------------------------------ gathering along a dimension
// out[.., i, ..] = in[.., index[.., i, ..], ..]. Input and index are broadcast to the result in the other
// dimensions; where the result is smaller than the input there, its first elements are meant.
inline int32_t gather_along(const clika_call* call, const char* op, int64_t along, bool from_end) {
  const clika_value& in = call->inputs[0];
  const clika_value& index = call->inputs[1];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const int32_t dim = front_of(along, in);
  const Axis axis = axis_of(in, dim);
  // The input seen with the result's shape, standing still along the gathered dimension. A scalar input counts
  // as one dimension of size 1, so the index may have a dimension that the input lacks.
  int64_t strides[CLIKA_MAX_RANK] = {};
  for (int32_t d = 0; d < in.rank; ++d) strides[d] = d == dim || in.shape[d] == 1 ? 0 : in.strides[d];
  clika_value base = in;
  base.shape = out.shape;
  base.strides = strides;
  base.rank = out.rank;
  const Walk<3> walk({&out, &index, &base});
  int64_t bad = 0;
  bool inside = true;
  by_size(bytes_of(in.dtype), [&](auto tag) {
    using U = decltype(tag);
    walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t given = index_at(index, at[1] + i * walk.step[1]);
        int64_t k = given;
        if (!settle_index(&k, axis.size, from_end)) {
          if (inside) bad = given;
          inside = false;
          continue;
        }
        data_of<U>(out)[at[0] + i * walk.step[0]] = data_of<U>(in)[at[2] + i * walk.step[2] + k * axis.stride];
      }
    });
  });
  return inside ? static_cast<int32_t>(CLIKA_OK) : outside(call, op, bad, axis.size);
}
