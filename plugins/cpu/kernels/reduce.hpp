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

// What is kept between tiles: float64 for floats, the type itself for integers.
template <class C>
using CarryOf = typename std::conditional<std::is_integral<C>::value, C, double>::type;

// An operation: its neutral value, a tile folded into one carry, a tile folded element by element into
// as many carries, and the final value of n elements.
template <class C>
struct Fold {
  CarryOf<C> start;
  CarryOf<C> (*tile)(CarryOf<C> carry, const C* x, int64_t n);
  void (*columns)(CarryOf<C>* carry, const C* x, int64_t n);
  C (*result)(CarryOf<C> carry, int64_t n);
};

template <class C, class Op>
void fold_columns(CarryOf<C>* carry, const C* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) carry[i] = Op::column(carry[i], x[i]);
}
template <class C, class Op>
constexpr Fold<C> fold_of() {
  return {Op::start(), Op::tile, fold_columns<C, Op>, Op::result};
}

template <class C>
int32_t reduce(const clika_call* call, const Fold<C>& fold) {
  using Carry = CarryOf<C>;
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
        std::fill(carry, carry + count, fold.start);
        gone.run(0, n, 1, [&](const int64_t* step, int64_t) {
          loader(x, in.data, at[0] + step[0], 1, count);
          fold.columns(carry, x, count);
        });
        for (int64_t i = 0; i < count; ++i) x[i] = fold.result(carry[i], n);
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
      Carry carry = fold.start;
      gone.run(0, n, kTile, [&](const int64_t* step, int64_t count) {
        const C* tile = x;
        if (direct) {
          tile = data_of<C>(in) + at[0] + step[0];
        } else {
          loader(x, in.data, at[0] + step[0], gone.step[0], count);
        }
        carry = fold.tile(carry, tile, count);
      });
      const C value = fold.result(carry, n);
      storer(&value, out.data, done++, 1, 1);
    });
  });
  return CLIKA_OK;
}

// ------------------------------------------------------------------ operations
template <class C>
constexpr CarryOf<C> lowest() {
  using L = std::numeric_limits<CarryOf<C>>;
  return L::has_infinity ? -L::infinity() : L::lowest();
}
template <class C>
constexpr CarryOf<C> highest() {
  using L = std::numeric_limits<CarryOf<C>>;
  return L::has_infinity ? L::infinity() : L::max();
}

// Sums of floats: within a tile lane by lane in the compute type, across tiles in float64. Integers wrap
// around.
template <class C, bool kMean>
struct Sum {
  using Carry = CarryOf<C>;
  static constexpr Carry start() { return 0; }
  static Carry column(Carry carry, C x) {
    if constexpr (std::is_integral<C>::value) {
      return static_cast<Carry>(static_cast<uint64_t>(carry) + static_cast<uint64_t>(x));
    } else {
      return carry + static_cast<Carry>(x);
    }
  }
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
      for (int64_t i = 0; i < n; ++i) carry = column(carry, x[i]);
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
  using Carry = CarryOf<C>;
  static constexpr Carry start() { return 1; }
  static Carry column(Carry carry, C x) {
    if constexpr (std::is_integral<C>::value) {
      return static_cast<Carry>(static_cast<uint64_t>(carry) * static_cast<uint64_t>(x));
    } else {
      return carry * static_cast<Carry>(x);
    }
  }
  static Carry tile(Carry carry, const C* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) carry = column(carry, x[i]);
    return carry;
  }
  static C result(Carry carry, int64_t) { return static_cast<C>(carry); }
};

// Floats are compared on vectors, with a look for NaN beside.
template <class C, int kSign>
struct Extremum {
  using Carry = CarryOf<C>;
  static constexpr Carry start() { return kSign > 0 ? lowest<C>() : highest<C>(); }
  static Carry column(Carry carry, C x) {
    const Carry y = static_cast<Carry>(x);
    return carry != carry ? carry : (kSign > 0 ? carry > y : carry < y) ? carry : y;
  }
  static Carry tile(Carry carry, const C* x, int64_t n) {
    int64_t i = 0;
    if constexpr (std::is_same<C, float>::value) {
      vf best = splat(static_cast<float>(start()));
      vi nan = splat_int(0);
      for (; i + W <= n; i += W) {
        const vf y = load(x + i);
        nan |= y != y;
        best = kSign > 0 ? vmax(y, best) : vmin(y, best);
      }
      for (int k = 0; k < W; ++k) {
        if (nan[k]) return std::numeric_limits<double>::quiet_NaN();
      }
      carry = column(carry, kSign > 0 ? reduce_max(best) : reduce_min(best));
    }
    for (; i < n; ++i) carry = column(carry, x[i]);
    return carry;
  }
  static C result(Carry carry, int64_t) { return static_cast<C>(carry); }
};

template <bool kAll>
struct Truth {
  static constexpr int64_t start() { return kAll ? 1 : 0; }
  static int64_t column(int64_t carry, int64_t x) { return kAll ? carry & (x != 0) : carry | (x != 0); }
  static int64_t tile(int64_t carry, const int64_t* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) carry = column(carry, x[i]);
    return carry;
  }
  static int64_t result(int64_t carry, int64_t) { return carry; }
};
