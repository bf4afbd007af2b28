// sample, mirostat, top_logprobs: a block per row, after blocks that find the best token of its parts.
#include "prelude.cuh"
#include "sampling.cuh"

extern "C" __global__ void __launch_bounds__(256) best_parts(const __grid_constant__ Sampling s) {
  begin_early();
  Row row{};
  const i64 begin = blockIdx.x * s.part;
  row.n = begin + s.part < s.n ? s.part : s.n - begin;
  row.data = static_cast<const char*>(s.logits) + (blockIdx.y * s.row_stride + begin * s.step) * bytes_of(s.dtype);
  row.step = s.step;
  row.dtype = s.dtype;
  Best best = {0.0f, -1};
  row.each([&](i64 i, float x) { best = better(best, {x, static_cast<int>(begin + i)}); });
  best = over_block(best, Best{0.0f, -1}, [](Best a, Best b) { return better(a, b); });
  if (threadIdx.x == 0) static_cast<Best*>(s.parts)[blockIdx.y * s.splits + blockIdx.x] = best;
}

// ---------------------------------------------------------------- sample
enum { kTemperature, kTopP, kMinP, kTopK, kSeed, kIndex, kSigma, kTypical, kChance, kThreshold };

// The least logit that top_n_sigma keeps.
CLIKA_INLINE float sigma_border(const Row& row, float sigmas) {
  const double n = double_sum(row, [](i64, float x) { return isinf(x) ? 0.0 : 1.0; });
  const double mean = double_sum(row, [](i64, float x) { return isinf(x) ? 0.0 : static_cast<double>(x); }) / n;
  const double squares = double_sum(row, [&](i64, float x) { return isinf(x) ? 0.0 : (x - mean) * (x - mean); });
  return static_cast<float>(row.top - sigmas * sqrt(squares / n));
}

