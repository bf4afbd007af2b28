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

// True in lane `first` and all after it.
CLIKA_INLINE vi lanes_from(int64_t first) {
  vi lane;
  for (int k = 0; k < W; ++k) lane[k] = k;
  return lane >= splat_int(static_cast<int32_t>(first));
}

// The sum of all lanes by the tree of reduce_add, in shuffles.
CLIKA_INLINE float add_lanes(vf x) {
#if CLIKA_X86 && CLIKA_LEVEL >= 1
#if CLIKA_LEVEL == 2
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)x),
                                    _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd((__m512)x), 1)));
#else
  const __m256 half = (__m256)x;
#endif
  __m128 part = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  part = _mm_add_ps(part, _mm_movehl_ps(part, part));
  return _mm_cvtss_f32(_mm_add_ss(part, _mm_shuffle_ps(part, part, 1)));
#else
  return reduce_add(x);
#endif
}

// Calls body(i) for runs of kVectors vectors at i, then for single ones, that cover n columns; the last overlaps
// the one before. Returns the number of columns that are left where there are fewer than a vector has.
template <int kVectors, class Many, class One>
CLIKA_INLINE int64_t cover(int64_t n, const Many& many, const One& one) {
  if (n < W) return n;
  int64_t i = 0;
  for (; i + kVectors * W <= n; i += kVectors * W) many(i);
  for (; i + W <= n; i += W) one(i);
  if (i < n) one(n - W);
  return 0;
}

