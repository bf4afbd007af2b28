// Attention of packed query tokens over a paged cache of keys and values.
//
// A query row's positions are cut into absolute segments of 128 positions and those into blocks of 64. Within
// a segment the blocks are folded in ascending order into a running maximum, sum and weighted sum of values;
// the segments of a row are folded in ascending order too. This structure does not depend on how the work is
// split, so a row's result is the same to the bit for every batch, chunk, page size and thread count; a long
// decode may run its segments in parallel.
//
// In the fast mode, over pools of bfloat16 and where the machine multiplies pairs of them, queries and weights are rounded to
// bfloat16 too; sums stay float32.
#include "level.hpp"
#include "attention.hpp"
#include "attention_bfloat16.hpp"
#include "cached_rows.hpp"
#include "math.hpp"

constexpr int64_t kSegment = 128;
constexpr int64_t kRowsWanted = 21 * kTileRows;  // rows (tokens times the heads of a group) of a tile
constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Tile {
  int32_t sequence;
  int32_t first;     // token, counted over the whole batch
  int32_t count;     // tokens
  int32_t position;  // of the first token
};

struct Problem {
  const clika_value* query;
  const clika_value* keys;
  const clika_value* values;
  const int32_t* table;
  int64_t table_stride;
  const int32_t* lengths;
  int64_t heads;  // of keys and values
  int64_t group;  // query heads that share one
  int64_t size;   // of a key
  int64_t value_size;
  int64_t width;  // value_size, up to a multiple of W
  int64_t page;   // positions in a page of the pool
  int64_t window;
  bool causal;
  bool direct_values;      // value rows can be read where they are
  const PairTiles* pairs;  // where keys and values are multiplied as pairs of bfloat16
  float scale;
  float softcap;

  int64_t query_row() const { return pairs != nullptr ? size / 2 : size; }  // floats, or words
  int64_t low(int64_t position) const { return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0; }
  int64_t high(int64_t position, int64_t length) const { return causal ? position + 1 : length; }
};

// The state of the rows of a tile: [maximum, sum] and the weighted sums.
struct State {
  float* maximum;
  float* sum;
  float* values;  // [rows][width]
};

struct Worker {
  float* query;    // [heads][rows][size]
  float* columns;  // [size][kBlock]
  float* scores;   // [heads][rows][kBlock]
  float* copies;   // [kBlock][width], where values are not read in place
  State segment;
  State total;
};

int64_t worker_floats(const Problem& p, int64_t rows, int64_t heads) {
  const int64_t query = heads * rows * p.size;
  const int64_t copies = p.direct_values ? 0 : kBlock * p.width;
  const int64_t states = 2 * (2 * rows + rows * p.width);
  const int64_t total = query + p.size * kBlock + heads * rows * kBlock + copies + states;
  return (total + 16 * 12 + 15) / 16 * 16;  // each part starts on 64 bytes
}

float* take(float** from, int64_t n) {
  float* part = *from;
  *from += (n + 15) / 16 * 16;
  return part;
}

Worker make_worker(const Problem& p, int64_t rows, int64_t heads, float* memory) {
  Worker w;
  w.columns = take(&memory, p.size * kBlock);
  w.scores = take(&memory, heads * rows * kBlock);
  w.query = take(&memory, heads * rows * p.size);
  w.copies = p.direct_values ? nullptr : take(&memory, kBlock * p.width);
  for (State* s : {&w.segment, &w.total}) {
    s->maximum = take(&memory, rows);
    s->sum = take(&memory, rows);
    s->values = take(&memory, rows * p.width);
  }
  return w;
}

void clear(const State& s, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    s.maximum[r] = kNone;
    s.sum[r] = 0.0f;
  }
  std::memset(s.values, 0, static_cast<size_t>(rows * width) * sizeof(float));
}

CLIKA_INLINE void scale_values(float* values, int64_t width, float factor) {
  if (factor == 1.0f) return;
  const vf f = splat(factor);
  for (int64_t i = 0; i < width; i += W) store(values + i, load(values + i) * f);
}

