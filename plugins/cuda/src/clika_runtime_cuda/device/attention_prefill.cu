// Attention of many tokens of a sequence, on tensor cores. A block takes a tile of tokens with all query heads of a key
// head, which are its rows, 16 of a warp; keys and values come a tile at a time, one ahead of the products.
// CLIKA_T: bf16 or f16. CLIKA_D: elements of a row, what is missing is zero.
#include "attention.cuh"
#include "tensor_cores.cuh"

using T = CLIKA_T;
constexpr int D = CLIKA_D;
using Row = Rows<D>;
constexpr int kThreads = clika_device::prefill_warps(D) * 32;
constexpr int kBlocks = D > 64 ? 1 : 2;  // of a multiprocessor
constexpr int kRows = clika_device::prefill_rows(D);
constexpr int kTile = clika_device::prefill_positions(D);
constexpr int kStageBytes = 2 * kTile * Row::kStride;
constexpr bool kKeep = D <= 128;  // the rows of queries stay in registers

struct TokenTile {
  int sequence, first, count, position;  // position of the first token
  i64 token;                             // its number in query and result
  int length;
};

// Sum of the values of this thread and those before it; `last` is that of the whole block.
CLIKA_INLINE int running_sum(int x, int* last) {
  __shared__ int sums[kThreads / 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  x = over_lanes(x);
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

// The tile of this block: tiles are counted sequence by sequence, those with the longest way to go come first.
CLIKA_INLINE bool find_tile(const Attention& a, int each, TokenTile* t) {
  const int number = gridDim.x - 1 - blockIdx.x;
  int sequence = -1, tile = 0, count = a.length;
  if (a.cu_seqlens == nullptr) {
    const int tiles = (a.length + each - 1) / each;
    sequence = number / tiles;
    tile = number - sequence * tiles;
    t->token = 0;
    t->length = a.page;
    if (sequence >= a.sequences) return false;
  } else {
    __shared__ int found[5];
    if (threadIdx.x == 0) found[0] = -1;
    // Behind the last sequence: tokens of none, which see nothing.
    for (int base = 0, before = 0; base <= a.sequences && before <= number; base += kThreads) {
      const int b = base + static_cast<int>(threadIdx.x);
      int tiles = 0, first = 0, tokens = 0, length = 0, last;
      if (b <= a.sequences) {
        const int start = first_token(a, b);
        i64 stop = a.tokens;
        if (b < a.sequences) {
          stop = first_token(a, b + 1);
          check_bounds(a, b, start, stop);
          length = a.kv_lens[b * a.length_step];
        }
        first = clamp_to(start, 0, a.tokens);
        tokens = clamp_to(stop, first, a.tokens) - first;
        tiles = (tokens + each - 1) / each;
      }
      const int end = before + running_sum(tiles, &last);
      if (number < end && number >= end - tiles) {
        found[0] = b;
        found[1] = number - (end - tiles);
        found[2] = first;
        found[3] = tokens;
        found[4] = b < a.sequences ? checked_length(a, length, tokens) : 0;
      }
      before += last;
    }
    __syncthreads();
    sequence = found[0];
    tile = found[1];
    t->token = found[2];
    count = found[3];
    t->length = found[4];
    if (sequence < 0) return false;
  }
  t->sequence = sequence;
  t->first = tile * each;
  t->count = count - t->first < each ? count - t->first : each;
  t->position = t->first + (a.aligned_ends != 0 ? t->length - count : 0);
  return true;
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) attention_prefill(const __grid_constant__ Attention a) {
  CLIKA_DYNAMIC_SHARED(memory);
  __shared__ RowOffsets places[2][kTile];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int each = kRows / a.rows;  // tokens
  const int kv_head = blockIdx.y / a.row_groups;
  const int first_head = (blockIdx.y - kv_head * a.row_groups) * a.rows;
  const int heads = a.group - first_head < a.rows ? a.group - first_head : a.rows;
  TokenTile t;
  if (!find_tile(a, each, &t)) return;
  const int last_position = t.position + t.count - 1;
  const int high = high_of(a, last_position, t.length);
  const int low = low_of(a, t.position);
  const int start = low / kTile * kTile;
  const int tiles = high > low ? (high - start + kTile - 1) / kTile : 0;
  // From here on no row's positions are left out, until there.
  const int full_low = low_of(a, last_position);
  const int full_high = high_of(a, t.position, t.length);

  const int chunk = tid % Row::kChunks;
  const bool key_there = chunk * 8 < a.size, value_there = chunk * 8 < a.value_size;
  const auto* keys = static_cast<const T*>(a.keys) + kv_head * a.key_head + chunk * 8;
  const auto* values = static_cast<const T*>(a.values) + kv_head * a.value_head + chunk * 8;
  char* query_rows = memory + 2 * kStageBytes;
  const auto look_up = [&](int tile) {
    if (tid >= kTile || tile >= tiles) return Place{0, -1};
    return place_of(a, t.sequence, start + tile * kTile + tid, low, high);
  };
  const auto copy = [&](int tile) {
    if (tile < tiles) {
      char* to = memory + (tile & 1) * kStageBytes;
#pragma unroll
      for (int k = 0; k < kTile * Row::kChunks / kThreads; ++k) {
        const int row = tid / Row::kChunks + k * (kThreads / Row::kChunks);
        const RowOffsets at = places[tile & 1][row];
        const bool there = at.key >= 0;
        copy_async(to + Row::at(row, chunk), keys + at.key, there && key_there);
        copy_async(to + Row::at(kTile + row, chunk), values + at.value, there && value_there);
      }
    }
    end_copies();
  };

  const Place early[3] = {look_up(0), look_up(1), look_up(2)};
  Place next = early[2];
  {
    const T* from = static_cast<const T*>(a.query) + t.sequence * a.query_sequence + (t.token + t.first) * a.query_token +
                    (kv_head * a.group + first_head) * a.query_head + chunk * 8;
    for (int row = tid / Row::kChunks; row < kRows; row += kThreads / Row::kChunks) {
      const int token = row / a.rows, head = row - token * a.rows;
      const bool there = token < t.count && head < heads && chunk * 8 < a.size;
      copy_async(query_rows + Row::at(row, chunk), from + token * a.query_token + head * a.query_head, there);
    }
  }
  if (tid < kTile) {
    places[0][tid] = offsets_of(a, early[0]);
    places[1][tid] = offsets_of(a, early[1]);
  }
  __syncthreads();
  copy(0);

  // Rows lane / 4 and eight below it of the warp's.
  int position[2], token[2], head[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp * 16 + 8 * h + (lane >> 2);
    token[h] = row / a.rows;
    head[h] = row - token[h] * a.rows;
    position[h] = t.position + token[h];
  }
  u32 kept[kKeep ? D / 16 : 1][4];
  float total[D / 8][4] = {};
  float top[2] = {-CLIKA_INFINITY, -CLIKA_INFINITY}, sum[2] = {0.0f, 0.0f};
  const float scale = a.scale * kLog2e;
  const char* query_row = query_rows + (warp * 16 + (lane & 15)) * Row::kStride;

  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<0>();
    __syncthreads();
    copy(tile + 1);
    if (tid < kTile) places[tile & 1][tid] = offsets_of(a, next);
    next = look_up(tile + 3);
    if (kKeep && tile == 0) {
#pragma unroll
      for (int step = 0; step < D / 16; ++step) {
        load_matrices(kept[kKeep ? step : 0], query_row + (((2 * step + (lane >> 4)) ^ (lane & 7)) << 4));
      }
    }
    const char* key_rows = memory + (tile & 1) * kStageBytes;
    const char* value_rows = key_rows + kTile * Row::kStride;

    float score[kTile / 8][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      u32 q[4];
      if (kKeep) {
#pragma unroll
        for (int e = 0; e < 4; ++e) q[e] = kept[kKeep ? step : 0][e];
      } else {
        load_matrices(q, query_row + (((2 * step + (lane >> 4)) ^ (lane & 7)) << 4));
      }
#pragma unroll
      for (int n = 0; n < kTile / 8; n += 2) {
        u32 b[4];
        load_matrices(b, key_rows + Row::at(8 * n + (lane & 7) + (lane >> 4 << 3), 2 * step + (lane >> 3 & 1)));
        multiply(score[n], q, b[0], b[1], T{});
        multiply(score[n + 1], q, b[2], b[3], T{});
      }
    }

    const int base = start + tile * kTile;
    float by = scale;  // what the scores are still to be multiplied with
    if (a.softcap != 0.0f) {
      by = 1.0f;
#pragma unroll
      for (auto& n : score) {
#pragma unroll
        for (float& x : n) x = capped_score_of(a, x);
      }
    }
    if (base < full_low || base + kTile > full_high) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int from = low_of(a, position[h]), to = high_of(a, position[h], t.length);
#pragma unroll
        for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int at = base + 8 * n + 2 * (lane & 3) + e;
            if (at < from || at >= to) score[n][2 * h + e] = -CLIKA_INFINITY;
          }
        }
      }
    }
    // A factor below 0 would turn the order of the scores, and 0 make a number of minus infinity.
    if (by <= 0.0f) {
#pragma unroll
      for (auto& n : score) {
#pragma unroll
        for (float& x : n) x = x == -CLIKA_INFINITY ? x : x * by;
      }
      by = 1.0f;
    }
    u32 weights[kTile / 16][4];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float higher = top[h];
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) higher = fmaxf(higher, fmaxf(score[n][2 * h], score[n][2 * h + 1]));
      higher = fmaxf(higher, shuffle_xor(higher, 1));
      higher = fmaxf(higher, shuffle_xor(higher, 2));
      const float zero = higher == -CLIKA_INFINITY ? 0.0f : higher * by;
      const float factor = exp2_of(top[h] * by - zero);
      top[h] = higher;
      sum[h] *= factor;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        total[n][2 * h] *= factor;
        total[n][2 * h + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
        const float x = exp2_of(score[n][2 * h] * by - zero), y = exp2_of(score[n][2 * h + 1] * by - zero);
        sum[h] += x + y;
        weights[n / 2][n % 2 * 2 + h] = pair(x, y, T{});
      }
    }
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
#pragma unroll
      for (int n = 0; n < D / 8; n += 2) {
        u32 v[4];
        load_transposed(v, value_rows + Row::at(16 * step + (lane & 15), n + (lane >> 4)));
        multiply(total[n], weights[step], v[0], v[1], T{});
        multiply(total[n + 1], weights[step], v[2], v[3], T{});
      }
    }
  }
  wait_copies<0>();

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += shuffle_xor(sum[h], 1);
    sum[h] += shuffle_xor(sum[h], 2);
    if (token[h] >= t.count || head[h] >= heads) continue;
    const int out_head = kv_head * a.group + first_head + head[h];
    const float highest = a.softcap != 0.0f || scale <= 0.0f || top[h] == -CLIKA_INFINITY ? top[h] : top[h] * scale;
    const float by = factor_of(a, out_head, highest, sum[h]);
    T* out = static_cast<T*>(a.out) + t.sequence * a.out_sequence + (t.token + t.first + token[h]) * a.out_token +
             out_head * a.out_head + 2 * (lane & 3);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      if (8 * n >= a.value_size) continue;
      *reinterpret_cast<u32*>(out + 8 * n) = pair(total[n][2 * h] * by, total[n][2 * h + 1] * by, T{});
    }
  }
}
