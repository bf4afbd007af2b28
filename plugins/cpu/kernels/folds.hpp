// The operations of reductions. Included after reduce.hpp.
//
// float32 is folded on vectors of float within a tile or on float64 lanes, and carried in float64. The other types
// are folded element by element.

template <class C>
constexpr bool is_float = std::is_same<C, float>::value;
template <class T>
constexpr T lowest() {
  using L = std::numeric_limits<T>;
  return L::has_infinity ? -L::infinity() : L::lowest();
}
template <class T>
constexpr T highest() {
  using L = std::numeric_limits<T>;
  return L::has_infinity ? L::infinity() : L::max();
}
template <class T>
constexpr T quiet_nan() {
  return std::numeric_limits<T>::quiet_NaN();
}

// Integers wrap around.
template <class T>
CLIKA_INLINE T plus(T a, T b) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <class T>
CLIKA_INLINE T times(T a, T b) {
  if constexpr (std::is_integral<T>::value) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

// What most operations share: `one` folds an element into the carry of its result, whose parts are kTile apart.
template <class Op, class C>
struct ByElement {
  using Carry = CarryOf<C>;
  static void tile(Carry* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    Carry own[kParts * kTile];  // where `one` looks for it; the compiler keeps it in registers
    for (int p = 0; p < Op::kCarries; ++p) own[p * kTile] = carry[p];
    for (int64_t i = 0; i < n; ++i) Op::one(own, x[i], seen + i, params);
    for (int p = 0; p < Op::kCarries; ++p) carry[p] = own[p * kTile];
  }
  static void columns(Carry* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t seen,
                      const Params& params) {
    for (int64_t r = 0; r < n_rows; ++r) {
      const C* x = rows[r];
      for (int64_t i = 0; i < n; ++i) Op::one(carry + i, x[i], seen + r, params);
    }
  }
};

// ------------------------------------------------------------------ sums
enum SumKind { kSum, kMean, kNanSum, kNanMean };

// Of the carries the second one counts what is no NaN.
template <class C, SumKind kKind>
struct Sum : ByElement<Sum<C, kKind>, C> {
  using Carry = CarryOf<C>;
  using Base = ByElement<Sum<C, kKind>, C>;
  static constexpr bool kSkips = kKind == kNanSum || kKind == kNanMean;
  static constexpr int kCarries = kKind == kNanMean ? 2 : 1;
  static constexpr Carry start(int) { return 0; }
  static CLIKA_INLINE void one(Carry* carry, C x, int64_t, const Params&) {
    const bool counts = !kSkips || x == x;
    carry[0] = plus(carry[0], counts ? static_cast<Carry>(x) : Carry{0});
    if (kKind == kNanMean) carry[kTile] += counts;
  }
  static CLIKA_INLINE vf numbers(vf x) { return kSkips ? select(x == x, x, zero()) : x; }
  static void tile(Carry* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    if constexpr (is_float<C>) {
      vf sum[4] = {};
      int64_t i = 0;
      for (; i + 4 * W <= n; i += 4 * W) {
        for (int k = 0; k < 4; ++k) sum[k] += numbers(load(x + i + k * W));
      }
      for (; i + W <= n; i += W) sum[0] += numbers(load(x + i));
      if (i < n) sum[1] += numbers(load_partial(x + i, n - i));
      carry[0] += static_cast<double>(reduce_add((sum[0] + sum[1]) + (sum[2] + sum[3])));
      if (kKind == kNanMean) {
        int32_t count = 0;
        for (int64_t k = 0; k < n; ++k) count += x[k] == x[k];
        carry[1] += count;
      }
    } else {
      Base::tile(carry, x, n, seen, params);
    }
  }
  static void columns(Carry* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t seen,
                      const Params& params) {
    if constexpr (is_float<C> && kKind != kNanMean) {
      alignas(64) float sum[kTile];
      int64_t i = 0;
      for (; i + W <= n; i += W) {
        vf a = numbers(load(rows[0] + i));
        for (int64_t r = 1; r < n_rows; ++r) a += numbers(load(rows[r] + i));
        store(sum + i, a);
      }
      if (i < n) {
        vf a = numbers(load_partial(rows[0] + i, n - i));
        for (int64_t r = 1; r < n_rows; ++r) a += numbers(load_partial(rows[r] + i, n - i));
        store_partial(sum + i, a, n - i);
      }
      for (int64_t k = 0; k < n; ++k) carry[k] += static_cast<double>(sum[k]);
    } else {
      Base::columns(carry, rows, n_rows, n, seen, params);
    }
  }
  static void join(Carry* carry, int64_t, const Carry* other, int64_t, const Params&) {
    for (int p = 0; p < kCarries; ++p) carry[p] = plus(carry[p], other[p]);
  }
  static void result(const Carry* carry, int64_t n, const Params&, C* out) {
    if (kKind == kMean) {
      *out = static_cast<C>(static_cast<double>(carry[0]) / static_cast<double>(n));
    } else if (kKind == kNanMean) {
      *out = static_cast<C>(static_cast<double>(carry[0]) / static_cast<double>(carry[1]));
    } else {
      *out = static_cast<C>(carry[0]);
    }
  }
};

// Eight lanes of float64, where float32 would overflow or lose too much.
constexpr int kLanes = 8;

template <class C>
struct Product : ByElement<Product<C>, C> {
  using Carry = CarryOf<C>;
  using Base = ByElement<Product<C>, C>;
  static constexpr int kCarries = 1;
  static constexpr Carry start(int) { return 1; }
  static CLIKA_INLINE void one(Carry* carry, C x, int64_t, const Params&) {
    carry[0] = times(carry[0], static_cast<Carry>(x));
  }
  static void tile(Carry* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    if constexpr (is_float<C>) {
      double part[2 * kLanes];
      std::fill(part, part + 2 * kLanes, 1.0);
      int64_t i = 0;
      for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        for (int k = 0; k < 2 * kLanes; ++k) part[k] *= static_cast<double>(x[i + k]);
      }
      for (int k = 0; i < n; ++i, ++k) part[k] *= static_cast<double>(x[i]);
      for (int k = 0; k < 2 * kLanes; ++k) carry[0] *= part[k];
    } else {
      Base::tile(carry, x, n, seen, params);
    }
  }
  static void join(Carry* carry, int64_t, const Carry* other, int64_t, const Params&) {
    carry[0] = times(carry[0], other[0]);
  }
  static void result(const Carry* carry, int64_t, const Params&, C* out) { *out = static_cast<C>(carry[0]); }
};