void load_query(const Problem& p, const Tile& tile, int64_t head, float* out) {
  const clika_value& q = *p.query;
  visit_float(q.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t t = 0; t < tile.count; ++t) {
      for (int64_t g = 0; g < p.group; ++g) {
        const T* row = data_of<T>(q) + (tile.first + t) * q.strides[0] + (head * p.group + g) * q.strides[1];
        if (p.pairs != nullptr) {
          auto* const to = reinterpret_cast<bf16*>(out);
          int64_t d = 0;
          if (q.strides[2] == 1) {
            for (; d + W <= p.size; d += W) store(to + d, load(row + d));
          }
          for (; d < p.size; ++d) {
            const bf16 element = to_bf16(to_float(row[d * q.strides[2]]));
            std::memcpy(to + d, &element, sizeof(element));
          }
          out += p.query_row();
          continue;
        }
        if (q.dtype == CLIKA_FLOAT32 && q.strides[2] == 1) {
          std::memcpy(out, row, static_cast<size_t>(p.size) * sizeof(float));
        } else {
          for (int64_t d = 0; d < p.size; ++d) out[d] = to_float(row[d * q.strides[2]]);
        }
        out += p.size;
      }
    }
  });
}

// The rows of positions base + from .. base + n of one head in a pool. Those before are not read for their numbers, and
// their pages may be gone: the first row stands in for them.
template <class T>
void find_rows(const Problem& p, const clika_value& pool, int64_t sequence, int64_t head, int64_t base, int64_t from,
               int64_t n, const T** rows) {
  const int32_t* pages = p.table + sequence * p.table_stride;
  int64_t page = (base + from) / p.page;
  int64_t inside = (base + from) % p.page;
  const T* at = nullptr;
  for (int64_t j = from; j < n; ++j) {
    if (at == nullptr) {
      at = data_of<T>(pool) + pages[page] * pool.strides[0] + inside * pool.strides[1] +
           head * pool.strides[2];
    }
    rows[j] = at;
    at += pool.strides[1];
    if (++inside == p.page) {
      inside = 0;
      ++page;
      at = nullptr;
    }
  }
  std::fill(rows, rows + from, rows[from]);
}

// Calls f with a value of the type that a pool's rows are addressed in.
template <class F>
CLIKA_INLINE void visit_pool(const clika_value& pool, F&& f) {
  if (pool.dtype == CLIKA_UINT8) {
    f(q8_0{});
  } else if (pool.dtype == CLIKA_FLOAT8_E4M3) {
    f(e4m3{});
  } else {
    visit_float(pool.dtype, f);
  }
}

void load_keys(const Problem& p, int64_t sequence, int64_t head, int64_t base, int64_t from, int64_t n, float* columns,
               Ahead* ahead) {
  if (p.pairs != nullptr) {
    const bf16* rows[kBlock];
    find_rows(p, *p.keys, sequence, head, base, from, n, rows);
    keys_to_columns(reinterpret_cast<const float* const*>(rows), n, 1, p.query_row(), columns, ahead);
    return;
  }
  visit_pool(*p.keys, [&](auto tag) {
    using T = decltype(tag);
    const T* rows[kBlock];
    find_rows(p, *p.keys, sequence, head, base, from, n, rows);
    if constexpr (sizeof(T) == 1) {
      ahead->all();
      codes_to_columns(rows, n, p.size, columns, kBlock);
    } else {
      keys_to_columns(rows, n, p.keys->strides[3], p.size, columns, ahead);
    }
  });
}

template <class T>
CLIKA_INLINE void widen_row(const T* row, int64_t step, int64_t size, int64_t width, float* to) {
  int64_t e = 0;
  if (step == 1) {
    for (; e + W <= size; e += W) store(to + e, load(row + e));
  }
  for (; e < size; ++e) to[e] = to_float(row[e * step]);
  for (; e < width; ++e) to[e] = 0.0f;
}

void load_values(const Problem& p, int64_t sequence, int64_t head, int64_t base, int64_t from, int64_t n, float* copies,
                 const float** rows) {
  if (p.direct_values) {
    find_rows(p, *p.values, sequence, head, base, from, n, rows);
    return;
  }
  visit_pool(*p.values, [&](auto tag) {
    using T = decltype(tag);
    const T* held[kBlock];
    find_rows(p, *p.values, sequence, head, base, from, n, held);
    for (int64_t j = from; j < n; ++j) {
      float* to = copies + j * p.width;
      if constexpr (sizeof(T) == 1) {
        widen_row(held[j], p.value_size, to);
      } else {
        widen_row(held[j], p.values->strides[3], p.value_size, p.width, to);
      }
      rows[j] = to;
    }
  });
}

int64_t element_bytes(int32_t dtype) {
  return dtype == CLIKA_FLOAT32 ? 4 : dtype == CLIKA_UINT8 || dtype == CLIKA_FLOAT8_E4M3 ? 1 : 2;
}

