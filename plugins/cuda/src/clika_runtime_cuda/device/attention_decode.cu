// Attention of one token of each sequence, on tensor cores: a block takes a split of the positions and the query heads of
// one key head, which are the rows of its tiles. Tiles of keys and values come in the background, several ahead, across
// the borders of splits. Scores: each warp a quarter of the positions; weighted sums: each warp a quarter of the columns.
// CLIKA_T: bf16 or f16. CLIKA_D: elements of a row, what is missing is zero.
#include "attention.cuh"
#include "tensor_cores.cuh"

using T = CLIKA_T;
constexpr int D = CLIKA_D;
using Row = Rows<D>;
constexpr int kThreads = 128;
constexpr int kTile = D > 128 ? 32 : 64;  // positions; attention.cpp has the number too
constexpr int kMostStages = 4;
constexpr int kOwn = kTile / 4;           // of a warp
constexpr int kNear = kOwn / 8;
constexpr int kWeightStride = kTile * 2 + 16;

// A tile that is known ahead: positions from `at` on of an item. valid 0: the block has no more.
struct Step {
  Item item;
  int at, valid;

  CLIKA_INLINE bool first() const { return at <= item.from; }
  CLIKA_INLINE bool last() const { return at + kTile >= item.to; }
};

// The tiles of a block, one after the other.
struct Cursor {
  Step step;
  int number;

  CLIKA_INLINE void start(const Work<kThreads>& work, const Attention& a, int from) {
    number = from;
    step.valid = number < work.total;
    if (step.valid == 0) return;
    step.item = work.item(a, number);
    step.at = step.item.from / kTile * kTile;
  }
  CLIKA_INLINE void advance(const Work<kThreads>& work, const Attention& a) {
    if (step.valid == 0) return;
    if (step.last()) {
      start(work, a, number + gridDim.x);
    } else {
      step.at += kTile;
    }
  }
};

CLIKA_INLINE void wait_for_stage(int stages) {
  if (stages == 2) {
    wait_copies<0>();
  } else if (stages == 3) {
    wait_copies<1>();
  } else {
    wait_copies<2>();
  }
}

extern "C" __global__ void __launch_bounds__(128) attention_decode(const __grid_constant__ Attention a) {
  wait_for_earlier();
  CLIKA_DYNAMIC_SHARED(memory);
  __shared__ Work<kThreads> work;
  __shared__ RowOffsets places[4][kTile];
  __shared__ Step steps[8];
  __shared__ float warp_tops[4][16], warp_sums[4][16];
  __shared__ Words4 weight_rows[kWeightStride];
  char* weights = reinterpret_cast<char*>(weight_rows);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int query_rows = a.rows > 8 ? 16 : 8;
  const int stage_bytes = (2 * kTile + query_rows) * Row::kStride;
  const auto* queries = static_cast<const T*>(a.query);
  const auto* keys = static_cast<const T*>(a.keys);
  const auto* values = static_cast<const T*>(a.values);

  work.find(a);
  Cursor ahead;
  ahead.start(work, a, blockIdx.x);

  // What is known ahead is written down for all threads; the table's answer takes its time, and is written a tile later.
  const auto look_up = [&](int tile) {
    const Step& step = ahead.step;
    Place place = {0, -1};
    if (step.valid != 0 && tid < kTile) {
      place = place_of(a, step.item.seen.sequence, step.at + tid, step.item.from, step.item.to);
    }
    if (tid == 0) steps[tile & 7] = step;
    ahead.advance(work, a);
    return place;
  };
  const auto announce = [&](int tile, const Place& place) {
    if (tid < kTile) places[tile & 3][tid] = offsets_of(a, place);
  };
  const auto copy = [&](int tile, int stage) {
    const Step& step = steps[tile & 7];
    if (step.valid != 0) {
      char* to = memory + stage * stage_bytes;
      const int chunk = tid % Row::kChunks;
      const bool key_there = chunk * 8 < a.size, value_there = chunk * 8 < a.value_size;
      const T* key = keys + step.item.kv_head * a.key_head + chunk * 8;
      const T* value = values + step.item.kv_head * a.value_head + chunk * 8;
#pragma unroll
      for (int k = 0; k < kTile * Row::kChunks / kThreads; ++k) {
        const int row = tid / Row::kChunks + k * (kThreads / Row::kChunks);
        const RowOffsets at = places[tile & 3][row];
        const bool there = at.key >= 0;
        copy_async(to + Row::at(row, chunk), key + at.key, there && key_there);
        copy_async(to + Row::at(kTile + row, chunk), value + at.value, there && value_there);
      }
      const T* query = queries + step.item.token * a.query_token + step.item.head * a.query_head + chunk * 8;
      for (int row = tid / Row::kChunks; row < query_rows; row += kThreads / Row::kChunks) {
        const bool there = row < step.item.rows && key_there;
        copy_async(to + Row::at(2 * kTile + row, chunk), query + row * a.query_head, there);
      }
    }
    end_copies();
  };

  // The table is read for the first tiles at once.
  Place early[kMostStages];
#pragma unroll
  for (int k = 0; k < kMostStages; ++k) {
    if (k < a.stages) early[k] = look_up(k);
  }
  Place next = look_up(a.stages);
#pragma unroll
  for (int k = 0; k < kMostStages; ++k) {
    if (k < a.stages) announce(k, early[k]);
  }
  __syncthreads();
  for (int k = 0; k < a.stages - 1; ++k) copy(k, k);

  float top[2] = {}, sum[2] = {};
  float total[D / 32][4] = {};
  int stage = 0, free_stage = a.stages - 1;
  for (int tile = 0; steps[tile & 7].valid != 0; ++tile) {
    wait_for_stage(a.stages);
    __syncthreads();
    copy(tile + a.stages - 1, free_stage);
    announce(tile + a.stages, next);
    next = look_up(tile + a.stages + 1);

    const Step& now = steps[tile & 7];
    const Item& i = now.item;
    const int from = i.from, to = i.to;
    if (now.first()) {
      for (int h = 0; h < 2; ++h) {
        top[h] = -CLIKA_INFINITY;
        sum[h] = 0.0f;
      }
      for (auto& n : total) {
        for (float& x : n) x = 0.0f;
      }
    }
    const char* key_rows = memory + stage * stage_bytes;
    const char* value_rows = key_rows + kTile * Row::kStride;
    const char* query_rows_at = value_rows + kTile * Row::kStride;

    float score[kNear][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; step += 3 - kNear) {
      u32 b[4];
      if (kNear == 2) {
        load_matrices(b, key_rows + Row::at(warp * kOwn + (lane & 7) + (lane >> 4 << 3), 2 * step + (lane >> 3 & 1)));
      } else {
        load_matrices(b, key_rows + Row::at(warp * kOwn + (lane & 7), 2 * step + (lane >> 3)));
      }
#pragma unroll
      for (int s = 0; s < 3 - kNear; ++s) {
        u32 q[4];
        const int row = (lane & 7) + (query_rows > 8 ? lane & 8 : 0);
        load_matrices(q, query_rows_at + Row::at(row, 2 * (step + s) + (lane >> 4)));
        if (query_rows == 8) q[1] = q[3] = 0;
        if (kNear == 2) {
          multiply(score[0], q, b[0], b[1], T{});
          multiply(score[kNear - 1], q, b[2], b[3], T{});
        } else {
          multiply(score[0], q, b[2 * s], b[2 * s + 1], T{});
        }
      }
    }
    float higher[2] = {-CLIKA_INFINITY, -CLIKA_INFINITY};
#pragma unroll
    for (int n = 0; n < kNear; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int position = now.at + warp * kOwn + n * 8 + 2 * (lane & 3) + (e & 1);
        const bool there = position >= from && position < to;
        score[n][e] = there ? fast_score_of(a, score[n][e]) : -CLIKA_INFINITY;
        higher[e >> 1] = fmaxf(higher[e >> 1], score[n][e]);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      higher[h] = fmaxf(higher[h], shuffle_xor(higher[h], 1));
      higher[h] = fmaxf(higher[h], shuffle_xor(higher[h], 2));
      if ((lane & 3) == 0) warp_tops[warp][8 * h + (lane >> 2)] = higher[h];
    }
    __syncthreads();
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float before = top[h];
#pragma unroll
      for (int w = 0; w < 4; ++w) top[h] = fmaxf(top[h], warp_tops[w][8 * h + (lane >> 2)]);
      const float base = top[h] == -CLIKA_INFINITY ? 0.0f : top[h];
      factor[h] = exp2_of(before - base);
      sum[h] *= factor[h];
#pragma unroll
      for (int n = 0; n < kNear; ++n) {
        const float x = exp2_of(score[n][2 * h] - base), y = exp2_of(score[n][2 * h + 1] - base);
        sum[h] += x + y;
        char* to = weights + (8 * h + (lane >> 2)) * kWeightStride + (warp * kOwn + n * 8 + 2 * (lane & 3)) * 2;
        *reinterpret_cast<u32*>(to) = pair(x, y, T{});
      }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < D / 32; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) total[n][e] *= factor[e >> 1];
    }
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
      u32 w[4];
      load_matrices(w, weights + (lane & 15) * kWeightStride + (2 * step + (lane >> 4)) * 16);