// ------------------------------------------------------------------ extremes
// The larger or smaller of two; a NaN stays.
template <int kSign, class T>
CLIKA_INLINE T further(T best, T x) {
  return best != best ? best : (kSign > 0 ? best > x : best < x) ? best : x;
}
template <int kSign>
CLIKA_INLINE vf further(vf best, vf x) {
  return select((kSign > 0 ? x > best : x < best) | (x != x), x, best);  // nothing passes a NaN in `best`
}

// The extreme of a tile and of columns, into one part of a carry.
template <class C, int kSign>
CLIKA_INLINE void extreme_of_tile(CarryOf<C>* carry, const C* x, int64_t n) {
  CarryOf<C> best = *carry;
  int64_t i = 0;
  if constexpr (is_float<C>) {
    vf a = splat(static_cast<float>(best));
    vf b = a;
    for (; i + 2 * W <= n; i += 2 * W) {
      a = further<kSign>(a, load(x + i));
      b = further<kSign>(b, load(x + i + W));
    }
    a = further<kSign>(a, b);
    for (int k = 0; k < W; ++k) best = further<kSign>(best, static_cast<CarryOf<C>>(a[k]));
  }
  for (; i < n; ++i) best = further<kSign>(best, static_cast<CarryOf<C>>(x[i]));
  *carry = best;
}
template <class C, int kSign>
CLIKA_INLINE void extreme_of_columns(CarryOf<C>* carry, const C* const* rows, int64_t n_rows, int64_t n) {
  int64_t i = 0;
  if constexpr (is_float<C>) {
    for (; i + W <= n; i += W) {
      vf best = load(rows[0] + i);
      for (int64_t r = 1; r < n_rows; ++r) best = further<kSign>(best, load(rows[r] + i));
      for (int k = 0; k < W; ++k) carry[i + k] = further<kSign>(carry[i + k], static_cast<double>(best[k]));
    }
  }
  for (; i < n; ++i) {
    for (int64_t r = 0; r < n_rows; ++r) {
      carry[i] = further<kSign>(carry[i], static_cast<CarryOf<C>>(rows[r][i]));
    }
  }
}

template <class C, int kSign>
struct Extremum {
  using Carry = CarryOf<C>;
  static constexpr int kCarries = 1;
  static constexpr Carry start(int) { return kSign > 0 ? lowest<Carry>() : highest<Carry>(); }
  static void tile(Carry* carry, const C* x, int64_t n, int64_t, const Params&) {
    extreme_of_tile<C, kSign>(carry, x, n);
  }
  static void columns(Carry* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t, const Params&) {
    extreme_of_columns<C, kSign>(carry, rows, n_rows, n);
  }
  static void join(Carry* carry, int64_t, const Carry* other, int64_t, const Params&) {
    carry[0] = further<kSign>(carry[0], other[0]);
  }
  static void result(const Carry* carry, int64_t, const Params&, C* out) { *out = static_cast<C>(carry[0]); }
};

