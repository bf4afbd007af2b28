// Attention of one token of each sequence, on tensor cores: an item of work is a span of positions and the query heads of
// one key head, which are the rows of its products. A warp takes 16 positions at a time by itself, from the copies of
// their keys and values to the weighted sums; the warps of a block meet at the end of a span. Keys of a warp's next
// positions are on their way while its values are added, and the other way round.
// CLIKA_T: bf16 or f16. CLIKA_D: elements of a row, what is missing is zero. CLIKA_ROWS: query heads, 8 or 16.
#include "attention.cuh"
#include "tensor_cores.cuh"
#include "words.cuh"

using T = CLIKA_T;
constexpr int D = CLIKA_D;
using Row = Rows<D>;
constexpr int kWarps = clika_device::decode_warps(D);
constexpr int kOwn = clika_device::kDecodePositions;
constexpr int kTile = kWarps * kOwn;
constexpr int kHalf = kOwn * Row::kStride;  // bytes of a warp's keys, and of its values
constexpr int kHalves = CLIKA_ROWS / 8;  // of the 16 rows of a product that are there
constexpr int kCopies = kOwn * Row::kChunks / 32;

// A warp's weighted sums [16][D], over its keys and values. Rows that lie in the same banks have their columns turned.
CLIKA_INLINE float* sum_at(char* own, int row, int column) {
  return reinterpret_cast<float*>(own) + row * D + (((column >> 3) ^ (row & 3)) << 3) + (column & 7);
}

// d += a b of the rows that are there.
CLIKA_INLINE void multiply_rows(float (&d)[2 * kHalves], const u32 (&a)[2 * kHalves], u32 b0, u32 b1) {
  float all[4] = {};
  u32 rows[4] = {};
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      all[2 * h + e] = d[2 * h + e];
      rows[h + 2 * e] = a[h + kHalves * e];
    }
  }
  multiply(all, rows, b0, b1, T{});
#pragma unroll
  for (int e = 0; e < 2 * kHalves; ++e) d[e] = all[e];
}

