// sample: one token id per row of logits, greedy at temperature 0, else drawn from the filtered distribution
// with Philox keyed by (seed, index). A row's result depends on its own logits and settings only.
#include "level.hpp"
#include "elementwise.hpp"
#include "philox.hpp"

struct Candidate {
  float logit;
  int32_t id;
};
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

struct Settings {
  float temperature;
  float top_p;
  float min_p;
  int32_t top_k;
  uint64_t seed;
  uint64_t index;
};

// The first largest logit; the first NaN, where there is one.
int32_t greedy(const float* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] != x[i]) return static_cast<int32_t>(i);
    if (x[i] > x[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

// The last kept candidate in the order of falling probability; all are kept where `last.id` is -1.
// `weights` are e^((logit - top) / temperature), `room` holds n candidates.
Candidate last_kept(const float* logits, const float* weights, int64_t n, const Settings& s,
                    Candidate* room) {
  Candidate none = {0.0f, -1};
  const bool by_count = s.top_k > 0 && s.top_k < n;
  const bool by_mass = s.top_p < 1.0f;
  const bool by_share = s.min_p > 0.0f;
  if (!by_count && !by_mass && !by_share) return none;
  for (int64_t i = 0; i < n; ++i) room[i] = {logits[i], static_cast<int32_t>(i)};
  int64_t kept = n;
  if (by_count) {
    kept = s.top_k;
    std::nth_element(room, room + kept, room + n, before);
  }
  double mass = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!by_count) mass += weights[i];
  }
  // Sort a growing head until it decides; most rows are decided by a few hundred candidates.
  int64_t sorted = 0;
  if (by_count && by_mass) {
    std::sort(room, room + kept, before);
    sorted = kept;
    for (int64_t i = 0; i < kept; ++i) mass += weights[room[i].id];
  }
  const double wanted = by_mass ? static_cast<double>(s.top_p) * mass : mass;
  double sum = 0;
  int64_t at = 0;
  int64_t head = 256;
  while (at < kept) {
    if (at == sorted) {
      const int64_t end = std::min(kept, head);
      if (end < kept) std::nth_element(room + sorted, room + end, room + kept, before);
      std::sort(room + sorted, room + end, before);
      sorted = end;
      head *= 8;
    }
    const float weight = weights[room[at].id];
    if (at > 0 && by_share && weight < s.min_p) break;  // the largest weight is 1
    ++at;
    sum += weight;
    if (by_mass && sum >= wanted) break;
  }
  return room[at - 1];
}

int32_t draw(const float* logits, float* weights, int64_t n, const Settings& s, Candidate* room) {
  const int32_t best = greedy(logits, n);
  const float top = logits[best];
  if (!(s.temperature > 0.0f) || top != top || std::isinf(top)) return best;
  const vf shift = splat(top);
  const vf divisor = splat(s.temperature);
  for (int64_t i = 0; i < n; i += W) {
    const int64_t left = std::min<int64_t>(W, n - i);
    if (left == W) {
      store(weights + i, vexp_negative((load(logits + i) - shift) / divisor));
    } else {
      store_partial(weights + i, vexp_negative((load_partial(logits + i, left) - shift) / divisor), left);
    }
  }
  const Candidate last = last_kept(logits, weights, n, s, room);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (last.id >= 0 && before(last, {logits[i], static_cast<int32_t>(i)})) weights[i] = 0.0f;
    total += weights[i];
  }
  const double u = unit(philox(s.seed, s.index, 0).word[0]);
  const double wanted = u * total;
  double sum = 0;
  int64_t result = best;
  for (int64_t i = 0; i < n; ++i) {
    if (weights[i] == 0.0f) continue;
    sum += weights[i];
    result = i;
    if (sum > wanted) break;
  }
  return static_cast<int32_t>(result);
}

template <class T>
CLIKA_INLINE T row_value(const clika_value& v, int64_t row) {
  return data_of<T>(v)[row * v.strides[0]];
}

// logits [R, V], temperature, top_p, min_p, top_k, seed, index [R].
int32_t run(const clika_call* call) {
  const clika_value& logits = call->inputs[0];
  const int64_t rows = logits.shape[0];
  const int64_t n = logits.shape[1];
  int32_t* out = data_of<int32_t>(call->outputs[0]);
  if (rows == 0) return CLIKA_OK;
  if (n == 0) return refuse(call, "sample: the rows of logits are empty");
  const int64_t padded = (n + 15) / 16 * 16;
  const int64_t room = padded * static_cast<int64_t>(2 * sizeof(float) + sizeof(Candidate));
  const int64_t workers = std::min<int64_t>(rows, call->core->num_threads());
  const bool split = rows > 1 && workers == call->core->num_threads();
  char* scratch =
      static_cast<char*>(call->core->scratch(call, static_cast<size_t>(room * (split ? workers : 1))));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const LoadTile<float> loader = Tiles<float>::loader(logits.dtype);
  parallel(call, rows, split ? 1 : rows, [&](int64_t begin, int64_t end, int32_t worker) {
    float* copy = reinterpret_cast<float*>(scratch + worker * room);
    float* weights = copy + padded;
    Candidate* candidates = reinterpret_cast<Candidate*>(weights + padded);
    for (int64_t r = begin; r < end; ++r) {
      Settings s;
      s.temperature = row_value<float>(call->inputs[1], r);
      s.top_p = row_value<float>(call->inputs[2], r);
      s.min_p = row_value<float>(call->inputs[3], r);
      s.top_k = row_value<int32_t>(call->inputs[4], r);
      s.seed = static_cast<uint64_t>(row_value<int64_t>(call->inputs[5], r));
      s.index = static_cast<uint64_t>(row_value<int64_t>(call->inputs[6], r));
      const float* x = copy;
      if (logits.dtype == CLIKA_FLOAT32 && (logits.strides[1] == 1 || n == 1)) {
        x = data_of<float>(logits) + r * logits.strides[0];
      } else {
        loader(copy, logits.data, r * logits.strides[0], logits.strides[1], n);
      }
      out[r] = draw(x, weights, n, s, candidates);
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(sample, Entry("sample", run).in(FLOATS, F32, F32, F32, I32, I64, I64).out(I32))
#include "level_end.hpp"