// The smallest and the largest.
template <class C>
struct Extremes {
  using Carry = CarryOf<C>;
  static constexpr int kCarries = 2;
  static constexpr Carry start(int p) { return p == 0 ? highest<Carry>() : lowest<Carry>(); }
  static void tile(Carry* carry, const C* x, int64_t n, int64_t, const Params&) {
    extreme_of_tile<C, -1>(carry, x, n);
    extreme_of_tile<C, 1>(carry + 1, x, n);
  }
  static void columns(Carry* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t, const Params&) {
    extreme_of_columns<C, -1>(carry, rows, n_rows, n);
    extreme_of_columns<C, 1>(carry + kTile, rows, n_rows, n);
  }
  static void join(Carry* carry, int64_t, const Carry* other, int64_t, const Params&) {
    carry[0] = further<-1>(carry[0], other[0]);
    carry[1] = further<1>(carry[1], other[1]);
  }
  static void result(const Carry* carry, int64_t, const Params&, C* out) {
    out[0] = static_cast<C>(carry[0]);
    out[1] = static_cast<C>(carry[1]);
  }
};

// ------------------------------------------------------------------ variance
enum Spread { kVar, kStd, kVarMean, kStdMean };

// Mean and sum of squared distances from it, joined by the method of Chan, Golub and LeVeque (1979). Parameter
// f is the correction, i what is wanted (a Spread).
template <class C>
struct Variance : ByElement<Variance<C>, C> {
  static constexpr int kCarries = 2;
  static constexpr double start(int) { return 0; }
  static CLIKA_INLINE void one(double* carry, C x, int64_t seen, const Params&) {
    const double distance = static_cast<double>(x) - carry[0];
    carry[0] += distance / static_cast<double>(seen + 1);
    carry[kTile] += distance * (static_cast<double>(x) - carry[0]);
  }
  static void tile(double* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    // About the first element, so that little cancels.
    const double about = static_cast<double>(x[0]);
    double sum[kLanes] = {};
    double square[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) {
        const double d = static_cast<double>(x[i + k]) - about;
        sum[k] += d;
        square[k] += d * d;
      }
    }
    for (int k = 0; i < n; ++i, ++k) {
      const double d = static_cast<double>(x[i]) - about;
      sum[k] += d;
      square[k] += d * d;
    }
    for (int k = 1; k < kLanes; ++k) {
      sum[0] += sum[k];
      square[0] += square[k];
    }
    const double count = static_cast<double>(n);
    const double own[2] = {about + sum[0] / count, square[0] - sum[0] * sum[0] / count};
    join(carry, seen, own, n, params);
  }
  static void join(double* carry, int64_t n, const double* other, int64_t more, const Params&) {
    const double total = static_cast<double>(n + more);
    const double distance = other[0] - carry[0];
    const double share = static_cast<double>(more) / total;
    carry[1] += other[1] + distance * distance * static_cast<double>(n) * share;
    carry[0] = n == 0 ? other[0] : carry[0] + distance * share;
  }
  static void result(const double* carry, int64_t n, const Params& params, C* out) {
    const double divisor = std::max(0.0, static_cast<double>(n) - params.f);
    const double variance = n == 0 ? quiet_nan<double>() : std::max(carry[1], 0.0) / divisor;
    out[0] = static_cast<C>(params.i == kStd || params.i == kStdMean ? std::sqrt(variance) : variance);
    out[1] = static_cast<C>(n == 0 ? quiet_nan<double>() : carry[0]);
  }
};

