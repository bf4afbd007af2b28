// Elementwise kernels over any strides. Included after level.hpp.
//
// The dimensions of all operands are merged as far as they go; what is left is a walk over rows of the
// innermost dimension in tiles. A tile is loaded into the compute type (float for float32, bfloat16 and
// float16; double; int64 or uint64 for integers and bool), computed, and stored in the result's dtype. Where
// the operand already is in the compute type and in one piece, its own memory is the tile.

constexpr int64_t kTile = 256;            // elements; three tiles of 8 bytes stay in the first-level cache
constexpr int64_t kParallelFrom = 32768;  // below this many elements the caller works alone

// ------------------------------------------------------------------ walking
template <int N>
struct Walk {
  int64_t length = 1;  // innermost dimension
  int64_t outer = 1;   // product of the others
  int32_t rank = 0;    // number of outer dimensions
  int64_t shape[CLIKA_MAX_RANK];
  int64_t strides[N][CLIKA_MAX_RANK];  // of the outer dimensions, in elements
  int64_t step[N];                     // of the innermost

  // Operand 0 is the output and gives the shape; the others broadcast to it.
  explicit Walk(const clika_value* const (&operands)[N]) {
    const clika_value& out = *operands[0];
    int32_t n = 0;
    int64_t sizes[CLIKA_MAX_RANK];
    int64_t steps[N][CLIKA_MAX_RANK];
    for (int32_t d = 0; d < out.rank; ++d) {
      if (out.shape[d] == 1) continue;
      for (int k = 0; k < N; ++k) {
        const clika_value& v = *operands[k];
        const int32_t at = d - (out.rank - v.rank);
        steps[k][n] = at >= 0 && v.shape[at] != 1 ? v.strides[at] : 0;
      }
      sizes[n] = out.shape[d];
      bool merge = n > 0;
      for (int k = 0; merge && k < N; ++k) merge = steps[k][n - 1] == steps[k][n] * sizes[n];
      if (merge) {
        sizes[n - 1] *= sizes[n];
        for (int k = 0; k < N; ++k) steps[k][n - 1] = steps[k][n];
      } else {
        ++n;
      }
    }
    if (n == 0) {
      for (int k = 0; k < N; ++k) step[k] = 1;
      return;
    }
    rank = n - 1;
    length = sizes[n - 1];
    for (int32_t d = 0; d < rank; ++d) {
      shape[d] = sizes[d];
      outer *= sizes[d];
      for (int k = 0; k < N; ++k) strides[k][d] = steps[k][d];
    }
    for (int k = 0; k < N; ++k) step[k] = steps[k][n - 1];
  }

  // Calls body(offsets of the operands in elements, count) for the pieces of [begin, end) of the flat
  // index space, each within one row and at most `most` long.
  template <class Body>
  CLIKA_INLINE void run(int64_t begin, int64_t end, int64_t most, const Body& body) const {
    if (begin >= end) return;  // length may be 0
    int64_t row = begin / length;
    int64_t column = begin % length;
    int64_t left = end - begin;
    while (left > 0) {
      int64_t base[N] = {};
      int64_t index = row;
      for (int32_t d = rank - 1; d >= 0; --d) {
        const int64_t i = index % shape[d];
        index /= shape[d];
        for (int k = 0; k < N; ++k) base[k] += i * strides[k][d];
      }
      const int64_t stop = std::min(length, column + left);
      left -= stop - column;
      while (column < stop) {
        const int64_t count = std::min(most, stop - column);
        int64_t offset[N];
        for (int k = 0; k < N; ++k) offset[k] = base[k] + column * step[k];
        body(offset, count);
        column += count;
      }
      column = 0;
      ++row;
    }
  }
};

// ------------------------------------------------------------------ compute types
enum Compute { kFloat = 0, kDouble = 1, kInt = 2, kUint = 3, kNoCompute = 4 };

inline Compute compute_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_FLOAT32:
    case CLIKA_BFLOAT16:
    case CLIKA_FLOAT16:
      return kFloat;
    case CLIKA_FLOAT64:
      return kDouble;
    case CLIKA_UINT64:
      return kUint;
    case CLIKA_BOOL:
    case CLIKA_INT8:
    case CLIKA_INT16:
    case CLIKA_INT32:
    case CLIKA_INT64:
    case CLIKA_UINT8:
    case CLIKA_UINT16:
    case CLIKA_UINT32:
      return kInt;
    default:
      return kNoCompute;
  }
}

inline int64_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_INT16:
    case CLIKA_UINT16:
    case CLIKA_FLOAT16:
    case CLIKA_BFLOAT16:
      return 2;
    case CLIKA_INT32:
    case CLIKA_UINT32:
    case CLIKA_FLOAT32:
      return 4;
    case CLIKA_INT64:
    case CLIKA_UINT64:
    case CLIKA_FLOAT64:
      return 8;
    default:
      return 1;
  }
}

