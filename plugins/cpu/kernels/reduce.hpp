// Reductions over any set of dimensions. Included after elementwise.hpp.
//
// Each result is folded over its elements in one order that depends on shape and strides alone, never on threads:
// chunks of kChunk elements, each folded in tiles (or in runs of rows, where results lie side by side and the
// elements of one do not), and joined in ascending order.

constexpr int64_t kChunk = 32768;  // elements of one result that one task folds
constexpr int64_t kSpan = 4096;    // elements of a tile that is a copy
constexpr int64_t kRows = 32;      // rows that are folded at a time
constexpr int64_t kFew = 16;       // elements of a result that are better loaded across results
constexpr int kParts = 3;

// What a fold carries from tile to tile, up to kParts numbers per result: float64 for floats, int64 for
// counts, the type itself for other integers.
template <class C>
struct CarryFor {
  using type = C;
};
template <>
struct CarryFor<float> {
  using type = double;
};
template <>
struct CarryFor<uint8_t> {
  using type = int64_t;
};
template <class C>
using CarryOf = typename CarryFor<C>::type;
// What a result is stored from: the compute type, int64 for truth values.
template <class C>
using ResultOf = typename std::conditional<std::is_same<C, uint8_t>::value, int64_t, C>::type;

// An operation, by its functions, so that the walk below is compiled once per type.
template <class C>
struct Fold {
  using Carry = CarryOf<C>;
  int parts;
  Carry start[kParts];
  // Folds lines of n elements that lie side by side, `step` apart, each into its result; `seen` of its elements
  // came before. Part p of result i is carry[p * apart + i].
  void (*lines)(Carry* carry, int64_t apart, const C* x, int64_t step, int64_t n_lines, int64_t n, int64_t seen,
                const Params& params);
  // Folds rows of n elements into n results; part p of result i is carry[p * kTile + i].
  void (*columns)(Carry* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t seen,
                  const Params& params);
  // Joins the carries of n elements and of `more` elements that come after them.
  void (*join)(Carry* carry, int64_t n, const Carry* other, int64_t more, const Params& params);
  // The value of n elements, or two.
  void (*result)(const Carry* carry, int64_t n, const Params& params, ResultOf<C>* out);

  // Folds n elements that lie side by side into one result.
  void tile(Carry* carry, const C* x, int64_t n, int64_t seen, const Params& params) const {
    lines(carry, 1, x, 0, 1, n, seen, params);
  }
};

template <class C, class Op>
void fold_each_line(CarryOf<C>* carry, int64_t apart, const C* x, int64_t step, int64_t n_lines, int64_t n,
                    int64_t seen, const Params& params) {
  for (int64_t i = 0; i < n_lines; ++i) {
    CarryOf<C> own[Op::kCarries];
    for (int p = 0; p < Op::kCarries; ++p) own[p] = carry[p * apart + i];
    Op::tile(own, x + i * step, n, seen, params);
    for (int p = 0; p < Op::kCarries; ++p) carry[p * apart + i] = own[p];
  }
}

template <class C, class Op>
constexpr Fold<C> fold_of() {
  Fold<C> fold{};
  fold.parts = Op::kCarries;
  for (int p = 0; p < Op::kCarries; ++p) fold.start[p] = Op::start(p);
  fold.lines = fold_each_line<C, Op>;
  fold.columns = Op::columns;
  fold.join = Op::join;
  fold.result = Op::result;
  return fold;
}

// ------------------------------------------------------------------ the walk
// What a reduction ranges over: dimensions that stay (`kept`) and dimensions that go (`gone`), each as a
// value whose shape and strides are those of the input.
struct Reduction {
  int64_t kept_shape[CLIKA_MAX_RANK];
  int64_t kept_strides[CLIKA_MAX_RANK];
  int64_t gone_shape[CLIKA_MAX_RANK];
  int64_t gone_strides[CLIKA_MAX_RANK];
  clika_value kept;
  clika_value gone;