// ------------------------------------------------------------------ log of a sum of powers of e
// The largest x so far, and the sum of e^(x - largest).
template <class C>
struct LogSumExp : ByElement<LogSumExp<C>, C> {
  using Base = ByElement<LogSumExp<C>, C>;
  static constexpr int kCarries = 2;
  static constexpr double start(int p) { return p == 0 ? lowest<double>() : 0; }
  // From where powers are counted: an infinite `top` decides the result alone, but for NaN.
  static double origin(double top) { return std::isinf(top) ? 0.0 : top; }
  static double power(double x, double top) { return x != x ? x : std::isinf(top) ? 0.0 : std::exp(x - top); }
  static void raise(double* sum, double* top, double to) {
    *sum *= std::isinf(*top) ? (*sum == *sum ? 0.0 : 1.0) : std::exp(*top - to);
    *top = to;
  }
  static CLIKA_INLINE void one(double* carry, C x, int64_t, const Params&) {
    if (x > carry[0]) raise(carry + kTile, carry, static_cast<double>(x));
    carry[kTile] += power(static_cast<double>(x), carry[0]);
  }
  static CLIKA_INLINE vf powers(vf x, float top) {
    if (std::isinf(top)) return select(x == x, zero(), x);
    return vexp_negative(x - splat(top));
  }
  static void tile(double* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    if constexpr (is_float<C>) {
      vf best = splat(lowest<float>());
      int64_t i = 0;
      for (; i + W <= n; i += W) best = vmax(load(x + i), best);
      float top = reduce_max(best);
      for (; i < n; ++i) top = x[i] > top ? x[i] : top;
      if (static_cast<double>(top) > carry[0]) raise(carry + 1, carry, static_cast<double>(top));
      top = static_cast<float>(carry[0]);
      vf a = zero();
      vf b = zero();
      for (i = 0; i + 2 * W <= n; i += 2 * W) {
        a += powers(load(x + i), top);
        b += powers(load(x + i + W), top);
      }
      double rest = 0;
      for (; i + W <= n; i += W) a += powers(load(x + i), top);
      for (; i < n; ++i) rest += static_cast<double>(powers(splat(x[i]), top)[0]);
      carry[1] += static_cast<double>(reduce_add(a + b)) + rest;
    } else {
      Base::tile(carry, x, n, seen, params);
    }
  }
  static void columns(double* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t seen,
                      const Params& params) {
    if constexpr (is_float<C>) {
      constexpr float kInf = std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < n; i += W) {
        const int64_t count = std::min<int64_t>(W, n - i);
        const auto row = [&](int64_t r) {
          return count == W ? load(rows[r] + i) : load_partial(rows[r] + i, count);
        };
        vf before = zero();
        for (int64_t k = 0; k < count; ++k) before[k] = static_cast<float>(carry[i + k]);
        vf top = before;
        for (int64_t r = 0; r < n_rows; ++r) top = vmax(row(r), top);
        const vi endless = vabs(top) == kInf;
        const vf from = select(endless, zero(), top);
        const vf scale = select(vabs(before) == kInf, zero(), vexp_negative(before - from));
        vf sum = zero();
        for (int64_t r = 0; r < n_rows; ++r) {
          const vf x = row(r);
          sum += select(endless, select(x == x, zero(), x), vexp_negative(x - from));
        }
        for (int64_t k = 0; k < count; ++k) {
          const double old = carry[kTile + i + k];
          carry[i + k] = static_cast<double>(top[k]);
          carry[kTile + i + k] =
              (old == old ? old * static_cast<double>(scale[k]) : old) + static_cast<double>(sum[k]);
        }
      }
    } else {
      Base::columns(carry, rows, n_rows, n, seen, params);
    }
  }
  static void join(double* carry, int64_t, const double* other, int64_t, const Params&) {
    double top = other[0];
    double sum = other[1];
    if (top > carry[0]) {
      raise(carry + 1, carry, top);
    } else if (carry[0] > top) {
      raise(&sum, &top, carry[0]);
    }
    carry[1] += sum;
  }
  static void result(const double* carry, int64_t, const Params&, C* out) {
    *out = static_cast<C>(carry[1] != carry[1]   ? carry[1]
                          : std::isinf(carry[0]) ? carry[0]
                                                 : carry[0] + std::log(carry[1]));
  }
};

// ------------------------------------------------------------------ norms
// (sum |x|^p)^(1/p); p 0 counts what is not zero, +-infinity gives the largest and the smallest |x|. Parameter f
// is p. `i` is its kind, so that loops branch on a constant.
enum NormKind { kCount, kOne, kTwo, kPower, kLargest, kSmallest };
inline NormKind norm_kind(double p) {
  if (p == 0) return kCount;
  if (p == 1) return kOne;
  if (p == 2) return kTwo;
  if (std::isinf(p)) return p > 0 ? kLargest : kSmallest;
  return kPower;
}