// The rows of some heads at positions [from, to), as memory to ask for. None where they do not lie side by side: then
// the hardware finds them, later.
Ahead rows_ahead(const Problem& p, const clika_value& pool, int64_t sequence, int64_t head, int64_t heads, int64_t from,
                 int64_t to) {
  to = std::min(to, from / p.page * p.page + p.page);
  const bool whole = pool.strides[3] == 1 && (heads == 1 || pool.strides[2] == pool.shape[3]) &&
                     (to - from <= 1 || pool.strides[1] == heads * pool.shape[3]);
  if (!whole || to <= from) return {};
  const int64_t size = element_bytes(pool.dtype);
  const int64_t page = p.table[sequence * p.table_stride + from / p.page];
  const char* const at = data_of<char>(pool) + size * (page * pool.strides[0] + from % p.page * pool.strides[1] +
                                                       head * pool.strides[2]);
  return {at, at + size * (to - from) * heads * pool.shape[3]};
}

// Reads it at once. A byte of every line is loaded: that sets off the hardware's own reading ahead.
void fetch(const Ahead& rows) {
  uint32_t sum = 0;
  for (const char* at = rows.at; at < rows.end; at += 64) sum += static_cast<uint8_t>(*at);
  asm volatile("" : : "r"(sum));  // or the loads would not be made
}

// What a row sees of a block: positions [begin, end).
struct Seen {
  int64_t begin;
  int64_t end;

  bool nothing() const { return begin >= end; }
  int64_t written() const { return (end + W - 1) / W * W; }  // scores beyond are not computed
};

// Scales and caps a row's scores, hides what it does not see, and gives their maximum.
CLIKA_INLINE float finish_scores(const Problem& p, float* scores, const Seen& seen) {
  const vf scale = splat(p.scale);
  vf top = splat(kNone);
  vi lane;
  for (int i = 0; i < W; ++i) lane[i] = i;
  const vi first = splat_int(static_cast<int32_t>(seen.begin));
  const vi last = splat_int(static_cast<int32_t>(seen.end));
  const bool partial = seen.begin > 0 || seen.end < kBlock;
  for (int64_t j = 0; j < seen.written(); j += W) {
    vf s = load(scores + j) * scale;
    if (p.softcap > 0.0f) s = p.softcap * vtanh(s / p.softcap);
    if (partial) {
      const vi at = lane + static_cast<int32_t>(j);
      s = select((at >= first) & (at < last), s, splat(kNone));
    }
    top = vmax(s, top);
    store(scores + j, s);
  }
  return reduce_max(top);
}
// Turns a row's scores into weights and gives their sum.
CLIKA_INLINE float weigh(float* scores, const Seen& seen, float maximum) {
  vf sum = zero();
  const vf shift = splat(maximum);
  for (int64_t j = 0; j < seen.written(); j += W) {
    const vf weight = vexp_negative(load(scores + j) - shift);
    store(scores + j, weight);
    sum += weight;
  }
  return reduce_add(sum);
}

// Turns the scores of `count` <= W rows, each of which sees something, into weights and folds their maxima and sums
// into the state of the rows from `row` on: step by step for all of them, since the steps of one row wait for each
// other.
void weigh_rows(const Problem& p, float* scores, const Seen* seen, int64_t count, const State& state,
                int64_t row) {
  alignas(64) float highest[W] = {};
  alignas(64) float sums[W] = {};
  alignas(64) float factors[W];
  for (int64_t i = 0; i < count; ++i) highest[i] = finish_scores(p, scores + i * kBlock, seen[i]);
  const vf before = load_partial(state.maximum + row, count);
  const vf top = load(highest);
  vf maximum = select(top > before, top, before);
  // Nothing but NaN and -inf: the row becomes NaN, not a row of zeros.
  maximum = select(maximum == splat(kNone), zero(), maximum);
  const vf factor = select(before == maximum, splat(1.0f), vexp_negative(before - maximum));
  store(highest, maximum);
  store(factors, factor);
  for (int64_t i = 0; i < count; ++i) sums[i] = weigh(scores + i * kBlock, seen[i], highest[i]);
  store_partial(state.maximum + row, maximum, count);
  store_partial(state.sum + row, load_partial(state.sum + row, count) * factor + load(sums), count);
  for (int64_t i = 0; i < count; ++i) scale_values(state.values + (row + i) * p.width, p.width, factors[i]);
}

// What a tile sees of a block: the rows (tokens times heads of a group) that see something, and positions.
struct Block {
  int64_t base;  // its first position
  int64_t first_row = 0;
  int64_t last_row = 0;
  int64_t from = 0;  // counted from base
  int64_t to = 0;