#pragma unroll
      for (int n = 0; n < D / 32; n += 2) {
        u32 v[4];
        load_transposed(v, value_rows + Row::at(16 * step + (lane & 15), warp * (D / 32) + n + (lane >> 4)));
        multiply(total[n], w, v[0], v[1], T{});
        multiply(total[n + 1], w, v[2], v[3], T{});
      }
    }

    if (now.last()) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        sum[h] += shuffle_xor(sum[h], 1);
        sum[h] += shuffle_xor(sum[h], 2);
        if ((lane & 3) == 0) warp_sums[warp][8 * h + (lane >> 2)] = sum[h];
      }
      __syncthreads();
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 8 * h + (lane >> 2);
        if (row >= i.rows) continue;
        float all = 0.0f;
        for (int w = 0; w < 4; ++w) all += warp_sums[w][row];
        const int column = warp * (D / 4) + 2 * (lane & 3);
        if (i.splits == 1) {
          const float by = factor_of(a, i.head + row, top[h], all);
          T* out = static_cast<T*>(a.out) + i.token * a.out_token + (i.head + row) * a.out_head;
#pragma unroll
          for (int n = 0; n < D / 32; ++n) {
            if (column + 8 * n >= a.value_size) continue;
            *reinterpret_cast<u32*>(out + column + 8 * n) = pair(total[n][2 * h] * by, total[n][2 * h + 1] * by, T{});
          }
          continue;
        }
        const i64 place = part_of(a, i, row);
        if (warp == 0 && (lane & 3) == 0) *reinterpret_cast<RowState*>(a.part_states + 2 * place) = {top[h], all};
        float* part = a.parts + place * a.part_row + column;
#pragma unroll
        for (int n = 0; n < D / 32; ++n) {
          if (column + 8 * n >= a.value_size) continue;
          *reinterpret_cast<RowState*>(part + 8 * n) = {total[n][2 * h], total[n][2 * h + 1]};
        }
      }
      if (i.splits > 1) arrive(a, i);
    }
    stage = stage + 1 == a.stages ? 0 : stage + 1;
    free_stage = free_stage + 1 == a.stages ? 0 : free_stage + 1;
  }
}