  // `dims`: the dims that go; None or empty for all.
  Reduction(const clika_value& in, const clika_attr& dims) {
    bool over[CLIKA_MAX_RANK] = {};
    const bool all = dims.kind == CLIKA_ATTR_NONE || (dims.kind == CLIKA_ATTR_INTS && dims.n == 0);
    for (int32_t d = 0; d < in.rank; ++d) over[d] = all;
    if (!all && in.rank > 0) {
      const int64_t* listed = dims.kind == CLIKA_ATTR_INTS ? dims.v.ints : &dims.v.i;
      for (int32_t i = 0; i < dims.n; ++i) {
        const int64_t dim = listed[i];
        over[dim < 0 ? dim + in.rank : dim] = true;
      }
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
};

// One reduction of one tensor. C is what elements are loaded as.
template <class C>
class Reducer {
 public:
  using Carry = CarryOf<C>;
  using R = ResultOf<C>;

  Reducer(const clika_call* call, const clika_value& in, const clika_attr& dims, const Fold<C>& fold,
          const Params& params)
      : call_(call),
        in_(in),
        fold_(fold),
        params_(params),
        split_(in, dims),
        kept_({&split_.kept}),
        gone_({&split_.gone}),
        loader_(Tiles<C>::loader(in.dtype)),
        storer_(Tiles<R>::storer(call->outputs[0].dtype)),
        results_(kept_.outer * kept_.length),
        n_(gone_.outer * gone_.length),
        chunks_(n_ <= kChunk ? 1 : (n_ + kChunk - 1) / kChunk) {}

  int32_t run() {
    if (results_ == 0) return CLIKA_OK;
    if (chunks_ > 1) {
      const size_t count = static_cast<size_t>(results_ * chunks_ * fold_.parts);
      carries_ = static_cast<Carry*>(call_->core->scratch(call_, count * sizeof(Carry)));
      if (carries_ == nullptr) return CLIKA_UNAVAILABLE;
    }
    // Results that lie side by side go in whole tiles: where the elements of one are apart, or few.
    const bool side_by_side =
        kept_.length > 1 &&
        ((kept_.step[0] == 1 && gone_.step[0] != 1) || (n_ <= kFew && kept_.length >= kFew));
    const int64_t length = std::max<int64_t>(1, std::min(n_, kChunk));
    const bool direct = Tiles<C>::direct(in_.dtype) && gone_.step[0] == 1;
    int64_t grain = (kParallelFrom + length - 1) / length;
    if (side_by_side) grain = std::max(grain, std::min(kTile, results_));
    parallel(call_, results_ * chunks_, grain, [&](int64_t begin, int64_t end, int32_t) {
      while (begin < end) {  // the part of one chunk
        const int64_t chunk = begin / results_;
        const int64_t first = begin % results_;
        const int64_t last = std::min(results_, first + (end - begin));
        if (side_by_side) {
          fold_columns(chunk, first, last);
        } else if (direct && gone_.outer == 1) {
          fold_rows(chunk, first, last);
        } else {
          fold_lines(chunk, first, last);
        }
        begin += last - first;
      }
    });
    if (chunks_ > 1) join_chunks();
    return CLIKA_OK;
  }

 private:
  int64_t chunk_begin(int64_t chunk) const { return chunk * kChunk; }
  int64_t chunk_end(int64_t chunk) const { return std::min(n_, (chunk + 1) * kChunk); }

  // The elements of each result lie side by side and need no copy.
  void fold_rows(int64_t chunk, int64_t first, int64_t last) const {
    Carry carry[kParts * kTile];
    const int64_t begin = chunk_begin(chunk);
    int64_t r = first;
    kept_.run(first, last, kTile, [&](const int64_t* at, int64_t count) {
      start(carry, count);
      fold_.lines(carry, kTile, data_of<C>(in_) + at[0] + begin, kept_.step[0], count, chunk_end(chunk) - begin, 0,
                  params_);
      keep(chunk, r, carry, count);
      r += count;
    });
  }
  void start(Carry* carry, int64_t count) const {
    for (int p = 0; p < fold_.parts; ++p) {
      std::fill(carry + p * kTile, carry + p * kTile + count, fold_.start[p]);
    }
  }

  void fold_lines(int64_t chunk, int64_t first, int64_t last) const {
    alignas(64) C x[kSpan];
    Carry carry[kParts * kTile];  // of the results that are not put away yet
    int64_t pending = 0;
    const bool direct = Tiles<C>::direct(in_.dtype) && gone_.step[0] == 1;
    const int64_t span = direct ? kChunk : kSpan;
    int64_t r = first;
    const auto flush = [&] {
      keep(chunk, r, carry, pending);
      r += pending;
      pending = 0;
    };
    kept_.run(first, last, 1, [&](const int64_t* at, int64_t) {
      Carry own[kParts];
      for (int p = 0; p < fold_.parts; ++p) own[p] = fold_.start[p];
      int64_t seen = 0;
      const auto fold = [&](int64_t offset, int64_t count) {
        const C* tile = x;
        if (direct) {
          tile = data_of<C>(in_) + at[0] + offset;
        } else {
          loader_(x, in_.data, at[0] + offset, gone_.step[0], count);
        }
        fold_.tile(own, tile, count, seen, params_);
        seen += count;
      };
      const int64_t end = chunk_end(chunk);
      if (gone_.outer == 1) {
        for (int64_t i = chunk_begin(chunk); i < end; i += span) fold(i * gone_.step[0], std::min(span, end - i));
      } else {
        gone_.run(chunk_begin(chunk), end, span,
                  [&](const int64_t* step, int64_t count) { fold(step[0], count); });
      }
      for (int p = 0; p < fold_.parts; ++p) carry[p * kTile + pending] = own[p];
      if (++pending == kTile) flush();
    });
    flush();
  }

  void fold_columns(int64_t chunk, int64_t first, int64_t last) const {
    alignas(64) C x[kRows * kTile];
    Carry carry[kParts * kTile];
    const bool direct = Tiles<C>::direct(in_.dtype) && kept_.step[0] == 1;
    int64_t r = first;
    kept_.run(first, last, kTile, [&](const int64_t* at, int64_t count) {
      start(carry, count);
      const C* rows[kRows];
      int64_t n_rows = 0;
      int64_t seen = 0;
      const auto flush = [&] {
        fold_.columns(carry, rows, n_rows, count, seen, params_);
        seen += n_rows;
        n_rows = 0;
      };
      gone_.run(chunk_begin(chunk), chunk_end(chunk), 1, [&](const int64_t* step, int64_t) {
        if (direct) {
          rows[n_rows] = data_of<C>(in_) + at[0] + step[0];
        } else {
          loader_(x + n_rows * kTile, in_.data, at[0] + step[0], kept_.step[0], count);
          rows[n_rows] = x + n_rows * kTile;
        }
        if (++n_rows == kRows) flush();
      });
      if (n_rows > 0) flush();
      keep(chunk, r, carry, count);
      r += count;
    });
  }

  // Keeps the carries of a chunk of results, or makes their values where there is one chunk. Part p of result i
  // is carry[p * kTile + i].
  void keep(int64_t chunk, int64_t first, const Carry* carry, int64_t count) const {
    R values[2][kTile];
    for (int64_t i = 0; i < count; ++i) {
      Carry own[kParts];
      Carry* to = chunks_ > 1 ? carries_ + (chunk * results_ + first + i) * fold_.parts : own;
      for (int p = 0; p < fold_.parts; ++p) to[p] = carry[p * kTile + i];
      if (chunks_ > 1) continue;
      R value[2];
      fold_.result(own, n_, params_, value);
      values[0][i] = value[0];
      values[1][i] = value[1];
    }
    if (chunks_ == 1) put(first, values[0], values[1], count);
  }
  void put(int64_t first, const R* values, const R* others, int64_t count) const {
    storer_(values, call_->outputs[0].data, first, 1, count);
    if (call_->n_outputs > 1) storer_(others, call_->outputs[1].data, first, 1, count);
  }

  void join_chunks() const {
    for (int64_t r = 0; r < results_; ++r) {
      Carry carry[kParts];
      for (int p = 0; p < fold_.parts; ++p) carry[p] = carries_[r * fold_.parts + p];
      for (int64_t chunk = 1; chunk < chunks_; ++chunk) {
        fold_.join(carry, chunk_begin(chunk), carries_ + (chunk * results_ + r) * fold_.parts,
                   chunk_end(chunk) - chunk_begin(chunk), params_);
      }
      R value[2];
      fold_.result(carry, n_, params_, value);
      put(r, value, value + 1, 1);
    }
  }

  const clika_call* call_;
  const clika_value& in_;
  const Fold<C>& fold_;
  const Params& params_;
  const Reduction split_;
  const Walk<1> kept_;
  const Walk<1> gone_;
  const LoadTile<C> loader_;
  const StoreTile<R> storer_;
  const int64_t results_;
  const int64_t n_;
  const int64_t chunks_;
  Carry* carries_ = nullptr;
};

// Attribute `dims_at` holds the dims.
template <class C>
int32_t reduce(const clika_call* call, const Fold<C>& fold, const Params& params = {}, uint32_t dims_at = 0) {
  return Reducer<C>(call, call->inputs[0], call->attrs[dims_at], fold, params).run();
}
