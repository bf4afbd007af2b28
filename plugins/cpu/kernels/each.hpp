// Elementwise kernels of one to three operands that also look at numbers. Included after elementwise.hpp.
//
// The operands are named one by one, so that a kernel may give parts of an input (the halves of a gated
// activation) or a broadcast weight in their place.

constexpr int kMostNumbers = 4;

// The runtime scalars of a call, each as a float and as an integer.
struct Numbers {
  double f[kMostNumbers] = {};
  int64_t i[kMostNumbers] = {};
};
inline Numbers numbers_of(const clika_call* call) {
  Numbers numbers;
  for (uint32_t k = 0; k < call->n_scalars && k < kMostNumbers; ++k) {
    numbers.f[k] = scalar_float(call, k, 0.0);
    numbers.i[k] = scalar_int(call, k, 0);
  }
  return numbers;
}

template <class C>
using EachTile = void (*)(const C* const* in, C* out, int64_t n, const Numbers& numbers);

// How tiles are read and written: by default in the compute type's own dtypes.
template <class C>
struct Own {
  static LoadTile<C> loader(int32_t dtype) { return Tiles<C>::loader(dtype); }
  static StoreTile<C> storer(int32_t dtype) {
    return dtype == CLIKA_BOOL ? store_wide<C, boolean> : Tiles<C>::storer(dtype);
  }
  static bool direct(int32_t dtype) { return Tiles<C>::direct(dtype); }
};
// Every floating-point dtype computed in double.
template <>
inline double widen<double>(bf16 x) {
  return to_float(x);
}
template <>
inline double widen<double>(f16 x) {
  return to_float(x);
}
inline void narrow(double x, bf16* to) { *to = to_bf16(static_cast<float>(x)); }
inline void narrow(double x, f16* to) { *to = to_f16(static_cast<float>(x)); }
struct Doubles {
  static LoadTile<double> loader(int32_t dtype) {
    switch (dtype) {
      case CLIKA_FLOAT32:
        return load_wide<double, float>;
      case CLIKA_BFLOAT16:
        return load_wide<double, bf16>;
      case CLIKA_FLOAT16:
        return load_wide<double, f16>;
      default:
        return load_wide<double, double>;
    }
  }
  static StoreTile<double> storer(int32_t dtype) {
    switch (dtype) {
      case CLIKA_FLOAT32:
        return store_wide<double, float>;
      case CLIKA_BFLOAT16:
        return store_wide<double, bf16>;
      case CLIKA_FLOAT16:
        return store_wide<double, f16>;
      case CLIKA_BOOL:
        return store_wide<double, boolean>;
      default:
        return store_wide<double, double>;
    }
  }
  static bool direct(int32_t dtype) { return dtype == CLIKA_FLOAT64; }
};

template <class C, class Dtypes, int N>
int32_t drive_each(const clika_call* call, const clika_value* const (&in)[N], EachTile<C> fn,
                   const Numbers& numbers, int64_t grain = kParallelFrom) {
  clika_value& out = call->outputs[0];
  const clika_value* operands[N + 1] = {&out};
  LoadTile<C> loaders[N];
  for (int k = 0; k < N; ++k) {
    operands[k + 1] = in[k];
    loaders[k] = Dtypes::loader(in[k]->dtype);
  }
  const Walk<N + 1> walk(operands);
  const StoreTile<C> storer = Dtypes::storer(out.dtype);
  bool direct[N + 1];
  bool all = true;
  for (int k = 0; k <= N; ++k) {
    direct[k] = Dtypes::direct(operands[k]->dtype) && walk.step[k] == 1;
    all = all && direct[k];
  }
  const int64_t most = all ? std::numeric_limits<int64_t>::max() / 2 : kTile;
  parallel(call, walk.outer * walk.length, grain, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[N][kTile];
    alignas(64) C y[kTile];
    walk.run(begin, end, most, [&](const int64_t* at, int64_t n) {
      const C* from[N];
      for (int k = 0; k < N; ++k) {
        from[k] = x[k];
        if (direct[k + 1]) {
          from[k] = static_cast<const C*>(in[k]->data) + at[k + 1];
        } else {
          loaders[k](x[k], in[k]->data, at[k + 1], walk.step[k + 1], n);
        }
      }
      if (direct[0]) {
        fn(from, static_cast<C*>(out.data) + at[0], n, numbers);
      } else {
        fn(from, y, n, numbers);
        storer(y, out.data, at[0], walk.step[0], n);
      }
    });
  });
  return CLIKA_OK;
}

// ------------------------------------------------------------------ tiles of an operation
// `Op::apply(x, ..., numbers)` of N operands, on numbers of type C or on vectors.
template <class Op, class C, int N>
void each_tile(const C* const* in, C* out, int64_t n, const Numbers& numbers) {
  const C* a = in[0];
  const C* b = in[N > 1 ? 1 : 0];
  const C* c = in[N > 2 ? 2 : 0];
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (N == 1) out[i] = Op::apply(a[i], numbers);
    if constexpr (N == 2) out[i] = Op::apply(a[i], b[i], numbers);
    if constexpr (N == 3) out[i] = Op::apply(a[i], b[i], c[i], numbers);
  }
}
template <class Op, int N>
void each_vector(const float* const* in, float* out, int64_t n, const Numbers& numbers) {
  const float* a = in[0];
  const float* b = in[N > 1 ? 1 : 0];
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    if constexpr (N == 1) store(out + i, Op::apply(load(a + i), numbers));
    if constexpr (N == 2) store(out + i, Op::apply(load(a + i), load(b + i), numbers));
  }
  if (i == n) return;
  const vf x = load_partial(a + i, n - i);
  if constexpr (N == 1) store_partial(out + i, Op::apply(x, numbers), n - i);
  if constexpr (N == 2) store_partial(out + i, Op::apply(x, load_partial(b + i, n - i), numbers), n - i);
}

template <class Op, class C, int N>
int32_t run_each(const clika_call* call) {
  if constexpr (N == 1) {
    return drive_each<C, Own<C>>(call, {&call->inputs[0]}, each_tile<Op, C, 1>, numbers_of(call));
  } else if constexpr (N == 2) {
    return drive_each<C, Own<C>>(call, {&call->inputs[0], &call->inputs[1]}, each_tile<Op, C, 2>,
                                 numbers_of(call));
  } else {
    return drive_each<C, Own<C>>(call, {&call->inputs[0], &call->inputs[1], &call->inputs[2]},
                                 each_tile<Op, C, 3>, numbers_of(call));
  }
}
template <class Op, int N>
int32_t run_integers(const clika_call* call) {
  return compute_of(call->inputs[0].dtype) == kUint ? run_each<Op, uint64_t, N>(call)
                                                    : run_each<Op, int64_t, N>(call);
}
// By the dtype of input 0.
template <class Op, int N>
int32_t run_numbers(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return run_each<Op, float, N>(call);
    case kDouble:
      return run_each<Op, double, N>(call);
    default:
      return run_integers<Op, N>(call);
  }
}

// ------------------------------------------------------------------ parts of an input
// The two halves of a tensor along a dimension.
struct Halves {
  clika_value first;
  clika_value second;
  int64_t shape[CLIKA_MAX_RANK];

  Halves(const clika_value& whole, int32_t dim) : first(whole), second(whole) {
    std::copy(whole.shape, whole.shape + whole.rank, shape);
    shape[dim] /= 2;
    first.shape = second.shape = shape;
    second.data = static_cast<char*>(whole.data) + shape[dim] * whole.strides[dim] * bytes_of(whole.dtype);
  }
};