template <class C, NormKind kKind>
struct Norm : ByElement<Norm<C, kKind>, C> {
  static constexpr int kCarries = 1;
  static constexpr double start(int) { return kKind == kSmallest ? highest<double>() : 0; }
  static CLIKA_INLINE double step(double carry, double x, double p) {
    const double size = std::fabs(x);
    if (kKind == kCount) return carry + (x != 0);
    if (kKind == kOne) return carry + size;
    if (kKind == kTwo) return carry + x * x;
    if (kKind == kLargest) return carry > size || carry != carry ? carry : size;
    if (kKind == kSmallest) return carry < size || carry != carry ? carry : size;
    return carry + std::pow(size, p);
  }
  static double both(double a, double b) {
    return kKind == kLargest || kKind == kSmallest ? step(a, b, 0) : a + b;
  }
  static CLIKA_INLINE void one(double* carry, C x, int64_t, const Params& params) {
    carry[0] = step(carry[0], static_cast<double>(x), params.f);
  }
  static void tile(double* carry, const C* x, int64_t n, int64_t, const Params& params) {
    double part[2 * kLanes];
    std::fill(part, part + 2 * kLanes, start(0));
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      for (int k = 0; k < 2 * kLanes; ++k) part[k] = step(part[k], static_cast<double>(x[i + k]), params.f);
    }
    for (int k = 0; i < n; ++i, ++k) part[k] = step(part[k], static_cast<double>(x[i]), params.f);
    for (int k = 0; k < 2 * kLanes; ++k) carry[0] = both(carry[0], part[k]);
  }
  static void join(double* carry, int64_t, const double* other, int64_t, const Params&) {
    carry[0] = both(carry[0], other[0]);
  }
  static void result(const double* carry, int64_t, const Params& params, C* out) {
    *out = static_cast<C>(kKind == kTwo     ? std::sqrt(carry[0])
                          : kKind == kPower ? std::pow(carry[0], 1.0 / params.f)
                                            : carry[0]);
  }
};

template <class C>
const Fold<C>& norm_fold(double p) {
  static constexpr Fold<C> folds[] = {fold_of<C, Norm<C, kCount>>(),   fold_of<C, Norm<C, kOne>>(),
                                      fold_of<C, Norm<C, kTwo>>(),     fold_of<C, Norm<C, kPower>>(),
                                      fold_of<C, Norm<C, kLargest>>(), fold_of<C, Norm<C, kSmallest>>()};
  return folds[norm_kind(p)];
}
// Attributes: ord, dim, keepdim, dtype.
template <class C>
int32_t reduce_norm(const clika_call* call) {
  Params params;
  params.f = call->attrs[0].kind == CLIKA_ATTR_FLOAT ? call->attrs[0].v.f : static_cast<double>(call->attrs[0].v.i);
  return reduce(call, norm_fold<C>(params.f), params, 1);
}

// ------------------------------------------------------------------ truth values
// How many are true. Parameter i tells the result: 0 the number, 1 whether any is, 2 whether all are.
struct Truths {
  static constexpr int kCarries = 1;
  static constexpr int64_t start(int) { return 0; }
  static void tile(int64_t* carry, const uint8_t* x, int64_t n, int64_t, const Params&) {
    int32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    carry[0] += sum;
  }
  static void columns(int64_t* carry, const uint8_t* const* rows, int64_t n_rows, int64_t n, int64_t,
                      const Params&) {
    uint8_t sum[kTile] = {};  // kRows ones fit
    for (int64_t r = 0; r < n_rows; ++r) {
      const uint8_t* x = rows[r];
      for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<uint8_t>(sum[i] + x[i]);
    }
    for (int64_t i = 0; i < n; ++i) carry[i] += sum[i];
  }
  static void join(int64_t* carry, int64_t, const int64_t* other, int64_t, const Params&) {
    carry[0] += other[0];
  }
  static void result(const int64_t* carry, int64_t n, const Params& params, int64_t* out) {
    out[0] = params.i == 0 ? carry[0] : params.i == 1 ? carry[0] != 0 : carry[0] == n;
  }
};

// ------------------------------------------------------------------ kernels
// Attributes: dim, unbiased, keepdim, correction. What is not said is a correction of 1.
template <class C, Spread kSpread>
int32_t reduce_spread(const clika_call* call) {
  static constexpr Fold<C> fold = fold_of<C, Variance<C>>();
  const clika_attr& correction = call->attrs[3];
  Params params;
  params.i = kSpread;
  params.f = correction.kind == CLIKA_ATTR_FLOAT ? correction.v.f : static_cast<double>(attr_int(call, 3, 1));
  if (call->attrs[1].kind == CLIKA_ATTR_INT) params.f = static_cast<double>(call->attrs[1].v.i);
  return reduce(call, fold, params);
}

template <class C, class Op>
int32_t reduce_by(const clika_call* call) {
  static constexpr Fold<C> fold = fold_of<C, Op>();
  return reduce(call, fold);
}