  Block(const Problem& p, const Tile& tile, int64_t base) : base(base) {
    const int64_t length = p.lengths[tile.sequence];
    const int64_t n = std::min(kBlock, length - base);
    // The bounds of what a token sees only ever rise.
    int64_t begin = 0;
    int64_t end = tile.count;
    while (begin < end && p.high(tile.position + begin, length) <= base) ++begin;
    while (end > begin && p.low(tile.position + end - 1) >= base + n) --end;
    if (begin == end) return;
    first_row = begin * p.group;
    last_row = end * p.group;
    from = std::max<int64_t>(0, p.low(tile.position + begin) - base);
    to = std::min(n, p.high(tile.position + end - 1, length) - base);
  }
  bool nothing() const { return first_row == last_row; }
  // The last position that one of the rows from `row` on sees, a few at a time: what is hidden costs nothing.
  int64_t seen_by(const Problem& p, const Tile& tile, int64_t row) const {
    const int64_t position = tile.position + (std::min(row + kTileRows, last_row) - 1) / p.group;
    return std::min(to, p.high(position, p.lengths[tile.sequence]) - base);
  }
};

// Turns the keys of a block into weights [rows][kBlock], and folds their maxima and sums into the state of the rows.
void weigh_keys(const Problem& p, const Tile& tile, int64_t head, const Block& block, const float* query,
                const State& state, float* columns, float* weights, Ahead* ahead) {
  const int64_t length = p.lengths[tile.sequence];
  const int64_t base = block.base;
  const int64_t last_row = block.last_row;
  load_keys(p, tile.sequence, head, base, block.from, block.to, columns, ahead);
  const int64_t size = p.query_row();
  const auto multiply = p.pairs != nullptr ? p.pairs->scores : scores;
  for (int64_t r = block.first_row; r < last_row; r += kTileRows) {
    multiply(query + r * size, size, std::min<int64_t>(kTileRows, last_row - r), columns, size,
             block.seen_by(p, tile, r), weights + r * kBlock);
  }
  for (int64_t r = block.first_row; r < last_row;) {
    Seen seen[W];
    int64_t count = 0;
    while (count < W && r + count < last_row) {
      const int64_t position = tile.position + (r + count) / p.group;
      Seen& row = seen[count];
      row = {std::max<int64_t>(0, p.low(position) - base), std::min(block.to, p.high(position, length) - base)};
      if (row.nothing()) break;
      ++count;
    }
    if (count > 0) weigh_rows(p, weights + r * kBlock, seen, count, state, r);
    // A row that sees less than its neighbours, or nothing, weighs the rest with 0.
    const int64_t stop = std::min(last_row, r + std::max<int64_t>(1, count));
    for (int64_t i = 0; r < stop; ++i, ++r) {
      for (int64_t j = i < count ? seen[i].written() : 0; j < (block.to + W - 1) / W * W; ++j) {
        weights[r * kBlock + j] = 0.0f;
      }
    }
  }
  if (p.pairs != nullptr) {
    p.pairs->narrow(weights + block.first_row * kBlock, kBlock, last_row - block.first_row, (block.to + W - 1) / W * W);
  }
}

// Adds the weighted values of a block to the state of the rows, two positions at a time. Those that no row sees are zero.
void add_pairs(const Problem& p, const Tile& tile, int64_t head, const Block& block, const float* weights,
               const State& state, float* copies, Ahead* ahead) {
  const bf16* rows[kBlock + 1] = {};
  find_rows(p, *p.values, tile.sequence, head, block.base, block.from, block.to, rows);
  const int64_t first = block.from / 2;
  if (block.from % 2 != 0) rows[block.from - 1] = nullptr;
  for (int64_t pair = first; 2 * pair < block.to; ++pair) {
    p.pairs->join(rows[2 * pair], rows[2 * pair + 1], p.value_size, p.width, copies + pair * p.width);
    ahead->step();
  }
  for (int64_t r = block.first_row; r < block.last_row; r += kTileRows) {
    p.pairs->add_values(weights + r * kBlock, std::min<int64_t>(kTileRows, block.last_row - r), copies, first,
                        (block.seen_by(p, tile, r) + 1) / 2, p.width, state.values + r * p.width, p.width);
  }
}