// Top_n_sigma, top_k, typical_p, top_p, min_p and XTC, one after the other: what one leaves out has the weight 0 in the next.
CLIKA_INLINE void filter_all(const Sampling& s, i64 number, const Row& row, u32 chance) {
  float* weights = row.weights;
  const float sigmas = column(s, kSigma, number, 0.0f);
  const float least = sigmas > 0.0f ? sigma_border(row, sigmas) : -CLIKA_INFINITY;
  row.each([&](i64 i, float x) { weights[i] = x >= least ? exp_negative(-row.distance(x)) : 0.0f; });
  const auto left = [&](i64 i, float) { return weights[i] > 0.0f; };
  const auto place = [&](i64 i, float x, Place* p) {
    *p = by_logit(row, i, x);
    return weights[i] > 0.0f;
  };
  const auto cut = [&](const Border& border, const auto& where) {
    row.each([&](i64 i, float x) {
      Place p;
      if (where(i, x, &p) && !border.keeps(p)) weights[i] = 0.0f;
    });
  };
  const int top_k = column(s, kTopK, number, 0);
  if (top_k > 0 && top_k < row.n) cut(head(row, static_cast<u64>(top_k), 0.0f, false, place), place);
  const float typical_p = column(s, kTypical, number, 1.0f);
  if (typical_p < 1.0f) {
    const u64 total = sum_of(row, left);
    // -ln p = distance + ln(total), so the entropy is ln(total) + mean and the logarithms cancel.
    const double moment = double_sum(row, [&](i64 i, float x) {
      return weights[i] > 0.0f ? static_cast<double>(weights[i]) * row.distance(x) : 0.0;
    });
    const float mean = static_cast<float>(moment / as_weight(row, total));
    const auto typical = [&](i64 i, float x, Place* p) {
      const float key = fabsf(row.distance(x) - mean);
      *p = {{bucket_of(key), __float_as_uint(key), falling(x), static_cast<u32>(i)}};
      return weights[i] > 0.0f;
    };
    cut(head(row, 0, typical_p, true, typical), typical);
  }
  const float top_p = column(s, kTopP, number, 1.0f);
  if (top_p < 1.0f) cut(head(row, 0, top_p, false, place), place);
  const float min_p = column(s, kMinP, number, 0.0f);
  if (min_p > 0.0f) {
    Best best = {0.0f, -1};
    row.each([&](i64 i, float x) {
      if (weights[i] > 0.0f) best = better(best, {x, static_cast<int>(i)});
    });
    best = over_block(best, Best{0.0f, -1}, [](Best a, Best b) { return better(a, b); });
    const float border = min_p * exp_negative(-row.distance(best.value));
    row.each([&](i64 i, float) {
      if (weights[i] < border && i != best.index) weights[i] = 0.0f;
    });
  }
  const float often = column(s, kChance, number, 0.0f);
  if (often > 0.0f && unit(chance) < often) {
    // Of two or more tokens with at least the threshold only the least probable stays: the last one in order.
    const double border = as_weight(row, sum_of(row, left)) * column(s, kThreshold, number, 1.0f);
    struct Tops {
      Best last;
      int n;
    };
    Tops tops = {{0.0f, -1}, 0};
    const auto join = [](Tops a, Tops b) {
      Tops both = a;
      const bool later = a.last.index < 0 || (b.last.index >= 0 && (b.last.value < a.last.value ||
                         (b.last.value == a.last.value && b.last.index > a.last.index)));
      if (later) both.last = b.last;
      both.n = a.n + b.n;
      return both;
    };
    row.each([&](i64 i, float x) {
      if (weights[i] > 0.0f && weights[i] >= border) tops = join(tops, {{x, static_cast<int>(i)}, 1});
    });
    tops = over_block(tops, Tops{{0.0f, -1}, 0}, join);
    if (tops.n >= 2) {
      row.each([&](i64 i, float) {
        if (weights[i] >= border && i != tops.last.index) weights[i] = 0.0f;
      });
    }
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(1024) sample_rows(const __grid_constant__ Sampling s) {
  begin_early();
  const i64 number = blockIdx.x;
  Row row = row_of(s, number);
  int* out = static_cast<int*>(s.out[0]) + number;
  row.warm(column(s, kTemperature, number, 0.0f));
  if (no_choice(row) || !(row.temperature > 0.0f) || isinf(row.top)) {
    if (threadIdx.x == 0) *out = no_choice(row) ? -1 : row.best;
    return;
  }
  const Philox random = philox(static_cast<u64>(column<i64>(s, kSeed, number, 0)),
                               static_cast<u64>(column<i64>(s, kIndex, number, 0)), 0);
  const float u = unit(random.word[0]);
  u64 total;
  int token;
  if (column(s, kSigma, number, 0.0f) > 0.0f || column(s, kTypical, number, 1.0f) < 1.0f ||
      column(s, kChance, number, 0.0f) > 0.0f) {
    row.weights = s.weights + number * s.n;
    filter_all(s, number, row, random.word[1]);
    token = pick(row, u, [&](i64 i, float) { return row.weights[i] > 0.0f; }, &total);
  } else {
    Border border{};
    const int top_k = column(s, kTopK, number, 0);
    if (top_k > 0 && top_k < row.n) {
      border = head(row, static_cast<u64>(top_k), 0.0f, false, [&](i64 i, float x, Place* p) {
        *p = by_logit(row, i, x);
        return row.weight(i, x) > 0.0f;
      });
    }
    const float top_p = column(s, kTopP, number, 1.0f);
    if (top_p < 1.0f) {
      const Border few = border;
      const Border fewer = head(row, 0, top_p, false, [&](i64 i, float x, Place* p) {
        *p = by_logit(row, i, x);
        return few.keeps(*p) && row.weight(i, x) > 0.0f;
      });
      bool found = false;
      for (const u32 mask : fewer.mask) found = found || mask != 0;
      if (found) border = fewer;
    }
    const float min_p = column(s, kMinP, number, 0.0f);
    token = pick(row, u, [&](i64 i, float x) {
      if (min_p > 0.0f && i != row.best && row.weight(i, x) < min_p) return false;
      return border.keeps(by_logit(row, i, x));
    }, &total);
  }
  if (threadIdx.x == 0) *out = token;
}

// ---------------------------------------------------------------- mirostat
enum { kIds, kWarmth, kTau, kEta, kMu, kMirostatSeed, kMirostatIndex, kVersion };
// The tokens from which version 1 estimates how steeply the probabilities fall.
constexpr int kEstimated = 100;

// How many of n tokens, of which the first `sorted` stand in order, version 1 keeps. The exponent is fitted to their
// log-probabilities by least squares.
CLIKA_INLINE i64 zipf_head(const Best* tokens, i64 sorted, i64 n, double temperature, double mu) {
  if (n < 2) return n;
  double products = 0.0, squares = 0.0;
  for (i64 i = 0; i + 1 < sorted; ++i) {
    const double t = log1p(1.0 / static_cast<double>(i + 1));
    const double b = (static_cast<double>(tokens[i].value) - tokens[i + 1].value) / temperature;
    products += t * b;
    squares += t * t;
  }
  const double s = products / squares, e = s - 1.0, log_n = log(static_cast<double>(n));
  const double ratio = e == 0.0 ? 1.0 / log_n : e / -expm1(-e * log_n);
  const double k = exp2((log2(ratio) + mu) / s);  // a flat row has s = 0: all of it is kept, or one token
  if (k >= static_cast<double>(n)) return n;
  return k >= 1.0 ? static_cast<i64>(k) : 1;
}

extern "C" __global__ void __launch_bounds__(1024) mirostat_rows(const __grid_constant__ Sampling s) {
  begin_early();
  __shared__ Best unsorted[kEstimated];
  __shared__ Best sorted[kEstimated];
  __shared__ i64 kept;
  const i64 number = blockIdx.x;
  int* id = static_cast<int*>(s.out[0]) + number;
  float* state = static_cast<float*>(s.out[1]) + number;
  Row row = row_of(s, number);
  const float mu = column(s, kMu, number, 0.0f), tau = column(s, kTau, number, 0.0f);
  row.warm(column(s, kWarmth, number, 0.0f));
  if (!(tau > 0.0f) || !(row.temperature > 0.0f) || no_choice(row) || isinf(row.top)) {
    if (threadIdx.x == 0) {
      *id = column(s, kIds, number, 0);
      *state = mu;
    }
    return;
  }
  Border border{};
  double least = 0.0;
  if (column(s, kVersion, number, 2) == 1) {
    const auto place = [&](i64 i, float x, Place* p) {
      *p = by_logit(row, i, x);
      return x > -CLIKA_INFINITY;
    };
    u64 n = 0;
    row.each([&](i64, float x) { n += x > -CLIKA_INFINITY; });
    n = over_block(n, u64{0}, [](u64 a, u64 b) { return a + b; });
    const Border first = head(row, kEstimated, 0.0f, false, place);
    const i64 ordered = in_order(row, first, true, unsorted, sorted, kEstimated);
    if (threadIdx.x == 0) kept = zipf_head(sorted, ordered, static_cast<i64>(n), row.temperature, mu);
    __syncthreads();
    if (static_cast<u64>(kept) < n) border = head(row, static_cast<u64>(kept), 0.0f, false, place);
  } else {  // what is no more surprising than mu, -log2(weight / total) <= mu, and the best token
    const u64 all = sum_of(row, [](i64, float) { return true; });
    least = as_weight(row, all) * exp2(-static_cast<double>(mu));
  }
  u64 total;
  const Philox random = philox(static_cast<u64>(column<i64>(s, kMirostatSeed, number, 0)),
                               static_cast<u64>(column<i64>(s, kMirostatIndex, number, 0)), 0);
  const int token = pick(row, unit(random.word[0]), [&](i64 i, float x) {
    if (i != row.best && row.weight(i, x) < least) return false;
    return border.keeps(by_logit(row, i, x));
  }, &total);
  if (threadIdx.x == 0) {
    const double surprise = (row.distance(row.logit(token)) + log(as_weight(row, total))) / 0.69314718055994530942;
    *id = token;
    *state = static_cast<float>(mu - column(s, kEta, number, 0.0f) * (surprise - tau));
  }
}

// ---------------------------------------------------------------- top_logprobs
extern "C" __global__ void __launch_bounds__(1024) top_rows(const __grid_constant__ Sampling s) {
  begin_early();
  const i64 number = blockIdx.x, k = s.most;
  float* chosen = static_cast<float*>(s.out[0]) + number;
  float* values = static_cast<float*>(s.out[1]) + number * k;
  int* tops = static_cast<int*>(s.out[2]) + number * k;
  Row row = row_of(s, number);
  row.warm(1.0f);
  if (no_choice(row) || isinf(row.top)) {
    if (threadIdx.x == 0) *chosen = CLIKA_NAN;
    for (i64 i = threadIdx.x; i < k; i += blockDim.x) {
      values[i] = CLIKA_NAN;
      tops[i] = -1;
    }
    return;
  }
  const double norm = row.top + log(as_weight(row, sum_of(row, [](i64, float) { return true; })));
  const int id = column(s, 0, number, -1);
  if (threadIdx.x == 0) *chosen = id >= 0 && id < row.n ? static_cast<float>(row.logit(id) - norm) : CLIKA_NAN;
  if (k == 0) return;
  const Border border = head(row, static_cast<u64>(k), 0.0f, false, [&](i64 i, float x, Place* p) {
    *p = by_logit(row, i, x);
    return true;
  });
  Best* room = static_cast<Best*>(s.room) + number * 2 * k;
  const i64 n = in_order(row, border, false, room, room + k, k);
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    values[i] = static_cast<float>(room[k + i].value - norm);
    tops[i] = room[k + i].index;
  }
}
