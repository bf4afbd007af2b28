// bias_logits, penalize_logits, mask_logits: what a request asks of logits, in place; a block per row.
#include "prelude.cuh"
#include "sampling_arguments.cuh"

CLIKA_INLINE int span_at(const Adjustment& a, i64 row, int c) {
  return static_cast<const int*>(a.spans)[row * a.span_row + c * a.span_step];
}
template <class T>
CLIKA_INLINE T column(const Adjustment& a, int c, i64 row) {
  return static_cast<const T*>(a.columns[c].data)[row * a.columns[c].stride];
}
CLIKA_INLINE bool within(const Adjustment& a, int begin, int end) {
  if (begin >= 0 && end >= begin && end <= a.count) return true;
  if (threadIdx.x == 0) report(a.reporter.to, kIndexOutside, a.reporter.op, begin < 0 ? begin : end, a.count + 1);
  return false;
}
CLIKA_INLINE int id_at(const Adjustment& a, i64 j) { return static_cast<const int*>(a.ids)[j * a.id_step]; }
CLIKA_INLINE float& logit_at(const Adjustment& a, i64 row, i64 id) {
  return static_cast<float*>(a.logits)[row * a.row_stride + id * a.step];
}

// A thread adds all biases of one id, in order: the one that stands at its first place.
extern "C" __global__ void bias_rows(const __grid_constant__ Adjustment a) {
  const i64 row = blockIdx.x;
  const int begin = span_at(a, row, 0), end = span_at(a, row, 1);
  if (!within(a, begin, end)) return;
  for (i64 j = begin + static_cast<i64>(threadIdx.x); j < end; j += blockDim.x) {
    const int id = id_at(a, j);
    if (id < 0 || id >= a.n) {
      report(a.reporter.to, kIndexOutside, a.reporter.op, id, a.n);
      continue;
    }
    bool first = true;
    for (i64 k = begin; k < j && first; ++k) first = id_at(a, k) != id;
    if (!first) continue;
    float& logit = logit_at(a, row, id);
    float x = logit;
    for (i64 k = j; k < end; ++k) {
      if (id_at(a, k) != id) continue;
      const float bias = static_cast<const float*>(a.values)[k * a.value_step];
      // -inf bans whatever the logit is; inf - inf would be no number.
      if (bias != -CLIKA_INFINITY) x += bias;
      else if (x == x) x = bias;
    }
    logit = x;
  }
}

// logits [rows, n], ids: words of 32 bits; a thread per logit.
extern "C" __global__ void mask_rows(const __grid_constant__ Adjustment a) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < a.rows * a.n; at += step) {
    const i64 row = at / a.n, i = at - row * a.n;
    const u32 bits = static_cast<const u32*>(a.ids)[row * a.span_row + i / 32 * a.id_step];
    float& x = logit_at(a, row, i);
    if ((bits >> (i % 32) & 1u) == 0 && x == x) x = -CLIKA_INFINITY;
  }
}

enum { kRepetition, kFrequency, kPresence, kMultiplier, kBase, kAllowed, kLimit };

CLIKA_INLINE void penalize_counts(const Adjustment& a, i64 row, int begin, int reply, int end, int* seen, int* said) {
  const float repetition = column<float>(a, kRepetition, row), frequency = column<float>(a, kFrequency, row),
              presence = column<float>(a, kPresence, row);
  const auto each = [&](i64 from, const auto& body) {
    for (i64 i = from + threadIdx.x; i < end; i += blockDim.x) {
      const int id = id_at(a, i);
      if (id >= 0 && id < a.n) body(id);
    }
    __syncthreads();
  };
  each(begin, [&](int id) {
    seen[id] = 0;
    said[id] = 0;
  });
  each(reply > begin ? reply : begin, [&](int id) { atomicAdd(&said[id], 1); });
  each(begin, [&](int id) {
    if (atomicAdd(&seen[id], 1) != 0) return;  // a token once, by whoever comes first: the result is the same
    float& place = logit_at(a, row, id);
    float logit = place > 0.0f ? place / repetition : place * repetition;
    if (said[id] > 0) logit = __fadd_rn(__fadd_rn(logit, -__fmul_rn(frequency, static_cast<float>(said[id]))), -presence);
    place = logit;
  });
}

// run[id]: the longest run of tokens, up to the newest, that the token would continue.
CLIKA_INLINE void penalize_runs(const Adjustment& a, i64 row, int begin, int end, int* run) {
  const int allowed = column<int>(a, kAllowed, row), limit = column<int>(a, kLimit, row);
  const i64 n = end - begin;
  const i64 most = n < limit ? n : limit;
  const int least = allowed > 1 ? allowed : 1;
  if (most < least) return;
  const auto at = [&](i64 i) { return id_at(a, end - 1 - i); };  // the newest first
  const auto known = [&](int id) { return id >= 0 && id < a.n; };
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    if (known(at(i))) run[at(i)] = 0;
  }
  __syncthreads();
  for (i64 i = 1 + threadIdx.x; i < n; i += blockDim.x) {
    const int next = at(i - 1);
    if (!known(next)) continue;
    i64 length = 0;
    while (length < most && i + length < n && at(length) == at(i + length)) ++length;
    if (length > 0) atomicMax(&run[next], static_cast<int>(length));
  }
  __syncthreads();
  const double base = column<float>(a, kBase, row), multiplier = column<float>(a, kMultiplier, row);
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const int id = at(i);
    if (!known(id)) continue;
    const int length = atomicExch(&run[id], 0);  // once
    if (length < least) continue;
    const double power = pow(base, static_cast<double>(length - allowed));
    logit_at(a, row, id) -= static_cast<float>(multiplier * power < 1e30 ? multiplier * power : 1e30);
  }
  __syncthreads();
}

// Counters of a block serve its rows one after the other.
extern "C" __global__ void __launch_bounds__(1024) penalize_rows(const __grid_constant__ Adjustment a) {
  int* seen = a.seen + static_cast<i64>(blockIdx.x) * a.n;
  int* said = a.said + static_cast<i64>(blockIdx.x) * a.n;
  for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const int begin = span_at(a, row, 0), reply = span_at(a, row, 1), end = span_at(a, row, 2);
    if (!within(a, begin, end)) continue;
    if (column<float>(a, kRepetition, row) != 1.0f || column<float>(a, kFrequency, row) != 0.0f ||
        column<float>(a, kPresence, row) != 0.0f) {
      penalize_counts(a, row, begin, reply, end, seen, said);
    }
    if (column<float>(a, kMultiplier, row) != 0.0f) penalize_runs(a, row, begin, end, seen);
    __syncthreads();
  }
}
