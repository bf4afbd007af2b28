// What the operators that draw tokens share: the weights of a row, and the draw. Included after elementwise.hpp,
// extremum.hpp and philox.hpp.
struct Candidate {
  float logit;
  int32_t id;
};
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}


// One row of logits, and the room that a kernel has for it: n of each.
struct Row {
  const float* logits;
  float* distances;  // (largest - logit) / temperature
  float* weights;    // exp(-distance); 0 for what is left out
  int64_t n;
  Candidate* room;
};

// The first largest logit of a row, a NaN where there is one; -1 where there is nothing to choose from.
inline int32_t best_of(const Row& row) {
  const int32_t best = static_cast<int32_t>(find_float<1>(row.logits, row.n));
  return row.logits[best] > -std::numeric_limits<float>::infinity() ? best : -1;
}

// Beyond 2^126 every token that may be chosen has the same weight, and infinity would give one to those that may not.
inline float bounded_temperature(float temperature) {
  constexpr float most = 0x1p126f;
  return temperature > most ? most : temperature;
}
inline void fill_weights(const Row& row, float top, float temperature) {
  const vf shift = splat(top);
  const vf divisor = splat(temperature);
  for (int64_t i = 0; i < row.n; i += W) {
    const int64_t left = std::min<int64_t>(W, row.n - i);
    const vf x = left == W ? load(row.logits + i) : load_partial(row.logits + i, left);
    const vf d = (shift - x) / divisor;
    const vf w = vexp_negative(-d);
    if (left == W) {
      store(row.distances + i, d);
      store(row.weights + i, w);
    } else {
      store_partial(row.distances + i, d, left);
      store_partial(row.weights + i, w, left);
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

inline double sum_of_weights(const Row& row) {
  double total = 0;
  for (int64_t i = 0; i < row.n; i += kSumBlock) {
    total += block_sum(row.weights + i, std::min(kSumBlock, row.n - i));
  }
  return total;
}

// The first token whose cumulative weight is above u * total. The sums of blocks lead to the block that holds it.
inline int32_t pick(const Row& row, double total, double u, int32_t best) {
  const double wanted = u * total;
  double sum = 0;
  int64_t result = best;
  for (int64_t i = 0; i < row.n; i += kSumBlock) {
    const int64_t end = std::min(row.n, i + kSumBlock);
    const double block = block_sum(row.weights + i, end - i);
    if (sum + block <= wanted && end < row.n) {
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

// Runs body(row, r, worker) for every row of logits [R, V], whose rows come as floats. `extra` bytes behind a row's room
// are the kernel's own: room.room + padded.
template <class Body>
inline int32_t each_row(const clika_call* call, const char* name, int64_t extra, const Body& body) {
  const clika_value& logits = call->inputs[0];
  const int64_t rows = logits.shape[0];
  const int64_t n = logits.shape[1];
  if (rows == 0) return CLIKA_OK;
  if (n == 0) return refuse(call, "%s: the rows of logits are empty", name);
  const int64_t padded = (n + 15) / 16 * 16;
  const int64_t room = padded * static_cast<int64_t>(3 * sizeof(float) + sizeof(Candidate)) + (extra + 63) / 64 * 64;
  const int64_t workers = std::min<int64_t>(rows, call->core->num_threads());
  const bool split = rows > 1 && workers == call->core->num_threads();
  char* scratch =
      static_cast<char*>(call->core->scratch(call, static_cast<size_t>(room * (split ? workers : 1))));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const LoadTile<float> loader = Tiles<float>::loader(logits.dtype);
  parallel(call, rows, split ? 1 : rows, [&](int64_t begin, int64_t end, int32_t worker) {
    float* copy = reinterpret_cast<float*>(scratch + worker * room);
    float* weights = copy + padded;
    float* distances = weights + padded;
    Candidate* candidates = reinterpret_cast<Candidate*>(distances + padded);
    for (int64_t r = begin; r < end; ++r) {
      const float* x = copy;
      if (logits.dtype == CLIKA_FLOAT32 && (logits.strides[1] == 1 || n == 1)) {
        x = data_of<float>(logits) + r * logits.strides[0];
      } else {
        loader(copy, logits.data, r * logits.strides[0], logits.strides[1], n);
      }
      body(Row{x, distances, weights, n, candidates}, r, static_cast<void*>(candidates + padded));
    }
  });
  return CLIKA_OK;
}
