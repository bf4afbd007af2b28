// mirostat: a token per row whose surprise is kept near a target, and the state for the row's next token.
#include "level.hpp"
#include "elementwise.hpp"
#include "extremum.hpp"
#include "philox.hpp"
#include "sampling.hpp"

constexpr double kLn2 = 0.69314718055994530942;

// logits [R, V], ids, temperature, tau, eta, mu, seed, index [R] -> ids, mu [R].
int32_t run(const clika_call* call) {
  int32_t* ids = data_of<int32_t>(call->outputs[0]);
  float* states = data_of<float>(call->outputs[1]);
  return each_row(call, "mirostat", 0, [&](const Row& row, int64_t r, void*) {
    ids[r] = row_value<int32_t>(call->inputs[1], r);
    const float mu = states[r] = row_value<float>(call->inputs[5], r);
    const float temperature = row_value<float>(call->inputs[2], r);
    const float tau = row_value<float>(call->inputs[3], r);
    if (!(tau > 0.0f) || !(temperature > 0.0f)) return;
    const int32_t best = best_of(row);
    if (best < 0 || std::isinf(row.logits[best])) return;
    fill_weights(row, row.logits[best], temperature);
    // -log2 p <= mu, where p = weight / total.
    const double least = sum_of_weights(row) * std::exp2(-static_cast<double>(mu));
    for (int64_t i = 0; i < row.n; ++i) {
      if (row.weights[i] < least && i != best) row.weights[i] = 0.0f;
    }
    const double kept = sum_of_weights(row);
    const uint64_t seed = static_cast<uint64_t>(row_value<int64_t>(call->inputs[6], r));
    const uint64_t index = static_cast<uint64_t>(row_value<int64_t>(call->inputs[7], r));
    ids[r] = pick(row, kept, unit(philox(seed, index, 0).word[0]), best);
    const double surprise = (row.distances[ids[r]] + std::log(kept)) / kLn2;
    states[r] = static_cast<float>(mu - row_value<float>(call->inputs[4], r) * (surprise - tau));
  });
}

CLIKA_KERNELS(mirostat, Entry("mirostat", run).in(F32, I32, F32, F32, F32, F32, I64).out(I32 | F32))
#include "level_end.hpp"