constexpr int64_t kBlock = 1024;  // elements that are added up in float32

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
      for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = std::min(n, begin + kBlock);
        vf sum[4] = {};
        int64_t i = begin;
        for (; i + 4 * W <= end; i += 4 * W) {
          for (int k = 0; k < 4; ++k) sum[k] += numbers(load(x + i + k * W));
        }
        for (int k = 0; i + W <= end; i += W, ++k) sum[k] += numbers(load(x + i));
        if (i < end && n >= W) {
          sum[3] += numbers(select(lanes_from(W - (end - i)), load(x + end - W), zero()));
        } else if (i < end) {
          sum[3] += numbers(load_partial(x + i, end - i));
        }
        carry[0] += static_cast<double>(add_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])));
      }
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
      const auto add = [&](int64_t i, auto vectors) {
        constexpr int kVectors = decltype(vectors)::value;
        vf a[kVectors] = {};
        for (int64_t r = 0; r < n_rows; ++r) {
          for (int k = 0; k < kVectors; ++k) a[k] += numbers(load(rows[r] + i + k * W));
        }
        for (int k = 0; k < kVectors; ++k) store(sum + i + k * W, a[k]);
      };
      const int64_t left = cover<4>(
          n, [&](int64_t i) { add(i, std::integral_constant<int, 4>()); },
          [&](int64_t i) { add(i, std::integral_constant<int, 1>()); });
      for (int64_t i = 0; i < left; ++i) {
        float a = 0.0f;
        for (int64_t r = 0; r < n_rows; ++r) a += kSkips && rows[r][i] != rows[r][i] ? 0.0f : rows[r][i];
        sum[i] = a;
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
typedef double vd __attribute__((vector_size(4 * W)));
typedef float vf_half __attribute__((vector_size(2 * W)));

template <class C>
struct Product : ByElement<Product<C>, C> {
  using Carry = CarryOf<C>;
  using Base = ByElement<Product<C>, C>;
  static constexpr int kCarries = 1;
  static constexpr Carry start(int) { return 1; }
  static CLIKA_INLINE void one(Carry* carry, C x, int64_t, const Params&) {
    carry[0] = times(carry[0], static_cast<Carry>(x));
  }
  // Up to kRun numbers are multiplied in float32, and those products in float64. Where one in float32 may have
  // overflowed or lost digits, everything is done again in float64.
  static constexpr int64_t kRun = 16;
  struct Range {
    vf low;
    vf high;
    Range() : low(splat(highest<float>())), high(zero()) {}
    CLIKA_INLINE void take(vf x) {
      low = vmin(vabs(x), low);
      high = vmax(vabs(x), high);
    }
    bool good() const {
      const vi bad = (low < 1e-30f) | (high > 1e37f) | (high != high);
      int64_t words[W / 2];
      std::memcpy(words, &bad, sizeof(words));
      for (int k = 1; k < W / 2; ++k) words[0] |= words[k];
      return words[0] == 0;
    }
  };
  struct Doubles {
    vd low;
    vd high;
    Doubles() : low(vd{} + 1.0), high(vd{} + 1.0) {}
    CLIKA_INLINE void take(vf x) {
      vf_half halves[2];
      std::memcpy(halves, &x, sizeof(halves));
      low *= __builtin_convertvector(halves[0], vd);
      high *= __builtin_convertvector(halves[1], vd);
    }
  };
  static void tile(Carry* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    if constexpr (is_float<C>) {
      Range range;
      Doubles total;
      int64_t i = 0;
      for (; i + kRun * W <= n; i += kRun * W) {
        vf a[4] = {load(x + i), load(x + i + W), load(x + i + 2 * W), load(x + i + 3 * W)};
        for (int k = 4; k < kRun; ++k) a[k % 4] *= load(x + i + k * W);
        const vf run = (a[0] * a[1]) * (a[2] * a[3]);
        range.take(run);
        total.take(run);
      }
      vf rest[4];
      for (vf& each : rest) each = splat(1.0f);
      for (int k = 0; i + W <= n; i += W, ++k) rest[k % 4] *= load(x + i);
      if (i < n && n >= W) {
        rest[3] *= select(lanes_from(W - (n - i)), load(x + n - W), splat(1.0f));
        i = n;
      }
      const vf run = (rest[0] * rest[1]) * (rest[2] * rest[3]);
      range.take(run);
      total.take(run);
      double part[W / 2];
      const vd both = total.low * total.high;
      std::memcpy(part, &both, sizeof(part));
      for (int width = W / 4; width > 0; width /= 2) {
        for (int k = 0; k < width; ++k) part[k] *= part[k + width];
      }
      if (!range.good()) {
        part[0] = 1;
        i = 0;
      }
      for (; i < n; ++i) part[0] *= static_cast<double>(x[i]);
      carry[0] *= part[0];
    } else {
      Base::tile(carry, x, n, seen, params);
    }
  }
  static void columns(Carry* carry, const C* const* rows, int64_t n_rows, int64_t n, int64_t seen,
                      const Params& params) {
    if constexpr (is_float<C>) {
      alignas(64) double product[kTile];
      Range range;
      const auto multiply = [&](int64_t i) {
        Doubles total;
        for (int64_t r = 0; r < n_rows; r += kRun) {
          const int64_t end = std::min(n_rows, r + kRun);
          vf a = load(rows[r] + i);
          vf b = splat(1.0f);
          for (int64_t k = r + 1; k < end; k += 2) {
            a *= load(rows[k] + i);
            if (k + 1 < end) b *= load(rows[k + 1] + i);
          }
          range.take(a * b);
          total.take(a * b);
        }
        std::memcpy(product + i, &total.low, sizeof(total.low));
        std::memcpy(product + i + W / 2, &total.high, sizeof(total.high));
      };
      const int64_t left = cover<1>(n, multiply, multiply);
      if (left == 0 && range.good()) {
        for (int64_t i = 0; i < n; ++i) carry[i] *= product[i];
        return;
      }
    }
    Base::columns(carry, rows, n_rows, n, seen, params);
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
// The extreme of vectors, with the largest bits of |x| beside: those of a NaN are above those of infinity.
struct Watched {
  vf best;
  vi bits;
  template <int kSign>
  CLIKA_INLINE void take(vf x) {
    best = kSign > 0 ? vmax(x, best) : vmin(x, best);
    const vi size = as_int(x) & 0x7fffffff;
    bits = size > bits ? size : bits;
  }
  CLIKA_INLINE vf value() const {
    return select(bits > 0x7f800000, splat(quiet_nan<float>()), best);
  }
  template <int kSign>
  CLIKA_INLINE float reduce() const {
    alignas(64) int32_t each[W];
    std::memcpy(each, &bits, sizeof(each));
    int32_t size = 0;
    for (int k = 0; k < W; ++k) size = std::max(size, each[k]);
    if (size > 0x7f800000) return quiet_nan<float>();
    return kSign > 0 ? reduce_max(best) : reduce_min(best);
  }
};

// The extreme of a tile and of columns, into one part of a carry.
template <class C, int kSign>
CLIKA_INLINE void extreme_of_tile(CarryOf<C>* carry, const C* x, int64_t n) {
  CarryOf<C> best = *carry;
  int64_t i = 0;
  if constexpr (is_float<C>) {
    const vf start = splat(kSign > 0 ? lowest<float>() : highest<float>());
    Watched part[4];
    for (Watched& each : part) each = {start, splat_int(0)};
    for (; i + 4 * W <= n; i += 4 * W) {
      for (int k = 0; k < 4; ++k) part[k].template take<kSign>(load(x + i + k * W));
    }
    for (; i + W <= n; i += W) part[0].template take<kSign>(load(x + i));
    if (i < n && n >= W) {
      part[1].template take<kSign>(load(x + n - W));
      i = n;
    }
    for (int k = 1; k < 4; ++k) {
      part[0].template take<kSign>(part[k].best);
      part[0].bits = part[k].bits > part[0].bits ? part[k].bits : part[0].bits;
    }
    best = further<kSign>(best, static_cast<CarryOf<C>>(part[0].template reduce<kSign>()));
  }
  for (; i < n; ++i) best = further<kSign>(best, static_cast<CarryOf<C>>(x[i]));
  *carry = best;
}
template <class C, int kSign>
CLIKA_INLINE void extreme_of_columns(CarryOf<C>* carry, const C* const* rows, int64_t n_rows, int64_t n) {
  int64_t left = n;
  if constexpr (is_float<C>) {
    alignas(64) float found[kTile];
    const auto look = [&](int64_t i, auto vectors) {
      constexpr int kVectors = decltype(vectors)::value;
      Watched part[kVectors];
      for (int k = 0; k < kVectors; ++k) part[k] = {load(rows[0] + i + k * W), splat_int(0)};
      for (int64_t r = 0; r < n_rows; ++r) {
        for (int k = 0; k < kVectors; ++k) part[k].template take<kSign>(load(rows[r] + i + k * W));
      }
      for (int k = 0; k < kVectors; ++k) store(found + i + k * W, part[k].value());
    };
    left = cover<4>(
        n, [&](int64_t i) { look(i, std::integral_constant<int, 4>()); },
        [&](int64_t i) { look(i, std::integral_constant<int, 1>()); });
    for (int64_t i = 0; i < n - left; ++i) carry[i] = further<kSign>(carry[i], static_cast<double>(found[i]));
  }
  for (int64_t i = 0; i < left; ++i) {
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
  // Squares of a block added in float32; false where they may have overflowed or lost digits.
  static bool add_squares(double* carry, const float* x, int64_t n) {
    vf sum[4] = {};
    int64_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W) {
      for (int k = 0; k < 4; ++k) {
        const vf y = load(x + i + k * W);
        sum[k] += y * y;
      }
    }
    for (int k = 0; i + W <= n; i += W, ++k) sum[k] += load(x + i) * load(x + i);
    float rest = 0.0f;
    for (; i < n; ++i) rest += x[i] * x[i];
    const float total = add_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
    if (!(total > 1e-25f && total < 1e37f)) return false;
    *carry += static_cast<double>(total);
    return true;
  }
  static void tile(double* carry, const C* x, int64_t n, int64_t seen, const Params& params) {
    if constexpr (is_float<C> && kKind == kTwo) {
      for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t count = std::min(kBlock, n - i);
        if (!add_squares(carry, x + i, count)) tile_in_doubles(carry, x + i, count, seen, params);
      }
    } else {
      tile_in_doubles(carry, x, n, seen, params);
    }
  }
  static void tile_in_doubles(double* carry, const C* x, int64_t n, int64_t, const Params& params) {
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
