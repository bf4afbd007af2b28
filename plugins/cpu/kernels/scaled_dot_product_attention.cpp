// scaled_dot_product_attention of float32, bfloat16 and float16; float64 stands in plain/.
//
// A tile of queries goes over the keys in blocks of 64 in ascending order and keeps for each row the running
// maximum, the sum of the weights and the weighted sum of the values. A row's result does not depend on the
// tile that it is in.
#include "level.hpp"
#include "elementwise.hpp"
#include "attention.hpp"
#include "math.hpp"
#include "heads.hpp"

constexpr int64_t kQueries = 48;  // of a tile: whole sets of the six rows that are multiplied at a time
constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Room {
  float* query;    // [kQueries][size]
  float* columns;  // [size][kBlock]
  float* scores;   // [kQueries][kBlock]
  float* values;   // [kBlock][width], copies
  float* sums;     // [kQueries][width]
  float* maximum;  // [kQueries]
  float* total;    // [kQueries]
};

struct Tile {
  const Heads& h;
  int64_t width;  // value_size, up to a multiple of W
  bool direct;    // rows of values can be read where they are
  LoadTile<float> load_query;
  LoadTile<float> load_value;
  StoreTile<float> store;

  explicit Tile(const Heads& heads) : h(heads) {
    width = (h.value_size + W - 1) / W * W;
    direct = h.value->dtype == CLIKA_FLOAT32 && h.value->strides[h.value->rank - 1] == 1;
    direct = direct && width == h.value_size;
    load_query = Tiles<float>::loader(h.query->dtype);
    load_value = Tiles<float>::loader(h.value->dtype);
    store = Tiles<float>::storer(h.out->dtype);
  }
  int64_t room() const {
    return kQueries * h.size + h.size * kBlock + kQueries * kBlock + kBlock * width + kQueries * width +
           2 * kQueries + 16;
  }
  Room take(float* memory) const {
    Room r;
    r.columns = memory;
    r.scores = r.columns + h.size * kBlock;
    r.values = r.scores + kQueries * kBlock;
    r.sums = r.values + kBlock * width;
    r.query = r.sums + kQueries * width;
    r.maximum = r.query + kQueries * h.size;
    r.total = r.maximum + kQueries;
    return r;
  }

  // Adds the mask to a row of scores.
  void add_mask(float* scores, int64_t index, int64_t row, int64_t base, int64_t n) const {
    const int64_t step = h.mask_step();
    const int64_t at = h.mask_row(index, row) + base * step;
    if (h.mask->dtype == CLIKA_BOOL) {
      const uint8_t* allowed = data_of<uint8_t>(*h.mask) + at;
      for (int64_t j = 0; j < n; ++j) scores[j] = allowed[j * step] != 0 ? scores[j] : kNone;
      return;
    }
    if (h.mask->dtype == CLIKA_FLOAT64) {
      const double* bias = data_of<double>(*h.mask) + at;
      for (int64_t j = 0; j < n; ++j) scores[j] += static_cast<float>(bias[j * step]);
      return;
    }
    float bias[kBlock];
    Tiles<float>::loader(h.mask->dtype)(bias, h.mask->data, at, step, n);
    for (int64_t j = 0; j < n; ++j) scores[j] += bias[j];
  }

  // Scores become weights; maximum and sum of the row go on.
  void weigh(float* scores, int64_t index, int64_t row, int64_t base, int64_t n, float* sums, float* maximum,
             float* total) const {
    const vf scale = splat(static_cast<float>(h.scale));
    const vf cap = splat(static_cast<float>(h.softcap));
    for (int64_t j = 0; j < n; j += W) {
      vf s = load(scores + j) * scale;
      if (h.softcap > 0.0) s = cap * vtanh(s / cap);
      store_scores(scores + j, s);
    }
    if (h.mask != nullptr) add_mask(scores, index, row, base, n);
    const int64_t seen = std::min(n, h.seen(row) - base);
    for (int64_t j = std::max<int64_t>(0, seen); j < (n + W - 1) / W * W; ++j) scores[j] = kNone;
    vf top = splat(kNone);
    for (int64_t j = 0; j < n; j += W) top = vmax(load(scores + j), top);
    const float before = *maximum;
    float highest = reduce_max(top);
    highest = highest > before ? highest : before;
    if (highest == kNone) highest = 0.0f;  // nothing seen yet, or NaN
    const float factor = before == highest ? 1.0f : exp_negative(before - highest);
    vf sum = zero();
    for (int64_t j = 0; j < n; j += W) {
      const vf weight = vexp_negative(load(scores + j) - splat(highest));
      store_scores(scores + j, weight);
      sum += weight;
    }
    *total = *total * factor + reduce_add(sum);
    *maximum = highest == 0.0f && before == kNone && !(reduce_add(sum) > 0.0f) ? kNone : highest;
    if (factor != 1.0f) {
      const vf f = splat(factor);
      for (int64_t e = 0; e < width; e += W) store_scores(sums + e, load(sums + e) * f);
    }
  }
  static CLIKA_INLINE void store_scores(float* p, vf x) { *reinterpret_cast<vf_any*>(p) = x; }

