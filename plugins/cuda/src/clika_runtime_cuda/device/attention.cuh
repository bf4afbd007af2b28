// What the kernels of attention share: what a token sees, the work of a launch, results of splits and their join.
#pragma once

#include "attention_arguments.cuh"
#include "tensor_cores.cuh"

constexpr float kLog2e = 1.4426950408889634f;

// Positions [low, high) of a sequence; sequence -1: the token belongs to none.
struct Seen {
  int sequence, low, high;
};

CLIKA_INLINE int clamp_to(i64 x, i64 low, i64 high) { return static_cast<int>(x < low ? low : x > high ? high : x); }

// Positions of a sequence that the table has room for: its new tokens at least.
CLIKA_INLINE int checked_length(const Attention& a, int length, i64 tokens) {
  const i64 room = static_cast<i64>(a.pages) * a.page;
  if (length < 0 || length > room) {
    report(a.reporter.to, kIndexOutside, a.reporter.op, length, room + 1);
  } else if (length < tokens) {
    report(a.reporter.to, kRefusedValue, a.reporter.op, 0, 0);
  }
  return clamp_to(length, 0, room);
}
// cu_seqlens has to start with 0, ascend, and end within the tokens.
CLIKA_INLINE void check_bounds(const Attention& a, i64 sequence, i64 first, i64 end) {
  if (first > end || end > a.tokens || (sequence == 0 && first != 0)) {
    report(a.reporter.to, kRefusedValue, a.reporter.op, 0, 0);
  }
}
CLIKA_INLINE int low_of(const Attention& a, int position) {
  return a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
}
CLIKA_INLINE int high_of(const Attention& a, int position, int length) {
  const int high = a.causal != 0 && position + 1 < length ? position + 1 : length;
  return high < 0 ? 0 : high;
}

CLIKA_INLINE int first_token(const Attention& a, i64 sequence) { return a.cu_seqlens[sequence * a.cu_step]; }

// The last sequence that starts at the token or before it.
CLIKA_INLINE int sequence_of(const Attention& a, i64 token) {
  int low = -1, high = a.sequences;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (first_token(a, middle) <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low < a.sequences ? low : -1;
}
CLIKA_INLINE Seen seen_by(const Attention& a, i64 token) {
  if (a.sequences == 0) return {-1, 0, 0};
  // Often a token's sequence has its own number: all that is needed then is read at once.
  const i64 likely = token < a.sequences ? token : a.sequences - 1;
  i64 first = first_token(a, likely), end = first_token(a, likely + 1);
  int length = a.kv_lens[likely * a.length_step];
  int sequence = static_cast<int>(likely);
  check_bounds(a, likely, first, end);
  if (first > token || token >= end) {
    sequence = sequence_of(a, token);
    if (sequence < 0) return {-1, 0, 0};
    first = first_token(a, sequence);
    end = first_token(a, sequence + 1);
    if (token >= end) return {-1, 0, 0};  // they do not ascend
    length = a.kv_lens[sequence * a.length_step];
  }
  length = checked_length(a, length, end - first);
  const int position = static_cast<int>(length - (end - token));
  return {sequence, low_of(a, position), high_of(a, position, length)};
}
CLIKA_INLINE int splits_of(const Attention& a, const Seen& s) {
  return s.high <= s.low ? 1 : ((s.high - 1) >> a.span_log2) - (s.low >> a.span_log2) + 1;
}

// ---------------------------------------------------------------- the work of a launch
// Blocks x: sets of query heads, y: tokens, z: splits. What a block has to do beyond its own place in the grid lies a grid
// further on.
struct Item {
  Seen seen;
  i64 token;
  int split, splits;  // counted from the first that the token sees
  int unit;           // the set of heads
  int kv_head, head;  // `head` is the first of `rows` query heads
  int rows;
  int from, to;

  CLIKA_INLINE void set_heads(const Attention& a, int which) {
    unit = which;
    kv_head = a.row_groups == 1 ? unit : unit / a.row_groups;
    const int first = (unit - kv_head * a.row_groups) * a.rows;
    head = kv_head * a.group + first;
    rows = a.group - first < a.rows ? a.group - first : a.rows;
  }
  CLIKA_INLINE void set_token(const Attention& a) {
    seen = seen_by(a, token);
    splits = splits_of(a, seen);
  }
  CLIKA_INLINE void set_span(const Attention& a) {
    const int span = 1 << a.span_log2, start = ((seen.low >> a.span_log2) + split) << a.span_log2;
    from = start > seen.low ? start : seen.low;
    to = seen.high - start > span ? start + span : seen.high;
  }
};
// A unit's number among those of all tokens.
CLIKA_INLINE i64 unit_of(const Attention& a, const Item& i) { return i.token * a.kv_heads * a.row_groups + i.unit; }

// ---------------------------------------------------------------- rows of pools
struct Place {
  int block, within;  // within -1: no row
};
// As the table says it: whether the block is one of the pool is seen to by `checked`.
CLIKA_INLINE Place place_of(const Attention& a, int sequence, int position, int from, int to) {
  if (position < from || position >= to) return {0, -1};
  if (a.table == nullptr) return {sequence, position};
  const int page = static_cast<int>(static_cast<u32>(position) / static_cast<u32>(a.page));
  return {a.table[sequence * a.table_row + page * a.table_step], position - page * a.page};
}
CLIKA_INLINE Place checked(const Attention& a, Place p) {
  if (p.within < 0 || static_cast<u32>(p.block) < static_cast<u32>(a.blocks)) return p;
  report(a.reporter.to, kIndexOutside, a.reporter.op, p.block, a.blocks);
  return {0, -1};
}

// Where a position's rows of the first key head start.
struct alignas(16) RowOffsets {
  i64 key, value;  // key -1: no row
};
CLIKA_INLINE RowOffsets offsets_of(const Attention& a, Place place) {
  const Place p = checked(a, place);
  if (p.within < 0) return {-1, -1};
  return {p.block * a.key_block + p.within * a.key_position, p.block * a.value_block + p.within * a.value_position};
}

// ---------------------------------------------------------------- what other blocks wrote
#if !defined(CLIKA_EMULATED)
// Adds one. What this block wrote before, up to a __syncthreads, is seen by whoever counts later; what those that counted
// before wrote is seen by this block, from the next __syncthreads on.
CLIKA_INLINE u32 count_up(u32* count) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
}
template <class T>
CLIKA_INLINE T load_fresh(const T* p) {
  T x;
  static_assert(sizeof(T) == 8 || sizeof(T) == 16, "two or four floats");
  auto* to = reinterpret_cast<float*>(&x);
  if constexpr (sizeof(T) == 8) {
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "l"(p) : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "l"(p)
                 : "memory");
  }
  return x;
}
#else
CLIKA_INLINE u32 count_up(u32* count) { return atomicAdd(count, 1u); }
template <class T>
CLIKA_INLINE T load_fresh(const T* p) {
  return *p;
}
#endif

