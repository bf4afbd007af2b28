// Rows of a tensor: the last dimension, wherever the leading ones lie. Included after level.hpp.

// Offset of row `index` (row-major over the leading dimensions) in elements.
CLIKA_INLINE int64_t row_offset(const clika_value& v, int64_t index) {
  int64_t offset = 0;
  for (int32_t d = v.rank - 2; d >= 0; --d) {
    offset += (index % v.shape[d]) * v.strides[d];
    index /= v.shape[d];
  }
  return offset;
}

struct Rows {
  const clika_value* v;
  int64_t count;   // rows
  int64_t length;  // elements of a row
  int64_t step;    // between elements of a row
  int64_t stride;  // between rows, or -1 when it is not one number

  explicit Rows(const clika_value& value) : v(&value), count(1), length(1), step(1), stride(0) {
    const int32_t rank = value.rank;
    if (rank == 0) return;
    length = value.shape[rank - 1];
    step = length == 1 ? 1 : value.strides[rank - 1];
    for (int32_t d = 0; d < rank - 1; ++d) count *= value.shape[d];
    int64_t expected = -1;
    for (int32_t d = rank - 2; d >= 0; --d) {
      if (value.shape[d] == 1) continue;
      if (expected < 0) {
        stride = value.strides[d];
      } else if (value.strides[d] != expected) {
        stride = -1;
        return;
      }
      expected = value.strides[d] * value.shape[d];
    }
  }
  CLIKA_INLINE int64_t offset(int64_t row) const { return stride >= 0 ? row * stride : row_offset(*v, row); }
};

// A row of floats in one piece: the row itself, or its copy in `buffer` when its elements lie apart.
template <class T>
CLIKA_INLINE const T* packed_row(const Rows& rows, int64_t row, T* buffer) {
  const T* p = static_cast<const T*>(rows.v->data) + rows.offset(row);
  if (rows.step == 1) return p;
  for (int64_t i = 0; i < rows.length; ++i) buffer[i] = p[i * rows.step];
  return buffer;
}

// Scratch for one packed row per worker, or null when the rows already are in one piece. `failed` tells
// a failed allocation.
inline char* row_scratch(const clika_call* call, const Rows& rows, size_t element, bool* failed) {
  *failed = false;
  if (rows.step == 1) return nullptr;
  const size_t bytes =
      static_cast<size_t>(rows.length) * element * static_cast<size_t>(call->core->num_threads());
  char* scratch = static_cast<char*>(call->core->scratch(call, bytes));
  *failed = scratch == nullptr;
  return scratch;
}

// A tensor whose last `dims` dimensions are one: its own memory where they are evenly spaced, else a copy. An
// attribute with a list of sizes says how many there are, an absent one stands for 1.
inline int32_t normalized_dims(const clika_call* call, uint32_t i) {
  return i < call->n_attrs && call->attrs[i].kind == CLIKA_ATTR_INTS ? call->attrs[i].n : 1;
}
struct Joined {
  clika_value v;
  int64_t shape[CLIKA_MAX_RANK];
  int64_t strides[CLIKA_MAX_RANK];

  // False after a failed allocation.
  bool open(const clika_call* call, const clika_value& from, int32_t dims) {
    v = from;
    if (dims <= 1 || from.rank == 0) return true;
    const int32_t kept = from.rank - dims;
    int64_t length = 1;
    int64_t step = 1;
    bool even = true;
    for (int32_t d = from.rank - 1; d >= kept; --d) {
      if (from.shape[d] == 1) continue;
      if (length == 1) step = from.strides[d];
      even = even && from.strides[d] == step * length;
      length *= from.shape[d];
    }
    if (!even) {
      const int64_t size = from.dtype == CLIKA_FLOAT32 ? 4 : 2;
      v.data = call->core->scratch(call, static_cast<size_t>(elements(from) * size));
      if (v.data == nullptr) return false;
      int64_t stride = 1;
      for (int32_t d = from.rank - 1; d >= 0; --d) {
        strides[d] = stride;
        stride *= from.shape[d];
      }
      clika_value to = v;
      to.strides = strides;
      copy_strided(to, from, size);
      step = 1;
    }
    for (int32_t d = 0; d < kept; ++d) {
      shape[d] = from.shape[d];
      if (even) strides[d] = from.strides[d];
    }
    shape[kept] = length;
    strides[kept] = step;
    v.rank = kept + 1;
    v.shape = shape;
    v.strides = strides;
    return true;
  }
  static void copy_strided(const clika_value& to, const clika_value& from, int64_t size) {
    const int64_t n = elements(from);
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i;
      int64_t at = 0;
      for (int32_t d = from.rank - 1; d >= 0; --d) {
        at += rest % from.shape[d] * from.strides[d];
        rest /= from.shape[d];
      }
      std::memcpy(static_cast<char*>(to.data) + i * size, static_cast<const char*>(from.data) + at * size,
                  static_cast<size_t>(size));
    }
  }
};

// A vector (rank 1) as floats in one piece: its own bytes where they are, else a converted copy in
// scratch. Null when scratch could not be had.
inline const float* float_vector(const clika_call* call, const clika_value& v) {
  const int64_t n = v.shape[0];
  const int64_t step = n > 1 ? v.strides[0] : 1;
  if (v.dtype == CLIKA_FLOAT32 && step == 1) return static_cast<const float*>(v.data);
  float* copy = static_cast<float*>(call->core->scratch(call, static_cast<size_t>(n) * 4 + 64));
  if (copy == nullptr) return nullptr;
  visit_float(v.dtype, [&](auto tag) {
    const auto* p = static_cast<const decltype(tag)*>(v.data);
    for (int64_t i = 0; i < n; ++i) copy[i] = to_float(p[i * step]);
  });
  return copy;
}

// The optional input i, which has the normalized dimensions, as floats in one piece. False after a failed
// allocation.
inline bool optional_row(const clika_call* call, uint32_t i, int32_t dims, const float** row) {
  *row = nullptr;
  if (!present(call, i)) return true;
  Joined joined;
  if (!joined.open(call, call->inputs[i], dims)) return false;
  *row = float_vector(call, joined.v);
  return *row != nullptr;
}
