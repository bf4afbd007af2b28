// Reductions over any set of dimensions. Included after elementwise.hpp.
//
// Each result is folded over its elements in one order that depends on shape and strides of the reduced
// dimensions only: tiles of kTile elements, folded inside by the operation, and the tiles in ascending order.

// What a reduction ranges over: dimensions that stay (`kept`) and dimensions that go (`gone`), each as a
// value whose shape and strides are those of the input.
struct Reduction {
  int64_t kept_shape[CLIKA_MAX_RANK];
  int64_t kept_strides[CLIKA_MAX_RANK];
  int64_t gone_shape[CLIKA_MAX_RANK];
  int64_t gone_strides[CLIKA_MAX_RANK];
  clika_value kept;
  clika_value gone;

  // attr 0: the dims, None or empty for all.
  explicit Reduction(const clika_call* call) {
    const clika_value& in = call->inputs[0];
    bool over[CLIKA_MAX_RANK] = {};
    const clika_attr* dims = call->n_attrs > 0 ? &call->attrs[0] : nullptr;
    const bool all =
        dims == nullptr || dims->kind == CLIKA_ATTR_NONE || (dims->kind == CLIKA_ATTR_INTS && dims->n == 0);
    for (int32_t d = 0; d < in.rank; ++d) over[d] = all;
    if (!all && dims->kind == CLIKA_ATTR_INTS) {
      for (int32_t i = 0; i < dims->n; ++i) over[wrap(dims->v.ints[i], in.rank)] = true;
    } else if (!all && in.rank > 0) {
      over[wrap(dims->v.i, in.rank)] = true;
    }
    kept = in;
    gone = in;
    kept.rank = 0;
    gone.rank = 0;
    for (int32_t d = 0; d < in.rank; ++d) {
      if (over[d]) {
        gone_shape[gone.rank] = in.shape[d];
        gone_strides[gone.rank++] = in.strides[d];
      } else {
        kept_shape[kept.rank] = in.shape[d];
        kept_strides[kept.rank++] = in.strides[d];
      }
    }
    kept.shape = kept_shape;
    kept.strides = kept_strides;
    gone.shape = gone_shape;
    gone.strides = gone_strides;
  }
  static int32_t wrap(int64_t dim, int32_t rank) {
    if (rank == 0) return 0;
    return static_cast<int32_t>(dim < 0 ? dim + rank : dim);
  }
};

// An operation: `Carry` is what is kept between tiles, `start()` its neutral value, `tile` folds a tile into
// it, `column` folds one element, `result` gives the final value for n elements.
template <class C, class Op>
int32_t reduce(const clika_call* call) {
  using Carry = typename Op::Carry;
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Reduction r(call);
  const Walk<1> kept({&r.kept});
  const Walk<1> gone({&r.gone});
  const int64_t results = kept.outer * kept.length;
  const int64_t n = gone.outer * gone.length;
  if (results == 0) return CLIKA_OK;
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const int64_t grain = std::max<int64_t>(1, kParallelFrom / std::max<int64_t>(1, n));

  // The kept elements lie side by side and the reduced ones do not: whole tiles of results at a time.
  if (n > 1 && kept.step[0] == 1 && kept.length > 1 && gone.step[0] != 1) {
    parallel(call, results, std::max(grain, kTile), [&](int64_t begin, int64_t end, int32_t) {
      alignas(64) C x[kTile];
      Carry carry[kTile];
      int64_t done = begin;
      kept.run(begin, end, kTile, [&](const int64_t* at, int64_t count) {
        for (int64_t i = 0; i < count; ++i) carry[i] = Op::start();
        gone.run(0, n, 1, [&](const int64_t* step, int64_t) {
          loader(x, in.data, at[0] + step[0], 1, count);
          for (int64_t i = 0; i < count; ++i) carry[i] = Op::column(carry[i], x[i]);
        });
        for (int64_t i = 0; i < count; ++i) x[i] = static_cast<C>(Op::result(carry[i], n));
        storer(x, out.data, done, 1, count);
        done += count;
      });
    });
    return CLIKA_OK;
  }
  const bool direct = Tiles<C>::direct(in.dtype) && gone.step[0] == 1;
  parallel(call, results, grain, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    int64_t done = begin;
    kept.run(begin, end, 1, [&](const int64_t* at, int64_t) {
      Carry carry = Op::start();
      gone.run(0, n, kTile, [&](const int64_t* step, int64_t count) {
        const C* tile = x;
        if (direct) {
          tile = data_of<C>(in) + at[0] + step[0];
        } else {
          loader(x, in.data, at[0] + step[0], gone.step[0], count);
        }
        carry = Op::tile(carry, tile, count);
      });
      const C value = static_cast<C>(Op::result(carry, n));
      storer(&value, out.data, done++, 1, 1);
    });
  });
  return CLIKA_OK;
}