// Adds the weighted values of a block to the state of the rows.
void add_block(const Problem& p, const Tile& tile, int64_t head, const Block& block, const float* weights,
               const State& state, float* copies, Ahead* ahead) {
  if (p.pairs != nullptr) return add_pairs(p, tile, head, block, weights, state, copies, ahead);
  const float* values[kBlock];
  load_values(p, tile.sequence, head, block.base, block.from, block.to, copies, values);
  for (int64_t r = block.first_row; r < block.last_row; r += kTileRows) {
    add_values(weights + r * kBlock, std::min<int64_t>(kTileRows, block.last_row - r), values, block.from,
               block.seen_by(p, tile, r), p.width, state.values + r * p.width, p.width, ahead);
  }
}

// The positions of a segment that a tile sees, from the start of a block on.
struct Span {
  int64_t from;
  int64_t to;
};
Span span_of(const Problem& p, const Tile& tile, int64_t segment) {
  const int64_t length = p.lengths[tile.sequence];
  const int64_t last = tile.position + tile.count - 1;
  return {std::max(segment * kSegment, p.low(tile.position) / kBlock * kBlock),
          std::min({(segment + 1) * kSegment, length, p.high(last, length)})};
}

// total = total and then part, row by row.
void fold(const State& total, const State& part, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r += W) {
    const int64_t count = std::min<int64_t>(W, rows - r);
    const vf before = load_partial(total.maximum + r, count);
    const vf after = load_partial(part.maximum + r, count);
    const vf maximum = select(before < after, after, before);
    const vf a = vexp_negative(before - maximum);
    const vf b = vexp_negative(after - maximum);
    for (int64_t i = 0; i < count; ++i) {
      if (after[i] == kNone) continue;
      float* to = total.values + (r + i) * width;
      const float* from = part.values + (r + i) * width;
      total.maximum[r + i] = maximum[i];
      if (before[i] == kNone) {
        total.sum[r + i] = part.sum[r + i];
        std::memcpy(to, from, static_cast<size_t>(width) * sizeof(float));
        continue;
      }
      total.sum[r + i] = total.sum[r + i] * a[i] + part.sum[r + i] * b[i];
      const vf va = splat(a[i]);
      const vf vb = splat(b[i]);
      for (int64_t e = 0; e < width; e += W) store(to + e, fma(load(to + e), va, load(from + e) * vb));
    }
  }
}

void finish(const Problem& p, const Tile& tile, int64_t head, const State& total, const clika_value* sinks,
            clika_value& out) {
  visit_float(out.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t t = 0; t < tile.count; ++t) {
      for (int64_t g = 0; g < p.group; ++g) {
        const int64_t row = t * p.group + g;
        const int64_t query_head = head * p.group + g;
        T* to = data_of<T>(out) + ((tile.first + t) * p.heads * p.group + query_head) * p.value_size;
        float sum = total.sum[row];
        float factor = 1.0f;
        if (sinks != nullptr && total.maximum[row] != kNone) {
          float sink = 0.0f;
          visit_float(sinks->dtype, [&](auto sink_tag) {
            sink = to_float(data_of<decltype(sink_tag)>(*sinks)[query_head * sinks->strides[0]]);
          });
          const float maximum = std::max(total.maximum[row], sink);
          factor = exp_negative(total.maximum[row] - maximum);
          sum = sum * factor + exp_negative(sink - maximum);
        }
        const float inverse = total.maximum[row] == kNone ? 0.0f : factor / sum;
        const float* from = total.values + row * p.width;
        const vf scale = splat(inverse);
        int64_t e = 0;
        for (; e + W <= p.value_size; e += W) store(to + e, load(from + e) * scale);
        if (e < p.value_size) store_partial(to + e, load(from + e) * scale, p.value_size - e);
      }
    }
  });
}

// The work of a call: tiles of tokens, and what bounds them.
struct Work {
  Tile* tiles;
  int64_t count = 0;     // tiles
  int64_t rows = 1;      // of the largest tile
  int64_t first = 0;     // segment that some row sees
  int64_t segments = 0;  // from the first to the last one
  int64_t longest = 0;   // sequence
};

// Whether pools hold what is multiplied in pairs. Keys are read as words of two elements, values one by one.
bool in_pairs(const clika_value& keys, const clika_value& values) {
  const bool words = keys.shape[3] % 2 == 0 && keys.strides[0] % 2 == 0 && keys.strides[1] % 2 == 0 &&
                     keys.strides[2] % 2 == 0 && reinterpret_cast<uintptr_t>(keys.data) % 4 == 0;
  return keys.dtype == CLIKA_BFLOAT16 && values.dtype == CLIKA_BFLOAT16 && keys.strides[3] == 1 &&
         values.strides[3] == 1 && words;
}

