// sample: one token id per row of logits, greedy at temperature 0, else drawn from the filtered distribution
// with Philox keyed by (seed, index). A row's result depends on its own logits and settings only.
#include "level.hpp"
#include "elementwise.hpp"
#include "extremum.hpp"
#include "philox.hpp"
#include "sampling.hpp"

struct Settings {
  float temperature;
  float top_p;
  float min_p;
  int32_t top_k;
  float top_n_sigma;
  float typical_p;
  float xtc_probability;
  float xtc_threshold;
};

// ---------------------------------------------------------------- top_k, top_p and min_p
// The distances (top - logit) / temperature of a row fall into buckets, which are in the order of falling
// probability; a filter then needs the exact order within one bucket only.
constexpr int kBuckets = 2048;
constexpr float kBucketsPerUnit = 23.5f;  // weights are 0 from a distance of 87 on

struct Buckets {
  double mass[kBuckets];
  int32_t count[kBuckets];
};

CLIKA_INLINE int bucket_of(float distance) {
  return static_cast<int>(std::min(distance * kBucketsPerUnit, static_cast<float>(kBuckets - 1)));
}

// Counts the tokens up to `last` (all where its id is -1) by bucket; returns the sum of their weights.
double fill_buckets(const Row& row, Buckets& buckets, Candidate last) {
  std::fill(buckets.mass, buckets.mass + kBuckets, 0.0);
  std::fill(buckets.count, buckets.count + kBuckets, 0);
  for (int64_t i = 0; i < row.n; ++i) {
    if (last.id >= 0 && before(last, {row.logits[i], static_cast<int32_t>(i)})) continue;
    const int b = bucket_of(row.distances[i]);
    buckets.mass[b] += row.weights[i];
    ++buckets.count[b];
  }
  double total = 0;
  for (int b = 0; b < kBuckets; ++b) total += buckets.mass[b];
  return total;
}

// The tokens of a bucket up to `last`, in order; returns how many.
int64_t sort_bucket(const Row& row, int bucket, Candidate last) {
  int64_t n = 0;
  for (int64_t i = 0; i < row.n; ++i) {
    if (bucket_of(row.distances[i]) != bucket) continue;
    const Candidate c = {row.logits[i], static_cast<int32_t>(i)};
    if (last.id < 0 || !before(last, c)) row.room[n++] = c;
  }
  std::sort(row.room, row.room + n, before);
  return n;
}

// The k-th token in the order of falling probability.
Candidate by_count(const Row& row, Buckets& buckets, int64_t k) {
  fill_buckets(row, buckets, {0.0f, -1});
  int64_t seen = 0;
  int b = 0;
  while (seen + buckets.count[b] < k) seen += buckets.count[b++];
  sort_bucket(row, b, {0.0f, -1});
  return row.room[k - seen - 1];
}

// The token with which the sum of weights reaches the share `top_p` of all up to `last`.
Candidate by_mass(const Row& row, Buckets& buckets, float top_p, Candidate last) {
  const double wanted = fill_buckets(row, buckets, last) * static_cast<double>(top_p);
  double sum = 0;
  int b = 0;
  int last_filled = 0;
  for (; b < kBuckets; ++b) {
    if (buckets.count[b] == 0) continue;
    last_filled = b;
    if (sum + buckets.mass[b] >= wanted) break;
    sum += buckets.mass[b];
  }
  const int64_t n = sort_bucket(row, std::min(b, last_filled), last);
  for (int64_t i = 0; i < n; ++i) {
    sum += row.weights[row.room[i].id];
    if (sum >= wanted) return row.room[i];
  }
  return row.room[n - 1];
}