  template <class T>
  void find_keys(int64_t at, int64_t n, const T** rows) const {
    const int64_t step = h.key->strides[h.key->rank - 2];
    for (int64_t j = 0; j < n; ++j) rows[j] = data_of<T>(*h.key) + at + j * step;
  }

  // Queries from, from + 1, ... of product `index`.
  void run(int64_t index, int64_t from, const Room& r) const {
    const int64_t count = std::min(kQueries, h.length - from);
    const int64_t query = h.offset(*h.query, index, 1);
    const int64_t key = h.offset(*h.key, index, h.group);
    const int64_t value = h.offset(*h.value, index, h.group);
    const int64_t key_step = h.key->strides[h.key->rank - 2];
    const int64_t value_step = h.value->strides[h.value->rank - 2];
    const int64_t query_step = h.query->strides[h.query->rank - 2];
    for (int64_t i = 0; i < count; ++i) {
      load_query(r.query + i * h.size, h.query->data, query + (from + i) * query_step,
                 h.query->strides[h.query->rank - 1], h.size);
      r.maximum[i] = kNone;
      r.total[i] = 0.0f;
    }
    std::memset(r.sums, 0, static_cast<size_t>(count * width) * sizeof(float));
    const int64_t end = h.seen(from + count - 1);
    for (int64_t base = 0; base < end; base += kBlock) {
      const int64_t n = std::min(kBlock, h.positions - base);
      Ahead ahead;
      visit_float(h.key->dtype, [&](auto tag) {
        const decltype(tag)* rows[kBlock];
        find_keys(key + base * key_step, n, rows);
        keys_to_columns(rows, n, h.key->strides[h.key->rank - 1], h.size, r.columns, &ahead);
      });
      scores(r.query, h.size, count, r.columns, h.size, n, r.scores);
      for (int64_t i = 0; i < count; ++i) {
        weigh(r.scores + i * kBlock, index, from + i, base, n, r.sums + i * width, r.maximum + i,
              r.total + i);
      }
      const float* rows[kBlock];
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = value + (base + j) * value_step;
        rows[j] = direct ? data_of<float>(*h.value) + at : r.values + j * width;
        if (direct) continue;
        float* to = r.values + j * width;
        load_value(to, h.value->data, at, h.value->strides[h.value->rank - 1], h.value_size);
        for (int64_t e = h.value_size; e < width; ++e) to[e] = 0.0f;
      }
      add_values(r.scores, count, rows, 0, n, width, r.sums, width, &ahead);
    }
    for (int64_t i = 0; i < count; ++i) {
      const float by = r.total[i];
      float* sums = r.sums + i * width;
      const vf f = splat(by == 0.0f ? 0.0f : 1.0f / by);
      for (int64_t e = 0; e < width; e += W) store_scores(sums + e, load(sums + e) * f);
      store(sums, h.out->data, (index * h.length + from + i) * h.value_size, 1, h.value_size);
    }
  }
};

int32_t run(const clika_call* call) {
  if (scalar_float(call, 0, 0.0) != 0.0) {
    return refuse(call,
                  "scaled_dot_product_attention: dropout_p %g must be 0: nothing is dropped in inference",
                  scalar_float(call, 0, 0.0));
  }
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const Heads h(call);
  const Tile tile(h);
  const int64_t workers = call->core->num_threads();
  const int64_t room = (tile.room() + 15) / 16 * 16;
  float* memory = static_cast<float*>(
      call->core->scratch(call, static_cast<size_t>(workers * room) * sizeof(float)));
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t tiles = (h.length + kQueries - 1) / kQueries;
  const int64_t work = std::min(kQueries, h.length) * h.positions * (h.size + h.value_size);
  const int64_t grain = std::max<int64_t>(1, 262144 / std::max<int64_t>(1, work));
  parallel(call, h.count * tiles, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    const Room r = tile.take(memory + worker * room);
    for (int64_t i = begin; i < end; ++i) tile.run(i / tiles, i % tiles * kQueries, r);
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(scaled_dot_product_attention,
              Entry("scaled_dot_product_attention", run).in(FLOATS, FLOATS, FLOATS, FLOATS | F64 | BOOL)
                  .out(FLOATS).rank(2, CLIKA_MAX_RANK).parallel())
#include "level_end.hpp"