Problem read_problem(const clika_call* call) {
  const clika_value& query = call->inputs[0];
  const clika_value& keys = call->inputs[1];
  const clika_value& values = call->inputs[2];
  Problem p;
  p.query = &query;
  p.keys = &keys;
  p.values = &values;
  p.table = data_of<int32_t>(call->inputs[3]);
  p.table_stride = call->inputs[3].strides[0];
  p.lengths = data_of<int32_t>(call->inputs[5]);
  p.heads = keys.shape[2];
  p.group = query.shape[1] / p.heads;
  p.size = query.shape[2];
  p.value_size = values.dtype == CLIKA_UINT8 ? values.shape[3] / kCodeBytes * kCodes : values.shape[3];
  p.width = (p.value_size + W - 1) / W * W;
  p.page = keys.shape[1];
  p.causal = attr_int(call, 0, 1) != 0;
  p.window = attr_int(call, 1, 0);
  p.pairs = attr_int(call, 2, 0) != 0 && in_pairs(keys, values) ? pair_tiles() : nullptr;
  p.direct_values = values.dtype == CLIKA_FLOAT32 && values.strides[3] == 1 && p.width == p.value_size;
  p.scale = static_cast<float>(scalar_float(call, 0, 1.0));
  p.softcap = static_cast<float>(scalar_float(call, 1, 0.0));
  return p;
}

// The pages that a sequence's new tokens may read are addresses: each must lie in the pool.
int32_t check_pages(const clika_call* call, const Problem& p, int64_t sequence, int64_t count,
                    int64_t length) {
  const int64_t pages = (length + p.page - 1) / p.page;
  for (int64_t i = p.low(length - count) / p.page; i < pages; ++i) {
    const int32_t id = p.table[sequence * p.table_stride + i];
    if (id >= 0 && id < p.keys->shape[0]) continue;
    return refuse(call, "paged_attention: block_table names block %d, outside the pool of %lld blocks", id,
                  static_cast<long long>(p.keys->shape[0]));
  }
  return CLIKA_OK;
}

// Cuts the batch into tiles and checks lengths and tables on the way.
int32_t plan(const clika_call* call, const Problem& p, Work* work) {
  const clika_value& table = call->inputs[3];
  const int32_t* start = data_of<int32_t>(call->inputs[4]);
  const int64_t tokens = p.query->shape[0];
  const int64_t batch = table.shape[0];
  const int64_t tile_tokens = std::max<int64_t>(1, kRowsWanted / p.group);
  const int64_t most = tokens / tile_tokens + batch + 1;
  work->tiles = static_cast<Tile*>(call->core->scratch(call, static_cast<size_t>(most) * sizeof(Tile)));
  if (work->tiles == nullptr) return CLIKA_UNAVAILABLE;
  if (start[0] != 0 || start[batch] < 0 || start[batch] > tokens) {
    return refuse(call,
                  "paged_attention: cu_seqlens runs from %d to %d; it must start with 0 and end within the "
                  "%lld tokens of query",
                  start[0], start[batch], static_cast<long long>(tokens));
  }
  int64_t first = std::numeric_limits<int64_t>::max();
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t count = static_cast<int64_t>(start[b + 1]) - start[b];
    const int64_t length = p.lengths[b];
    if (count < 0 || start[b + 1] > tokens) {
      return refuse(call, "paged_attention: cu_seqlens must ascend, and has %d before %d", start[b],
                    start[b + 1]);
    }
    if (count == 0) continue;
    if (length < count || length > table.shape[1] * p.page) {
      return refuse(call,
                    "paged_attention: kv_lens[%lld] is %lld; it must be from %lld (the new tokens) to %lld "
                    "(what the row of block_table holds)",
                    static_cast<long long>(b), static_cast<long long>(length), static_cast<long long>(count),
                    static_cast<long long>(table.shape[1] * p.page));
    }
    const int32_t status = check_pages(call, p, b, count, length);
    if (status != CLIKA_OK) return status;
    work->longest = std::max(work->longest, length);
    first = std::min(first, p.low(length - count) / kSegment);
    for (int64_t t = 0; t < count; t += tile_tokens) {
      Tile& tile = work->tiles[work->count++];
      tile.sequence = static_cast<int32_t>(b);
      tile.first = static_cast<int32_t>(start[b] + t);
      tile.count = static_cast<int32_t>(std::min(tile_tokens, count - t));
      tile.position = static_cast<int32_t>(length - count + t);
      work->rows = std::max(work->rows, tile.count * p.group);
    }
  }
  if (work->count > 0) {
    work->first = first;
    work->segments = (work->longest + kSegment - 1) / kSegment - first;
  }
  return CLIKA_OK;
}