// Gives the weight 0 to what top_k, top_p and min_p leave out.
void filter(const Row& row, Buckets& buckets, const Settings& s, int32_t best) {
  Candidate last = {0.0f, -1};
  if (s.top_k > 0 && s.top_k < row.n) last = by_count(row, buckets, s.top_k);
  if (s.top_p < 1.0f) last = by_mass(row, buckets, s.top_p, last);
  if (last.id >= 0) {
    for (int64_t i = 0; i < row.n; ++i) {
      if (before(last, {row.logits[i], static_cast<int32_t>(i)})) row.weights[i] = 0.0f;
    }
  }
  if (s.min_p > 0.0f) {  // the largest weight is 1
    for (int64_t i = 0; i < row.n; ++i) {
      if (row.weights[i] < s.min_p && i != best) row.weights[i] = 0.0f;
    }
  }
}

// ---------------------------------------------------------------- all of the filters, over a list of what is kept
double mass_of(const Row& row, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += row.weights[row.room[i].id];
  return sum;
}

// Brings the shortest head of the first n, by a key and then by probability, whose weights reach `wanted` to the front;
// returns its size. Keys fall into buckets, so that one of them alone is put in order.
template <class Key>
int64_t head_of_mass(const Row& row, Buckets& buckets, int64_t n, double wanted, const Key& key) {
  std::fill(buckets.mass, buckets.mass + kBuckets, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    buckets.mass[bucket_of(key(row.room[i]))] += row.weights[row.room[i].id];
  }
  double sum = 0;
  int border = 0;
  while (border < kBuckets - 1 && sum + buckets.mass[border] < wanted) sum += buckets.mass[border++];
  Candidate* end = row.room + n;
  Candidate* begin =
      std::partition(row.room, end, [&](const Candidate& c) { return bucket_of(key(c)) < border; });
  end = std::partition(begin, end, [&](const Candidate& c) { return bucket_of(key(c)) == border; });
  std::sort(begin, end, [&](const Candidate& x, const Candidate& y) {
    const float kx = key(x);
    const float ky = key(y);
    return kx != ky ? kx < ky : before(x, y);
  });
  for (Candidate* c = begin; c < end; ++c) {
    sum += row.weights[c->id];
    if (sum >= wanted) return c + 1 - row.room;
  }
  return std::max<int64_t>(1, end - row.room);
}

// The least logit that top_n_sigma keeps.
float sigma_border(const Row& row, float top, float sigmas) {
  double sum = 0;
  int64_t n = 0;
  for (int64_t i = 0; i < row.n; ++i) {
    if (std::isinf(row.logits[i])) continue;
    sum += row.logits[i];
    ++n;
  }
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < row.n; ++i) {
    if (std::isinf(row.logits[i])) continue;
    squares += (row.logits[i] - mean) * (row.logits[i] - mean);
  }
  return static_cast<float>(top - sigmas * std::sqrt(squares / static_cast<double>(n)));
}

int64_t keep_typical(const Row& row, Buckets& buckets, int64_t n, float typical_p) {
  const double total = mass_of(row, n);
  double moment = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = row.room[i].id;
    moment += static_cast<double>(row.weights[id]) * row.distances[id];
  }
  // -ln p = distance + ln(total), so the entropy is ln(total) + mean and the logarithms cancel.
  const float mean = static_cast<float>(moment / total);
  return head_of_mass(row, buckets, n, total * typical_p,
                      [&](const Candidate& c) { return std::fabs(row.distances[c.id] - mean); });
}

// Of two or more tokens with at least `threshold` only the least probable stays.
int64_t exclude_top(const Row& row, int64_t n, float threshold) {
  const double least = mass_of(row, n) * threshold;
  const auto probable = [&](const Candidate& c) { return row.weights[c.id] >= least; };
  Candidate* tops = std::partition(row.room, row.room + n, [&](const Candidate& c) { return !probable(c); });
  const int64_t others = tops - row.room;
  if (n - others < 2) return n;
  std::swap(*tops, *std::max_element(tops, row.room + n, before));
  return others + 1;
}