// ---------------------------------------------------------------- results
// 2^(x - y) where both may be minus infinity.
CLIKA_INLINE float weight_of(float x, float y) { return x == y ? 1.0f : exp2f(x - y); }
// Scores are in units of log 2.
CLIKA_INLINE float score_of(const Attention& a, float product) {
  if (a.softcap != 0.0f) return a.softcap * kLog2e * tanhf(product * a.scale);
  return product * (a.scale * kLog2e);
}
// The same for weights of 16 bits, with a softcap: tanh x = 1 - 2 / (1 + e^2x), to some 2^-22 of 1.
CLIKA_INLINE float capped_score_of(const Attention& a, float product) {
  return a.softcap * kLog2e * (1.0f - __fdividef(2.0f, 1.0f + exp2_of(product * (2.0f * kLog2e * a.scale))));
}
// What a row's weighted sums are multiplied with, from its maximum and the sum of its weights.
CLIKA_INLINE float factor_of(const Attention& a, int head, float top, float sum) {
  if (a.sinks != nullptr) {
    const char* sink = static_cast<const char*>(a.sinks) + head * a.sink_step * bytes_of(a.sink_dtype);
    sum += exp2f(load<float>(sink, a.sink_dtype) * kLog2e - top);
  }
  return sum > 0.0f && top != -CLIKA_INFINITY ? reciprocal_of(sum) : sum != sum ? sum : 0.0f;
}
CLIKA_INLINE i64 part_of(const Attention& a, const Item& i, int row) {
  return (unit_of(a, i) * a.most_splits + i.split) * a.rows + row;
}

struct alignas(16) Sums4 {
  float x[4];
};
struct alignas(8) RowState {
  float top, sum;
};

// Joins the splits of a unit in their order; the whole block takes part. `write` gets a row, a column and four results.
template <class Write>
CLIKA_INLINE void join_parts(const Attention& a, const Item& i, const Write& write) {
  constexpr int kAhead = 8;  // splits that are read at a time
  const int columns = a.part_row / 4;
  for (int at = threadIdx.x; at < i.rows * columns; at += blockDim.x) {
    const int row = at / columns, column = 4 * (at - row * columns);
    const i64 first = unit_of(a, i) * a.most_splits * a.rows + row;
    float top = -CLIKA_INFINITY, sum = 0.0f;
    Sums4 total = {};
    for (int from = 0; from < i.splits; from += kAhead) {
      RowState state[kAhead];
      Sums4 part[kAhead];
      float higher = top;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        state[k] = {-CLIKA_INFINITY, 0.0f};
        part[k] = {};
        if (from + k >= i.splits) continue;
        const i64 place = first + static_cast<i64>(from + k) * a.rows;
        state[k] = load_fresh(reinterpret_cast<const RowState*>(a.part_states) + place);
        part[k] = load_fresh(reinterpret_cast<const Sums4*>(a.parts + place * a.part_row + column));
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) higher = fmaxf(higher, state[k].top);
      const float base = higher == -CLIKA_INFINITY ? 0.0f : higher, before = exp2_of(top - base);
      sum *= before;
      for (float& x : total.x) x *= before;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const float weight = exp2_of(state[k].top - base);
        sum += state[k].sum * weight;
        for (int e = 0; e < 4; ++e) total.x[e] += part[k].x[e] * weight;
      }
      top = higher;
    }
    const float factor = factor_of(a, i.head + row, top, sum);
    for (float& x : total.x) x *= factor;
    write(row, column, total);
  }
}

// How many splits of a unit are done. Launches on one stream follow each other, so they share it.
static __device__ u32 arrived[kMostUnits];

// After a block has written its part of a unit: the block that comes last joins all of them, and sets the count back.
template <class Write>
CLIKA_INLINE void arrive(const Attention& a, const Item& i, const Write& write) {
  if (a.joins == 0) return;
  __shared__ int is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32* count = arrived + unit_of(a, i);
    is_last = count_up(count) + 1u == static_cast<u32>(i.splits);
    if (is_last != 0) *count = 0;
  }
  __syncthreads();
  if (is_last != 0) join_parts(a, i, write);
}