float* floats(const clika_call* call, int64_t n) {
  return static_cast<float*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(float)));
}

// Many rows: a task is a tile and a head and runs all its segments.
int32_t run_tiles(const clika_call* call, const Problem& p, const Work& work, const clika_value* sinks) {
  const int64_t room = worker_floats(p, work.rows, 1);
  float* memory = floats(call, room * call->core->num_threads());
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t tasks = work.count * p.heads;
  parallel(call, tasks, 1, [&](int64_t begin, int64_t end, int32_t worker) {
    const Worker w = make_worker(p, work.rows, 1, memory + worker * room);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t task = tasks - 1 - i;  // the longest first
      const Tile& tile = work.tiles[task / p.heads];
      const int64_t head = task % p.heads;
      const int64_t rows = tile.count * p.group;
      const int64_t length = p.lengths[tile.sequence];
      const int64_t to = std::min(length, p.high(tile.position + tile.count - 1, length));
      load_query(p, tile, head, w.query);
      clear(w.total, rows, p.width);
      for (int64_t s = p.low(tile.position) / kSegment; s * kSegment < to; ++s) {
        clear(w.segment, rows, p.width);
        const Span span = span_of(p, tile, s);
        for (int64_t base = span.from; base < span.to; base += kBlock) {
          const Block block(p, tile, base);
          if (block.nothing()) continue;
          Ahead ahead;
          weigh_keys(p, tile, head, block, w.query, w.segment, w.columns, w.scores, &ahead);
          add_block(p, tile, head, block, w.scores, w.segment, w.copies, &ahead);
        }
        fold(w.total, w.segment, rows, p.width);
      }
      finish(p, tile, head, w.total, sinks, call->outputs[0]);
    }
  });
  return CLIKA_OK;
}

int64_t state_floats(const Problem& p, const Work& work) { return work.rows * (p.width + 2) + 48; }

// Few rows over a cache, as in decode: a task is a tile, a segment and some heads, and the segments are
// folded afterwards in the same order. The heads take turns within a block, since their keys lie side by side
// in memory.
struct Segments {
  const Problem& p;
  const Work& work;
  float* states;       // [tiles][segments][heads]
  int64_t state_room;  // floats of one

  State state(int64_t tile, int64_t segment, int64_t head) const {
    float* at = states + ((tile * work.segments + segment) * p.heads + head) * state_room;
    State s;
    s.maximum = take(&at, work.rows);
    s.sum = take(&at, work.rows);
    s.values = at;
    return s;
  }

  void run(int64_t index, int64_t segment, int64_t first_head, int64_t last_head, const Worker& w) const {
    const Tile& tile = work.tiles[index];
    const int64_t tile_rows = tile.count * p.group;
    const int64_t length = p.lengths[tile.sequence];
    for (int64_t h = first_head; h < last_head; ++h) {
      load_query(p, tile, h, w.query + (h - first_head) * tile_rows * p.query_row());
      clear(state(index, segment, h), tile_rows, p.width);
    }
    // Values come into the caches while keys are computed with, and the next block's keys meanwhile.
    const Span span = span_of(p, tile, work.first + segment);
    const int64_t heads = last_head - first_head;
    const int64_t low = p.low(tile.position);
    const auto rows = [&](const clika_value& pool, int64_t base) {
      return rows_ahead(p, pool, tile.sequence, first_head, heads, std::max(base, low), std::min(length, base + kBlock));
    };
    fetch(rows(*p.keys, span.from));
    for (int64_t base = span.from; base < span.to; base += kBlock) {
      const Block block(p, tile, base);
      Ahead ahead = rows(*p.values, base);
      for (int64_t i = 0; i < heads && !block.nothing(); ++i) {
        const float* query = w.query + i * tile_rows * p.query_row();
        weigh_keys(p, tile, first_head + i, block, query, state(index, segment, first_head + i), w.columns,
                   w.scores + i * tile_rows * kBlock, &ahead);
      }
      ahead = rows(*p.keys, base + kBlock);
      for (int64_t i = 0; i < heads && !block.nothing(); ++i) {
        add_block(p, tile, first_head + i, block, w.scores + i * tile_rows * kBlock,
                  state(index, segment, first_head + i), w.copies, &ahead);
      }
    }
  }

  void finish_head(int64_t index, int64_t head, const clika_value* sinks, clika_value& out,
                   const Worker& w) const {
    const Tile& tile = work.tiles[index];
    const int64_t rows = tile.count * p.group;
    clear(w.total, rows, p.width);
    for (int64_t s = 0; s < work.segments; ++s) fold(w.total, state(index, s, head), rows, p.width);
    finish(p, tile, head, w.total, sinks, out);
  }
};