// The same number, of which the compiler does not know so: what is computed from it is computed where it is used, as
// registers are short.
CLIKA_INLINE int anew(int x) {
#if !defined(CLIKA_EMULATED)
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// Two neighbouring elements of a row of queries.
CLIKA_INLINE u32 query_pair(const T* row, int column, bool there) {
  return there ? *reinterpret_cast<const u32*>(row + column) : 0;
}

extern "C" __global__ void __launch_bounds__(32 * kWarps, 2) attention_decode(const __grid_constant__ Attention a) {
  begin_early();
  CLIKA_DYNAMIC_SHARED(memory);
  __shared__ RowState states[kWarps][16];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  char* own = memory + warp * 2 * kHalf;

  Item i;
  const auto write = [&](int row, int column, const Sums4& results) {
    T* out = static_cast<T*>(a.out) + i.token * a.out_token + (i.head + row) * a.out_head + column;
    const Words2 four = {pair(results.x[0], results.x[1], T{}), pair(results.x[2], results.x[3], T{})};
    if (column < a.value_size) *reinterpret_cast<Words2*>(out) = four;
  };
  i.set_heads(a, blockIdx.x);
  for (i.token = blockIdx.y; i.token < a.tokens; i.token += gridDim.y) {
    i.set_token(a);
    for (i.split = blockIdx.z; i.split < i.splits; i.split += gridDim.z) {
      i.set_span(a);

      // The warp's rows of the tile from position `at` on: a lane looks one of them up, and copies a chunk of each.
      const auto look_up = [&](int at) {
        const int position = at + warp * kOwn + (lane & (kOwn - 1));
        return offsets_of(a, place_of(a, i.seen.sequence, position, i.from, i.to));
      };
      const auto copy = [&](const void* head, i64 offset, int size, char* to) {
        const int here = anew(lane), chunk = here % Row::kChunks;
#pragma unroll
        for (int k = 0; k < kCopies; ++k) {
          const int row = here / Row::kChunks + k * (32 / Row::kChunks);
          const i64 from = from_lane(offset, row);
          copy_async(to + Row::at(row, chunk), static_cast<const T*>(head) + from + chunk * 8,
                     from >= 0 && chunk * 8 < size);
        }
      };
      const T* keys = static_cast<const T*>(a.keys) + i.kv_head * a.key_head;
      const T* values = static_cast<const T*>(a.values) + i.kv_head * a.value_head;
      int at = i.from & ~(kTile - 1);
      RowOffsets found = look_up(at);
      copy(keys, found.key, a.size, own);
      end_copies();
      copy(values, found.value, a.value_size, own + kHalf);
      end_copies();

      u32 query[D / 16][2 * kHalves];
      const int g = anew(lane) >> 2, t = anew(lane) & 3;
      const T* rows = static_cast<const T*>(a.query) + i.token * a.query_token + (i.head + g) * a.query_head;
#pragma unroll
      for (int step = 0; step < D / 16; ++step) {
#pragma unroll
        for (int e = 0; e < 2 * kHalves; ++e) {
          const int column = 16 * step + 2 * t + e / kHalves * 8, row = e % kHalves * 8;
          query[step][e] = query_pair(rows + row * a.query_head, column, g + row < i.rows && column < a.size);
        }
      }

      float top[kHalves], sum[kHalves] = {};
      float total[D / 8][2 * kHalves] = {};
      for (float& x : top) x = -CLIKA_INFINITY;
      for (; at < i.to; at += kTile) {
        wait_copies<1>();
        __syncwarp();
        float score[2][2 * kHalves] = {};
        const int at_keys = anew(lane);
#pragma unroll
        for (int step = 0; step < D / 16; ++step) {
          u32 k[4];
          load_matrices(k, own + Row::at((at_keys & 7) + (at_keys >> 4 << 3), 2 * step + (at_keys >> 3 & 1)));
          multiply_rows(score[0], query[step], k[0], k[1]);
          multiply_rows(score[1], query[step], k[2], k[3]);
        }
        __syncwarp();
        const bool more = at + kTile < i.to;
        if (more) {
          found = look_up(at + kTile);
          copy(keys, found.key, a.size, own);
        }
        end_copies();

        const bool capped = a.softcap != 0.0f;
        for (auto& n : score) {
          for (float& x : n) x = capped ? capped_score_of(a, x) : x * (kLog2e * a.scale);
        }
        float factor[kHalves];
#pragma unroll
        for (int h = 0; h < kHalves; ++h) {
          float higher = top[h];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int position = at + warp * kOwn + e / 2 * 8 + 2 * t + e % 2;
            float& x = score[e / 2][2 * h + e % 2];
            if (position < i.from || position >= i.to) x = -CLIKA_INFINITY;
            higher = fmaxf(higher, x);
          }
          higher = fmaxf(higher, shuffle_xor(higher, 1));
          higher = fmaxf(higher, shuffle_xor(higher, 2));
          const float base = higher == -CLIKA_INFINITY ? 0.0f : higher;
          factor[h] = exp2_of(top[h] - base);
          top[h] = higher;
          sum[h] *= factor[h];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            float& x = score[e / 2][2 * h + e % 2];
            x = exp2_of(x - base);
            sum[h] += x;
          }
        }
        u32 weight[2 * kHalves];
#pragma unroll
        for (int e = 0; e < 2 * kHalves; ++e) {
          const float* two = score[e / kHalves] + e % kHalves * 2;
          weight[e] = pair(two[0], two[1], T{});
        }

        wait_copies<1>();
        __syncwarp();
        const int at_values = anew(lane);
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
#pragma unroll
          for (int e = 0; e < 2 * kHalves; ++e) {
            total[n][e] *= factor[e >> 1];
            total[n + 1][e] *= factor[e >> 1];
          }
          u32 v[4];
          load_transposed(v, own + kHalf + Row::at(at_values & 15, n + (at_values >> 4)));
          multiply_rows(total[n], weight, v[0], v[1]);
          multiply_rows(total[n + 1], weight, v[2], v[3]);
        }
        __syncwarp();
        if (more) copy(values, found.value, a.value_size, own + kHalf);
        end_copies();
      }
      wait_copies<0>();
      __syncwarp();

      const int at_sums = anew(lane);
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        sum[h] += shuffle_xor(sum[h], 1);
        sum[h] += shuffle_xor(sum[h], 2);
        const int row = 8 * h + (at_sums >> 2);
        if (row >= i.rows) continue;
        if ((at_sums & 3) == 0) states[warp][row] = {top[h], sum[h]};
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
          *reinterpret_cast<RowState*>(sum_at(own, row, 8 * n + 2 * (at_sums & 3))) = {total[n][2 * h], total[n][2 * h + 1]};
        }
      }
      __syncthreads();
      for (int place = anew(threadIdx.x); place < i.rows * (D / 4); place += 32 * kWarps) {
        const int row = place / (D / 4), column = place % (D / 4) * 4;
        if (column >= a.value_size) continue;
        float highest = -CLIKA_INFINITY, all = 0.0f;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, states[w][row].top);
        const float base = highest == -CLIKA_INFINITY ? 0.0f : highest;
        Sums4 joined = {};
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const RowState state = states[w][row];
          const float by = exp2_of(state.top - base);
          const Sums4 part = *reinterpret_cast<const Sums4*>(sum_at(memory + w * 2 * kHalf, row, column));
          all += by * state.sum;
#pragma unroll
          for (int e = 0; e < 4; ++e) joined.x[e] += by * part.x[e];
        }
        if (i.splits == 1) {
          const float by = factor_of(a, i.head + row, highest, all);
          for (float& x : joined.x) x *= by;
          write(row, column, joined);
        } else {
          const i64 part = part_of(a, i, row);
          if (column == 0) *reinterpret_cast<RowState*>(a.part_states + 2 * part) = {highest, all};
          *reinterpret_cast<Sums4*>(a.parts + part * a.part_row + column) = joined;
        }
      }
      if (i.splits > 1) arrive(a, i, write);
      __syncthreads();  // what the warps left has been read
    }
  }
}
