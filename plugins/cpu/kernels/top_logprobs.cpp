// top_logprobs: the log-probability of a chosen token of each row, and those of its k likeliest tokens.
#include "level.hpp"
#include "elementwise.hpp"
#include "extremum.hpp"
#include "philox.hpp"
#include "sampling.hpp"

// Puts the k largest of a row to the front of its room, in order.
void largest(const Row& row, int64_t k) {
  // A heap of the best so far, the least of them on top: most logits are below it.
  Candidate* heap = row.room;
  int64_t held = 0;
  for (int64_t i = 0; i < row.n; ++i) {
    const Candidate c = {row.logits[i], static_cast<int32_t>(i)};
    if (held < k) {
      heap[held++] = c;
      std::push_heap(heap, heap + held, before);
    } else if (c.logit > heap[0].logit) {  // among equals the lower id is here already
      std::pop_heap(heap, heap + k, before);
      heap[k - 1] = c;
      std::push_heap(heap, heap + k, before);
    }
  }
  std::sort(heap, heap + held, before);
}

// logits [R, V], ids [R]; attribute k -> [R], [R, k], [R, k].
int32_t run(const clika_call* call) {
  const int64_t k = attr_int(call, 0, 0);
  float* chosen = data_of<float>(call->outputs[0]);
  float* values = data_of<float>(call->outputs[1]);
  int32_t* tops = data_of<int32_t>(call->outputs[2]);
  return each_row(call, "top_logprobs", 0, [&](const Row& row, int64_t r, void*) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const int32_t best = best_of(row);
    if (best < 0 || std::isinf(row.logits[best])) {
      chosen[r] = nan;
      std::fill(values + r * k, values + (r + 1) * k, nan);
      std::fill(tops + r * k, tops + (r + 1) * k, -1);
      return;
    }
    const double top = row.logits[best];
    fill_weights(row, row.logits[best], 1.0f);
    const double norm = top + std::log(sum_of_weights(row));
    const int32_t id = row_value<int32_t>(call->inputs[1], r);
    chosen[r] = id >= 0 && id < row.n ? static_cast<float>(row.logits[id] - norm) : nan;
    if (k == 0) return;
    largest(row, k);
    for (int64_t i = 0; i < k; ++i) {
      values[r * k + i] = static_cast<float>(row.room[i].logit - norm);
      tops[r * k + i] = row.room[i].id;
    }
  });
}

CLIKA_KERNELS(top_logprobs, Entry("top_logprobs", run).in(FLOATS, I32).out(F32 | I32))
#include "level_end.hpp"