int32_t run_segments(const clika_call* call, const Problem& p, const Work& work, const clika_value* sinks) {
  const int64_t workers = call->core->num_threads();
  const int64_t pieces = work.count * work.segments;
  // All heads of a segment belong to one task where that leaves enough tasks, else each is one.
  const int64_t heads = pieces >= 2 * workers || workers == 1 ? p.heads : 1;
  const int64_t groups = p.heads / heads;
  const int64_t room = worker_floats(p, work.rows, heads);
  const int64_t state_room = state_floats(p, work);
  float* memory = floats(call, room * workers);
  float* states = floats(call, pieces * p.heads * state_room);
  if (memory == nullptr || states == nullptr) return CLIKA_UNAVAILABLE;
  const Segments all = {p, work, states, state_room};
  // Little work stays on the caller: a region costs microseconds.
  const int64_t cost = work.count * work.rows * p.heads * work.longest * (p.size + p.value_size);
  const bool alone = cost < 150000;
  parallel(call, pieces * groups, alone ? pieces * groups : 1,
           [&](int64_t begin, int64_t end, int32_t worker) {
             const Worker w = make_worker(p, work.rows, heads, memory + worker * room);
             for (int64_t i = begin; i < end; ++i) {
               const int64_t piece = i / groups;
               const int64_t head = i % groups * heads;
               all.run(piece / work.segments, piece % work.segments, head, head + heads, w);
             }
           });
  const int64_t results = work.count * p.heads;
  parallel(call, results, alone ? results : 16, [&](int64_t begin, int64_t end, int32_t worker) {
    const Worker w = make_worker(p, work.rows, heads, memory + worker * room);
    for (int64_t i = begin; i < end; ++i) {
      all.finish_head(i / p.heads, i % p.heads, sinks, call->outputs[0], w);
    }
  });
  return CLIKA_OK;
}

// query, key_pool, value_pool, block_table, cu_seqlens, kv_lens, sinks?; attrs causal, window, mode; scalars
// scale, softcap.
int32_t run(const clika_call* call) {
  const clika_value& query = call->inputs[0];
  const clika_value& table = call->inputs[3];
  const clika_value& starts = call->inputs[4];
  const clika_value& lengths = call->inputs[5];
  clika_value& out = call->outputs[0];
  if (query.shape[0] == 0 || query.shape[1] == 0) return CLIKA_OK;
  const bool packed = (table.shape[1] <= 1 || table.strides[1] == 1) &&
                      (lengths.shape[0] <= 1 || lengths.strides[0] == 1) && starts.strides[0] == 1;
  if (!packed) {
    return refuse(call,
                  "paged_attention: block_table, cu_seqlens and kv_lens must be contiguous; call "
                  ".contiguous() on them");
  }
  for (const clika_value* pool : {&call->inputs[1], &call->inputs[2]}) {
    if (element_bytes(pool->dtype) > 1 || pool->strides[3] == 1) continue;
    return refuse(call, "paged_attention: the bytes of a row of a pool must lie side by side, found a stride of %lld",
                  static_cast<long long>(pool->strides[3]));
  }
  const Problem p = read_problem(call);
  Work work;
  const int32_t status = plan(call, p, &work);
  if (status != CLIKA_OK) return status;
  // Tokens behind the last sequence (a plan may pad) get zeros.
  const int64_t used = data_of<int32_t>(starts)[table.shape[0]];
  const int64_t row_bytes = query.shape[1] * p.value_size * (out.dtype == CLIKA_FLOAT32 ? 4 : 2);
  std::memset(data_of<char>(out) + used * row_bytes, 0,
              static_cast<size_t>((query.shape[0] - used) * row_bytes));
  if (work.count == 0) return CLIKA_OK;

  const clika_value* sinks = present(call, 6) ? &call->inputs[6] : nullptr;
  const int64_t state_total = work.count * work.segments * p.heads * state_floats(p, work);
  const bool few = work.rows <= std::max<int64_t>(16, p.group) && state_total < (int64_t{4} << 20);
  return few ? run_segments(call, p, work, sinks) : run_tiles(call, p, work, sinks);
}

CLIKA_KERNELS(paged_attention,
              Entry("paged_attention", run).in(FLOATS, POOLS, POOLS, I32, I32, I32, FLOATS).out(FLOATS)
                  .parallel())
#include "level_end.hpp"