struct boolean {
  uint8_t value;
};

// Tiles of float.
template <class T>
void load_floats(float* to, const void* data, int64_t offset, int64_t step, int64_t n) {
  const T* p = static_cast<const T*>(data) + offset;
  if (step == 0) {
    const float x = to_float(p[0]);
    for (int64_t i = 0; i < n; ++i) to[i] = x;
    return;
  }
  if (step == 1) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(to + i, load(p + i));
    for (; i < n; ++i) to[i] = to_float(p[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = to_float(p[i * step]);
}
template <class T>
void store_floats(const float* from, void* data, int64_t offset, int64_t step, int64_t n) {
  T* p = static_cast<T*>(data) + offset;
  if (step == 1) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(p + i, load(from + i));
    for (; i < n; ++i) from_float(from[i], p + i);
    return;
  }
  for (int64_t i = 0; i < n; ++i) from_float(from[i], p + i * step);
}

// Tiles of another compute type C.
template <class C, class T>
CLIKA_INLINE C widen(T x) {
  return static_cast<C>(x);
}
template <class C>
CLIKA_INLINE C widen(boolean x) {
  return static_cast<C>(x.value != 0);
}
template <class C, class T>
CLIKA_INLINE void narrow(C x, T* to) {
  *to = static_cast<T>(x);
}
template <class C>
CLIKA_INLINE void narrow(C x, boolean* to) {
  to->value = x != C{0};
}
template <class C, class T>
void load_wide(C* to, const void* data, int64_t offset, int64_t step, int64_t n) {
  const T* p = static_cast<const T*>(data) + offset;
  if (step == 1) {  // vectors
    for (int64_t i = 0; i < n; ++i) to[i] = widen<C>(p[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = widen<C>(p[i * step]);
}
template <class C, class T>
void store_wide(const C* from, void* data, int64_t offset, int64_t step, int64_t n) {
  T* p = static_cast<T*>(data) + offset;
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) narrow(from[i], p + i);
    return;
  }
  for (int64_t i = 0; i < n; ++i) narrow(from[i], p + i * step);
}

template <class C>
using LoadTile = void (*)(C* to, const void* data, int64_t offset, int64_t step, int64_t n);
template <class C>
using StoreTile = void (*)(const C* from, void* data, int64_t offset, int64_t step, int64_t n);

template <class C>
struct Tiles;

template <>
struct Tiles<float> {
  static LoadTile<float> loader(int32_t dtype) {
    switch (dtype) {
      case CLIKA_BFLOAT16:
        return load_floats<bf16>;
      case CLIKA_FLOAT16:
        return load_floats<f16>;
      default:
        return load_floats<float>;
    }
  }
  static StoreTile<float> storer(int32_t dtype) {
    switch (dtype) {
      case CLIKA_BFLOAT16:
        return store_floats<bf16>;
      case CLIKA_FLOAT16:
        return store_floats<f16>;
      default:
        return store_floats<float>;
    }
  }
  static bool direct(int32_t dtype) { return dtype == CLIKA_FLOAT32; }
};

template <>
struct Tiles<double> {
  static LoadTile<double> loader(int32_t) { return load_wide<double, double>; }
  static StoreTile<double> storer(int32_t) { return store_wide<double, double>; }
  static bool direct(int32_t dtype) { return dtype == CLIKA_FLOAT64; }
};

template <>
struct Tiles<uint64_t> {
  static LoadTile<uint64_t> loader(int32_t) { return load_wide<uint64_t, uint64_t>; }
  static StoreTile<uint64_t> storer(int32_t) { return store_wide<uint64_t, uint64_t>; }
  static bool direct(int32_t dtype) { return dtype == CLIKA_UINT64; }
};

template <>
struct Tiles<int64_t> {
  static LoadTile<int64_t> loader(int32_t dtype) {
    switch (dtype) {
      case CLIKA_BOOL:
        return load_wide<int64_t, boolean>;
      case CLIKA_INT8:
        return load_wide<int64_t, int8_t>;
      case CLIKA_INT16:
        return load_wide<int64_t, int16_t>;
      case CLIKA_INT32:
        return load_wide<int64_t, int32_t>;
      case CLIKA_UINT8:
        return load_wide<int64_t, uint8_t>;
      case CLIKA_UINT16:
        return load_wide<int64_t, uint16_t>;
      case CLIKA_UINT32:
        return load_wide<int64_t, uint32_t>;
      default:
        return load_wide<int64_t, int64_t>;
    }
  }
  static StoreTile<int64_t> storer(int32_t dtype) {
    switch (dtype) {
      case CLIKA_BOOL:
        return store_wide<int64_t, boolean>;
      case CLIKA_INT8:
      case CLIKA_UINT8:
        return store_wide<int64_t, uint8_t>;
      case CLIKA_INT16:
      case CLIKA_UINT16:
        return store_wide<int64_t, uint16_t>;
      case CLIKA_INT32:
      case CLIKA_UINT32:
        return store_wide<int64_t, uint32_t>;
      default:
        return store_wide<int64_t, int64_t>;
    }
  }
  static bool direct(int32_t dtype) { return dtype == CLIKA_INT64; }
};

// ------------------------------------------------------------------ drivers
struct Params {  // runtime scalars that an operation looks at
  double f = 0;
  int64_t i = 0;
};

template <class C>
using UnaryTile = void (*)(const C* x, C* out, int64_t n);
template <class C>
using BinaryTile = void (*)(const C* a, const C* b, C* out, int64_t n, const Params& params);
template <class C>
using UnaryTest = void (*)(const C* x, uint8_t* out, int64_t n);
template <class C>
using BinaryTest = void (*)(const C* a, const C* b, uint8_t* out, int64_t n);

// The tile functions of an operation by compute type; null where it has none.
template <template <class> class Fn>
struct Functions {
  Fn<float> on_float = nullptr;
  Fn<double> on_double = nullptr;
  Fn<int64_t> on_int = nullptr;
  Fn<uint64_t> on_uint = nullptr;
};

inline int32_t no_compute(const clika_call* call) {
  return fail(call, CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED_FOR_DTYPE",
              "the CPU kernel does not compute in this dtype");
}

template <class C>
int32_t drive_unary(const clika_call* call, UnaryTile<C> fn) {
  if (fn == nullptr) return no_compute(call);
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Walk<2> walk({&out, &in});
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const bool direct_in = Tiles<C>::direct(in.dtype) && walk.step[1] == 1;
  const bool direct_out = Tiles<C>::direct(out.dtype) && walk.step[0] == 1;
  const int64_t most = direct_in && direct_out ? std::numeric_limits<int64_t>::max() / 2 : kTile;
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    alignas(64) C y[kTile];
    walk.run(begin, end, most, [&](const int64_t* at, int64_t n) {
      const C* a = direct_in ? static_cast<const C*>(in.data) + at[1] : x;
      C* to = direct_out ? static_cast<C*>(out.data) + at[0] : y;
      if (!direct_in) loader(x, in.data, at[1], walk.step[1], n);
      fn(a, to, n);
      if (!direct_out) storer(y, out.data, at[0], walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

template <class C>
int32_t drive_binary(const clika_call* call, BinaryTile<C> fn, const Params& params) {
  if (fn == nullptr) return no_compute(call);
  const clika_value& left = call->inputs[0];
  const clika_value& right = call->inputs[1];
  clika_value& out = call->outputs[0];
  const Walk<3> walk({&out, &left, &right});
  const LoadTile<C> load_left = Tiles<C>::loader(left.dtype);
  const LoadTile<C> load_right = Tiles<C>::loader(right.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const bool direct_left = Tiles<C>::direct(left.dtype) && walk.step[1] == 1;
  const bool direct_right = Tiles<C>::direct(right.dtype) && walk.step[2] == 1;
  const bool direct_out = Tiles<C>::direct(out.dtype) && walk.step[0] == 1;
  const bool direct = direct_left && direct_right && direct_out;
  const int64_t most = direct ? std::numeric_limits<int64_t>::max() / 2 : kTile;
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    alignas(64) C y[kTile];
    alignas(64) C z[kTile];
    walk.run(begin, end, most, [&](const int64_t* at, int64_t n) {
      const C* a = direct_left ? static_cast<const C*>(left.data) + at[1] : x;
      const C* b = direct_right ? static_cast<const C*>(right.data) + at[2] : y;
      C* to = direct_out ? static_cast<C*>(out.data) + at[0] : z;
      if (!direct_left) load_left(x, left.data, at[1], walk.step[1], n);
      if (!direct_right) load_right(y, right.data, at[2], walk.step[2], n);
      fn(a, b, to, n, params);
      if (!direct_out) storer(z, out.data, at[0], walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

// Results of type bool: one byte per element, 0 or 1.
inline void store_truth(const uint8_t* from, uint8_t* to, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i * step] = from[i];
}

template <class C>
int32_t drive_unary_test(const clika_call* call, UnaryTest<C> fn) {
  if (fn == nullptr) return no_compute(call);
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Walk<2> walk({&out, &in});
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const bool direct = Tiles<C>::direct(in.dtype) && walk.step[1] == 1;
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    uint8_t y[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      const C* a = direct ? static_cast<const C*>(in.data) + at[1] : x;
      uint8_t* to = data_of<uint8_t>(out) + at[0];
      if (!direct) loader(x, in.data, at[1], walk.step[1], n);
      fn(a, walk.step[0] == 1 ? to : y, n);
      if (walk.step[0] != 1) store_truth(y, to, walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

template <class C>
int32_t drive_binary_test(const clika_call* call, BinaryTest<C> fn) {
  if (fn == nullptr) return no_compute(call);
  const clika_value& left = call->inputs[0];
  const clika_value& right = call->inputs[1];
  clika_value& out = call->outputs[0];
  const Walk<3> walk({&out, &left, &right});
  const LoadTile<C> load_left = Tiles<C>::loader(left.dtype);
  const LoadTile<C> load_right = Tiles<C>::loader(right.dtype);
  const bool direct_left = Tiles<C>::direct(left.dtype) && walk.step[1] == 1;
  const bool direct_right = Tiles<C>::direct(right.dtype) && walk.step[2] == 1;
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    alignas(64) C y[kTile];
    uint8_t z[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      const C* a = direct_left ? static_cast<const C*>(left.data) + at[1] : x;
      const C* b = direct_right ? static_cast<const C*>(right.data) + at[2] : y;
      uint8_t* to = data_of<uint8_t>(out) + at[0];
      if (!direct_left) load_left(x, left.data, at[1], walk.step[1], n);
      if (!direct_right) load_right(y, right.data, at[2], walk.step[2], n);
      fn(a, b, walk.step[0] == 1 ? to : z, n);
      if (walk.step[0] != 1) store_truth(z, to, walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

inline int32_t unary(const clika_call* call, const Functions<UnaryTile>& f) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return drive_unary(call, f.on_float);
    case kDouble:
      return drive_unary(call, f.on_double);
    case kInt:
      return drive_unary(call, f.on_int);
    case kUint:
      return drive_unary(call, f.on_uint);
    default:
      return no_compute(call);
  }
}

inline int32_t binary(const clika_call* call, const Functions<BinaryTile>& f, const Params& params) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return drive_binary(call, f.on_float, params);
    case kDouble:
      return drive_binary(call, f.on_double, params);
    case kInt:
      return drive_binary(call, f.on_int, params);
    case kUint:
      return drive_binary(call, f.on_uint, params);
    default:
      return no_compute(call);
  }
}

inline int32_t unary_test(const clika_call* call, const Functions<UnaryTest>& f) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return drive_unary_test(call, f.on_float);
    case kDouble:
      return drive_unary_test(call, f.on_double);
    case kInt:
      return drive_unary_test(call, f.on_int);
    case kUint:
      return drive_unary_test(call, f.on_uint);
    default:
      return no_compute(call);
  }
}

inline int32_t binary_test(const clika_call* call, const Functions<BinaryTest>& f) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return drive_binary_test(call, f.on_float);
    case kDouble:
      return drive_binary_test(call, f.on_double);
    case kInt:
      return drive_binary_test(call, f.on_int);
    case kUint:
      return drive_binary_test(call, f.on_uint);
    default:
      return no_compute(call);
  }
}

// ------------------------------------------------------------------ operations
// An operation is a struct with `template <class T> static T apply(T, ...)` and the compute types it has.
template <class Op, class C>
void unary_tile(const C* x, C* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(x[i]);
}
// The same for an operation on vectors: `static vf apply(vf)`.
template <class Op>
void vector_tile(const float* x, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(out + i, Op::apply(load(x + i)));
  if (i < n) store_partial(out + i, Op::apply(load_partial(x + i, n - i)), n - i);
}
template <class Op, class C>
void binary_tile(const C* a, const C* b, C* out, int64_t n, const Params&) {
  for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(a[i], b[i]);
}
template <class Op, class C>
void unary_test_tile(const C* x, uint8_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(x[i]);
}
template <class Op, class C>
void binary_test_tile(const C* a, const C* b, uint8_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Op::apply(a[i], b[i]);
}

// Inputs and output float32, of one shape, each in one piece: the common case, without the walk.
inline bool plain_floats(const clika_call* call) {
  const clika_value& a = call->inputs[0];
  const clika_value& b = call->inputs[1];
  const clika_value& out = call->outputs[0];
  if (a.rank != out.rank || b.rank != out.rank) return false;
  if (a.dtype != CLIKA_FLOAT32 || b.dtype != CLIKA_FLOAT32 || out.dtype != CLIKA_FLOAT32) return false;
  int64_t expected = 1;
  for (int32_t d = out.rank - 1; d >= 0; --d) {
    const int64_t n = out.shape[d];
    if (a.shape[d] != n || b.shape[d] != n) return false;
    if (n != 1 && (a.strides[d] != expected || b.strides[d] != expected || out.strides[d] != expected)) {
      return false;
    }
    expected *= n;
  }
  return expected <= kParallelFrom;
}
