// What the kernels of attention share: what a token sees, the work of a launch, results of splits and their join.
#pragma once

#include "attention_arguments.cuh"
#include "prelude.cuh"

constexpr float kLog2e = 1.4426950408889634f;

// Positions [low, high) of a sequence; sequence -1: the token belongs to none.
struct Seen {
  int sequence, low, high;
};

CLIKA_INLINE int clamp_to(i64 x, i64 low, i64 high) { return static_cast<int>(x < low ? low : x > high ? high : x); }

// Positions of a sequence that the table has room for.
CLIKA_INLINE int checked_length(const Attention& a, int length) {
  const i64 room = static_cast<i64>(a.pages) * a.page;
  if (length < 0 || length > room) report(a.reporter.to, kIndexOutside, a.reporter.op, length, room + 1);
  return clamp_to(length, 0, room);
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
  // Often a token's sequence has its own number: all that is needed then is read at once.
  const i64 likely = token < a.sequences ? token : a.sequences - 1;
  i64 first = first_token(a, likely), end = first_token(a, likely + 1);
  int length = a.kv_lens[likely * a.length_step];
  int sequence = static_cast<int>(likely);
  if (first > token || token >= end) {
    sequence = sequence_of(a, token);
    if (sequence < 0) return {-1, 0, 0};
    end = first_token(a, sequence + 1);
    length = a.kv_lens[sequence * a.length_step];
  }
  length = checked_length(a, length);
  const int position = static_cast<int>(length - (end - token));
  return {sequence, low_of(a, position), high_of(a, position, length)};
}
CLIKA_INLINE int splits_of(const Attention& a, const Seen& s) {
  return s.high <= s.low ? 1 : (s.high - 1) / a.span - s.low / a.span + 1;
}

// Sum of the values of this thread and those before it; `last` is that of the whole block.
template <int kThreads>
CLIKA_INLINE int running_sum(int x, int* last) {
  __shared__ int sums[kThreads / 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int step = 1; step < 32; step <<= 1) {
    const int before = static_cast<int>(__shfl_sync(0xffffffffu, static_cast<u32>(x), (lane - step) & 31));
    if (lane >= step) x += before;
  }
  __syncthreads();  // sums of a call before have been read
  if (lane == 31) sums[warp] = x;
  __syncthreads();
  int all = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) x += sums[w];
    all += sums[w];
  }
  *last = all;
  return x;
}

// ---------------------------------------------------------------- the work of a launch
// Token by token, split by split, head by head; blocks take every gridDim.x-th item. gridDim.y goes over kThreads tokens
// each.
struct Item {
  Seen seen;
  i64 token;
  int split, splits;  // counted from the first that the token sees
  int kv_head, head;  // `head` is the first of `rows` query heads
  int rows;
  int from, to;
};
template <int kThreads>
struct Work {
  Seen seen[kThreads];
  int ends[kThreads];
  int total;

  CLIKA_INLINE void find(const Attention& a) {
    const i64 token = static_cast<i64>(blockIdx.y) * kThreads + threadIdx.x;
    const bool there = token < a.tokens;
    const Seen mine = there ? seen_by(a, token) : Seen{-1, 0, 0};
    int last;
    seen[threadIdx.x] = mine;
    ends[threadIdx.x] = running_sum<kThreads>(there ? splits_of(a, mine) : 0, &last);
    if (threadIdx.x == 0) total = last * a.kv_heads * a.row_groups;
    __syncthreads();
  }
  CLIKA_INLINE Item item(const Attention& a, int number) const {
    const int units = a.kv_heads * a.row_groups;
    const int place = number / units, unit = number - place * units;
    int low = 0, high = kThreads - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (ends[middle] > place) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    Item i;
    i.seen = seen[low];
    i.token = static_cast<i64>(blockIdx.y) * kThreads + low;
    i.split = place - (low > 0 ? ends[low - 1] : 0);
    i.splits = splits_of(a, i.seen);
    i.kv_head = unit / a.row_groups;
    const int first = (unit - i.kv_head * a.row_groups) * a.rows;
    i.head = i.kv_head * a.group + first;
    i.rows = a.group - first < a.rows ? a.group - first : a.rows;
    const int start = (i.seen.low / a.span + i.split) * a.span;
    i.from = start > i.seen.low ? start : i.seen.low;
    i.to = i.seen.high - start > a.span ? start + a.span : i.seen.high;
    return i;
  }
};
CLIKA_INLINE i64 unit_of(const Attention& a, i64 token, int head) {
  return (token * a.kv_heads + head / a.group) * a.row_groups + head % a.group / a.rows;
}

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

