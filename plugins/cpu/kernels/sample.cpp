// sample: one token id per row of logits, greedy at temperature 0, else drawn from the filtered distribution
// with Philox keyed by (seed, index). A row's result depends on its own logits and settings only.
#include "level.hpp"
#include "elementwise.hpp"
#include "extremum.hpp"
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

// The distances (top - logit) / temperature of a row fall into buckets, which are in the order of falling
// probability; a filter then needs the exact order within one bucket only.
constexpr int kBuckets = 2048;
constexpr float kBucketsPerUnit = 23.5f;  // weights are 0 from a distance of 87 on

struct Row {
  const float* logits;
  const float* distances;
  float* weights;
  int64_t n;
  Candidate* room;  // n of them
  double* mass;     // by bucket
  int32_t* count;
};

CLIKA_INLINE int bucket_of(float distance) {
  return static_cast<int>(std::min(distance * kBucketsPerUnit, static_cast<float>(kBuckets - 1)));
}

// Counts the tokens up to `last` (all where its id is -1) by bucket; returns the sum of their weights.
double fill_buckets(const Row& row, Candidate last) {
  std::fill(row.mass, row.mass + kBuckets, 0.0);
  std::fill(row.count, row.count + kBuckets, 0);
  for (int64_t i = 0; i < row.n; ++i) {
    if (last.id >= 0 && before(last, {row.logits[i], static_cast<int32_t>(i)})) continue;
    const int b = bucket_of(row.distances[i]);
    row.mass[b] += row.weights[i];
    ++row.count[b];
  }
  double total = 0;
  for (int b = 0; b < kBuckets; ++b) total += row.mass[b];
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
Candidate by_count(const Row& row, int64_t k) {
  fill_buckets(row, {0.0f, -1});
  int64_t seen = 0;
  int b = 0;
  while (seen + row.count[b] < k) seen += row.count[b++];
  sort_bucket(row, b, {0.0f, -1});
  return row.room[k - seen - 1];
}

// The token with which the sum of weights reaches the share `top_p` of all up to `last`.
Candidate by_mass(const Row& row, float top_p, Candidate last) {
  const double wanted = fill_buckets(row, last) * static_cast<double>(top_p);
  double sum = 0;
  int b = 0;
  int last_filled = 0;
  for (; b < kBuckets; ++b) {
    if (row.count[b] == 0) continue;
    last_filled = b;
    if (sum + row.mass[b] >= wanted) break;
    sum += row.mass[b];
  }
  const int64_t n = sort_bucket(row, std::min(b, last_filled), last);
  for (int64_t i = 0; i < n; ++i) {
    sum += row.weights[row.room[i].id];
    if (sum >= wanted) return row.room[i];
  }
  return row.room[n - 1];
}

// Gives the weight 0 to what the filters leave out.
void filter(const Row& row, const Settings& s, int32_t best) {
  Candidate last = {0.0f, -1};
  if (s.top_k > 0 && s.top_k < row.n) last = by_count(row, s.top_k);
  if (s.top_p < 1.0f) last = by_mass(row, s.top_p, last);
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

constexpr int64_t kSumBlock = 256;

double block_sum(const float* x, int64_t n) {
  double part[4] = {0, 0, 0, 0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int k = 0; k < 4; ++k) part[k] += x[i + k];
  }
  for (; i < n; ++i) part[0] += x[i];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

int32_t draw(const Row& row, float* distances, const Settings& s) {
  const int64_t n = row.n;
  const int32_t best = static_cast<int32_t>(find_float<1>(row.logits, n));  // a NaN, where there is one
  const float top = row.logits[best];
  if (!(top > -std::numeric_limits<float>::infinity())) return -1;  // NaN, or nothing to choose from
  if (!(s.temperature > 0.0f) || std::isinf(top)) return best;
  const vf shift = splat(top);
  const vf divisor = splat(s.temperature);
  for (int64_t i = 0; i < n; i += W) {
    const int64_t left = std::min<int64_t>(W, n - i);
    const vf x = left == W ? load(row.logits + i) : load_partial(row.logits + i, left);
    const vf d = (shift - x) / divisor;
    const vf w = vexp_negative(-d);
    if (left == W) {
      store(distances + i, d);
      store(row.weights + i, w);
    } else {
      store_partial(distances + i, d, left);
      store_partial(row.weights + i, w, left);
    }
  }
  filter(row, s, best);
  // The sums of blocks give the total and lead to the block that holds the result.
  double total = 0;
  for (int64_t i = 0; i < n; i += kSumBlock) total += block_sum(row.weights + i, std::min(kSumBlock, n - i));
  const double u = unit(philox(s.seed, s.index, 0).word[0]);
  const double wanted = u * total;
  double sum = 0;
  int64_t result = best;
  for (int64_t i = 0; i < n; i += kSumBlock) {
    const int64_t end = std::min(n, i + kSumBlock);
    const double block = block_sum(row.weights + i, end - i);
    if (sum + block <= wanted && end < n) {
      sum += block;
      continue;
    }
    for (int64_t k = i; k < end; ++k) {
      if (row.weights[k] == 0.0f) continue;
      sum += row.weights[k];
      result = k;
      if (sum > wanted) return static_cast<int32_t>(result);
    }
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
  const int64_t buckets = kBuckets * static_cast<int64_t>(sizeof(double) + sizeof(int32_t));
  const int64_t room = padded * static_cast<int64_t>(3 * sizeof(float) + sizeof(Candidate)) + buckets;
  const int64_t workers = std::min<int64_t>(rows, call->core->num_threads());
  const bool split = rows > 1 && workers == call->core->num_threads();
  char* scratch =
      static_cast<char*>(call->core->scratch(call, static_cast<size_t>(room * (split ? workers : 1))));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const LoadTile<float> loader = Tiles<float>::loader(logits.dtype);
  parallel(call, rows, split ? 1 : rows, [&](int64_t begin, int64_t end, int32_t worker) {
    double* mass = reinterpret_cast<double*>(scratch + worker * room);
    float* copy = reinterpret_cast<float*>(mass + kBuckets);
    float* weights = copy + padded;
    float* distances = weights + padded;
    Candidate* candidates = reinterpret_cast<Candidate*>(distances + padded);
    int32_t* counts = reinterpret_cast<int32_t*>(candidates + padded);
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
      out[r] = draw({x, distances, weights, n, candidates, mass, counts}, distances, s);
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(sample, Entry("sample", run).in(FLOATS, F32, F32, F32, I32, I64, I64).out(I32))
#include "level_end.hpp"