// ------------------------------------------------------------------ operations
template <class C>
struct Identity {
  static constexpr C lowest() {
    return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                : std::numeric_limits<C>::lowest();
  }
  static constexpr C highest() {
    return std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity()
                                                : std::numeric_limits<C>::max();
  }
};

// Sums of floats: within a tile in C, lane by lane, across tiles in float64.
template <class C, bool kMean>
struct Sum {
  using Carry = typename std::conditional<std::is_integral<C>::value, uint64_t, double>::type;
  static Carry start() { return 0; }
  static Carry column(Carry carry, C x) { return carry + static_cast<Carry>(x); }
  static Carry tile(Carry carry, const C* x, int64_t n) {
    if constexpr (std::is_same<C, float>::value) {
      vf a = zero();
      vf b = zero();
      int64_t i = 0;
      for (; i + 2 * W <= n; i += 2 * W) {
        a += load(x + i);
        b += load(x + i + W);
      }
      for (; i < n; i += W) a += n - i >= W ? load(x + i) : load_partial(x + i, n - i);
      return carry + static_cast<double>(reduce_add(a + b));
    } else {
      for (int64_t i = 0; i < n; ++i) carry += static_cast<Carry>(x[i]);
      return carry;
    }
  }
  static C result(Carry carry, int64_t n) {
    if (kMean) return static_cast<C>(static_cast<double>(carry) / static_cast<double>(n));
    return static_cast<C>(carry);
  }
};

template <class C>
struct Product {
  using Carry = typename std::conditional<std::is_integral<C>::value, uint64_t, double>::type;
  static Carry start() { return 1; }
  static Carry column(Carry carry, C x) { return carry * static_cast<Carry>(x); }
  static Carry tile(Carry carry, const C* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) carry *= static_cast<Carry>(x[i]);
    return carry;
  }
  static C result(Carry carry, int64_t) { return static_cast<C>(carry); }
};

template <class C, int kSign>
struct Extremum {
  using Carry = C;
  static Carry start() { return kSign > 0 ? Identity<C>::lowest() : Identity<C>::highest(); }
  static Carry column(Carry carry, C x) {
    return carry != carry ? carry : (kSign > 0 ? carry > x : carry < x) ? carry : x;
  }
  static Carry tile(Carry carry, const C* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) carry = column(carry, x[i]);
    return carry;
  }
  static C result(Carry carry, int64_t) { return carry; }
};
// The extremum of floats on vectors; NaN is looked for beside.
template <int kSign>
struct Extremum<float, kSign> {
  using Carry = float;
  static Carry start() { return kSign > 0 ? Identity<float>::lowest() : Identity<float>::highest(); }
  static Carry column(Carry carry, float x) {
    return carry != carry ? carry : (kSign > 0 ? carry > x : carry < x) ? carry : x;
  }
  static Carry tile(Carry carry, const float* x, int64_t n) {
    vf best = splat(start());
    vi nan = splat_int(0);
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const vf y = load(x + i);
      nan |= y != y;
      best = kSign > 0 ? vmax(y, best) : vmin(y, best);
    }
    for (int k = 0; k < W; ++k) {
      if (nan[k]) return std::numeric_limits<float>::quiet_NaN();
    }
    carry = column(carry, kSign > 0 ? reduce_max(best) : reduce_min(best));
    for (; i < n; ++i) carry = column(carry, x[i]);
    return carry;
  }
  static float result(Carry carry, int64_t) { return carry; }
};

template <bool kAll>
struct Truth {
  using Carry = int64_t;
  static Carry start() { return kAll ? 1 : 0; }
  static Carry column(Carry carry, int64_t x) { return kAll ? carry & (x != 0) : carry | (x != 0); }
  static Carry tile(Carry carry, const int64_t* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) carry = column(carry, x[i]);
    return carry;
  }
  static int64_t result(Carry carry, int64_t) { return carry; }
};
