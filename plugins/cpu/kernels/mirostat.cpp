// mirostat: a token per row whose surprise is kept near a target, and the state for the row's next token.
#include "level.hpp"
#include "elementwise.hpp"
#include "extremum.hpp"
#include "philox.hpp"
#include "sampling.hpp"

constexpr double kLn2 = 0.69314718055994530942;
// The tokens from which version 1 estimates how steeply the probabilities fall.
constexpr int64_t kEstimated = 100;

// Version 2: leaves tokens whose surprise is at most mu, -log2(weight / total) <= mu, and the best one.
inline void keep_unsurprising(const Row& row, float mu, int32_t best) {
  const double least = sum_of_weights(row) * std::exp2(-static_cast<double>(mu));
  for (int64_t i = 0; i < row.n; ++i) {
    if (row.weights[i] < least && i != best) row.weights[i] = 0.0f;
  }
}

// How many of n tokens, of which the first `sorted` stand in order, version 1 keeps. The exponent is fitted to their
// log-probabilities by least squares.
inline int64_t zipf_head(const Candidate* tokens, int64_t sorted, int64_t n, double temperature, double mu) {
  if (n < 2) return n;
  double products = 0;
  double squares = 0;
  for (int64_t i = 0; i + 1 < sorted; ++i) {
    const double t = std::log1p(1.0 / static_cast<double>(i + 1));
    const double b = (static_cast<double>(tokens[i].logit) - tokens[i + 1].logit) / temperature;
    products += t * b;
    squares += t * t;
  }
  const double s = products / squares;
  const double e = s - 1;
  const double log_n = std::log(static_cast<double>(n));
  const double ratio = e == 0 ? 1 / log_n : e / -std::expm1(-e * log_n);
  // A flat row has s = 0: all of it is kept, or one token.
  const double k = std::exp2((std::log2(ratio) + mu) / s);
  if (k >= static_cast<double>(n)) return n;
  return k >= 1 ? static_cast<int64_t>(k) : 1;
}

// Version 1: leaves the tokens that stand first.
inline void keep_head(const Row& row, float temperature, float mu) {
  Candidate* tokens = row.room;
  int64_t n = 0;
  for (int64_t i = 0; i < row.n; ++i) {
    if (row.logits[i] > -std::numeric_limits<float>::infinity()) {
      tokens[n++] = Candidate{row.logits[i], static_cast<int32_t>(i)};
    }
  }
  const int64_t sorted = std::min(n, kEstimated);
  std::partial_sort(tokens, tokens + sorted, tokens + n, before);
  const int64_t k = zipf_head(tokens, sorted, n, temperature, mu);
  if (k > sorted && k < n) std::nth_element(tokens + sorted, tokens + k, tokens + n, before);
  for (int64_t i = k; i < n; ++i) row.weights[tokens[i].id] = 0.0f;
}

// logits [R, V], ids, temperature, tau, eta, mu, seed, index, version [R] -> ids, mu [R].
int32_t run(const clika_call* call) {
  int32_t* ids = data_of<int32_t>(call->outputs[0]);
  float* states = data_of<float>(call->outputs[1]);
  return each_row(call, "mirostat", 0, [&](const Row& row, int64_t r, void*) {
    ids[r] = row_value<int32_t>(call->inputs[1], r);
    const float mu = states[r] = row_value<float>(call->inputs[5], r);
    const float temperature = bounded_temperature(row_value<float>(call->inputs[2], r));
    const float tau = row_value<float>(call->inputs[3], r);
    if (!(tau > 0.0f) || !(temperature > 0.0f)) return;
    const int32_t best = best_of(row);
    if (best < 0 || std::isinf(row.logits[best])) return;
    fill_weights(row, row.logits[best], temperature);
    if (row_value<int32_t>(call->inputs[8], r) == 1) {
      keep_head(row, temperature, mu);
    } else {
      keep_unsurprising(row, mu, best);
    }
    const double kept = sum_of_weights(row);
    const uint64_t seed = static_cast<uint64_t>(row_value<int64_t>(call->inputs[6], r));
    const uint64_t index = static_cast<uint64_t>(row_value<int64_t>(call->inputs[7], r));
    ids[r] = pick(row, kept, unit(philox(seed, index, 0).word[0]), best);
    const double surprise = (row.distances[ids[r]] + std::log(kept)) / kLn2;
    states[r] = static_cast<float>(mu - row_value<float>(call->inputs[4], r) * (surprise - tau));
  });
}

// The last mask is that of all further inputs: index and version.
CLIKA_KERNELS(mirostat, Entry("mirostat", run).in(F32, I32, F32, F32, F32, F32, I64, I64 | I32).out(I32 | F32))
#include "level_end.hpp"