// ---------------------------------------------------------------- results
// 2^(x - y) where both may be minus infinity.
CLIKA_INLINE float weight_of(float x, float y) { return x == y ? 1.0f : exp2f(x - y); }
// Scores are in units of log 2.
CLIKA_INLINE float score_of(const Attention& a, float product) {
  if (a.softcap != 0.0f) return a.softcap * kLog2e * tanhf(product * a.scale);
  return product * (a.scale * kLog2e);
}
// The same for weights of 16 bits: tanh x = 1 - 2 / (1 + e^2x), to some 2^-22 of 1.
CLIKA_INLINE float fast_score_of(const Attention& a, float product) {
  if (a.softcap == 0.0f) return product * (a.scale * kLog2e);
  return a.softcap * kLog2e * (1.0f - __fdividef(2.0f, 1.0f + exp2f(product * (2.0f * kLog2e * a.scale))));
}
// What a row's weighted sums are multiplied with, from its maximum and the sum of its weights.
CLIKA_INLINE float factor_of(const Attention& a, int head, float top, float sum) {
  if (a.sinks != nullptr) {
    const char* sink = static_cast<const char*>(a.sinks) + head * a.sink_step * bytes_of(a.sink_dtype);
    sum += exp2f(load<float>(sink, a.sink_dtype) * kLog2e - top);
  }
  return sum > 0.0f && top != -CLIKA_INFINITY ? 1.0f / sum : sum != sum ? sum : 0.0f;
}
CLIKA_INLINE i64 part_of(const Attention& a, const Item& i, int row) {
  return (unit_of(a, i.token, i.head) * a.most_splits + i.split) * a.rows + row;
}

struct alignas(16) Sums4 {
  float x[4];
};
struct alignas(8) RowState {
  float top, sum;
};

// Joins the splits of a unit in their order; the whole block takes part.
CLIKA_INLINE void join_parts(const Attention& a, const Item& i) {
  constexpr int kAhead = 16;  // splits that are read at a time
  const int columns = a.part_row / 4;
  const i64 first = unit_of(a, i.token, i.head) * a.most_splits * a.rows;
  const auto* states = reinterpret_cast<const volatile float*>(a.part_states);
  for (int at = threadIdx.x; at < i.rows * columns; at += blockDim.x) {
    const int row = at / columns, column = at - row * columns;
    float top = -CLIKA_INFINITY, sum = 0.0f;
    Sums4 total = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (int from = 0; from < i.splits; from += kAhead) {
      RowState state[kAhead];
      Sums4 part[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const bool there = from + k < i.splits;
        const i64 place = first + static_cast<i64>(there ? from + k : from) * a.rows + row;
        state[k].top = there ? states[2 * place] : -CLIKA_INFINITY;
        state[k].sum = states[2 * place + 1];
        part[k] = *reinterpret_cast<const Sums4*>(a.parts + place * a.part_row + 4 * column);
      }
      float higher = top;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) higher = fmaxf(higher, state[k].top);
      const float before = weight_of(top, higher);
      sum *= before;
      for (float& x : total.x) x *= before;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const float weight = state[k].top == -CLIKA_INFINITY ? 0.0f : weight_of(state[k].top, higher);
        if (from + k >= i.splits) continue;
        sum += state[k].sum * weight;
        for (int e = 0; e < 4; ++e) total.x[e] += part[k].x[e] * weight;
      }
      top = higher;
    }
    const float factor = factor_of(a, i.head + row, top, sum);
    const int bytes = bytes_of(a.query_dtype);
    char* out = static_cast<char*>(a.out) + (i.token * a.out_token + (i.head + row) * a.out_head) * bytes;
    for (int e = 0; e < 4; ++e) {
      const int c = 4 * column + e;
      if (c < a.value_size) store(out + c * a.out_step * bytes, a.query_dtype, total.x[e] * factor);
    }
  }
}

// How many splits of a unit are done. Launches on one stream follow each other, so they share it.
static __device__ u32 arrived[kMostUnits];

// After a block has written its part of a unit: the block that comes last joins all of them, and sets the count back.
CLIKA_INLINE void arrive(const Attention& a, const Item& i) {
  if (a.joins == 0) return;
  __shared__ int is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    u32* count = arrived + unit_of(a, i.token, i.head);
    is_last = atomicAdd(count, 1u) + 1u == static_cast<u32>(i.splits);
    if (is_last != 0) *count = 0;
  }
  __syncthreads();
  if (is_last == 0) return;
  __threadfence();
  join_parts(a, i);
}