void filter_all(const Row& row, Buckets& buckets, const Settings& s, float top, uint32_t chance) {
  const float least =
      s.top_n_sigma > 0.0f ? sigma_border(row, top, s.top_n_sigma) : -std::numeric_limits<float>::infinity();
  int64_t n = 0;
  for (int64_t i = 0; i < row.n; ++i) {
    if (row.weights[i] > 0.0f && row.logits[i] >= least) row.room[n++] = {row.logits[i], static_cast<int32_t>(i)};
  }
  if (s.top_k > 0 && s.top_k < n) {
    std::nth_element(row.room, row.room + s.top_k - 1, row.room + n, before);
    n = s.top_k;
  }
  if (s.typical_p < 1.0f) n = keep_typical(row, buckets, n, s.typical_p);
  if (s.top_p < 1.0f) {
    n = head_of_mass(row, buckets, n, mass_of(row, n) * s.top_p,
                     [&](const Candidate& c) { return row.distances[c.id]; });
  }
  if (s.min_p > 0.0f) {
    const Candidate best = *std::min_element(row.room, row.room + n, before);
    const float border = s.min_p * row.weights[best.id];
    n = std::partition(row.room, row.room + n,
                       [&](const Candidate& c) { return row.weights[c.id] >= border || c.id == best.id; }) -
        row.room;
  }
  if (s.xtc_probability > 0.0f && unit(chance) < s.xtc_probability) n = exclude_top(row, n, s.xtc_threshold);
  // A negative weight marks what stays.
  for (int64_t i = 0; i < n; ++i) row.weights[row.room[i].id] *= -1.0f;
  for (int64_t i = 0; i < row.n; ++i) row.weights[i] = std::max(0.0f, -row.weights[i]);
}

// ---------------------------------------------------------------- a row
int32_t draw(const Row& row, Buckets& buckets, const Settings& s, uint64_t seed, uint64_t index) {
  const int32_t best = best_of(row);
  if (best < 0) return -1;
  const float top = row.logits[best];
  if (!(s.temperature > 0.0f) || std::isinf(top)) return best;
  fill_weights(row, top, s.temperature);
  const Philox random = philox(seed, index, 0);
  if (s.top_n_sigma > 0.0f || s.typical_p < 1.0f || s.xtc_probability > 0.0f) {
    filter_all(row, buckets, s, top, random.word[1]);
  } else {
    filter(row, buckets, s, best);
  }
  return pick(row, sum_of_weights(row), unit(random.word[0]), best);
}

float optional_value(const clika_call* call, uint32_t i, int64_t row, float otherwise) {
  return present(call, i) ? row_value<float>(call->inputs[i], row) : otherwise;
}

// logits [R, V], temperature, top_p, min_p, top_k, seed, index [R]; top_n_sigma?, typical_p?, xtc_probability?,
// xtc_threshold? [R].
int32_t run(const clika_call* call) {
  int32_t* out = data_of<int32_t>(call->outputs[0]);
  return each_row(call, "sample", sizeof(Buckets), [&](const Row& row, int64_t r, void* own) {
    Settings s;
    s.temperature = bounded_temperature(row_value<float>(call->inputs[1], r));
    s.top_p = row_value<float>(call->inputs[2], r);
    s.min_p = row_value<float>(call->inputs[3], r);
    s.top_k = row_value<int32_t>(call->inputs[4], r);
    s.top_n_sigma = optional_value(call, 7, r, 0.0f);
    s.typical_p = optional_value(call, 8, r, 1.0f);
    s.xtc_probability = optional_value(call, 9, r, 0.0f);
    s.xtc_threshold = optional_value(call, 10, r, 1.0f);
    const uint64_t seed = static_cast<uint64_t>(row_value<int64_t>(call->inputs[5], r));
    const uint64_t index = static_cast<uint64_t>(row_value<int64_t>(call->inputs[6], r));
    out[r] = draw(row, *static_cast<Buckets*>(own), s, seed, index);
  });
}

CLIKA_KERNELS(sample, Entry("sample", run).in(FLOATS, F32, F32, F32, I32, I64, I64, F32).out(I32))
#include "level_end.hpp"
