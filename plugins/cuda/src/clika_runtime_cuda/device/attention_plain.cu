// Attention of every dtype and size: a tile of keys and values at a time is brought into shared memory as float32.
// attention_join joins splits where the kernels do not do so themselves.
#include "attention.cuh"
#include "cached_rows.cuh"

constexpr int kThreads = 128;
constexpr int kMostRows = 16;

CLIKA_INLINE float* take(float** from, int n) {
  float* part = *from;
  *from += (n + 3) / 4 * 4;
  return part;
}

// Results of any dtype and strides.
struct Writer {
  const Attention& a;
  const Item& i;
  CLIKA_INLINE void operator()(int row, int column, const Sums4& results) const {
    const int bytes = bytes_of(a.query_dtype);
    char* out = static_cast<char*>(a.out) + (i.token * a.out_token + (i.head + row) * a.out_head) * bytes;
    for (int e = 0; e < 4 && column + e < a.value_size; ++e) {
      store(out + (column + e) * a.out_step * bytes, a.query_dtype, results.x[e]);
    }
  }
};

extern "C" __global__ void __launch_bounds__(128) attention_plain(const __grid_constant__ Attention a) {
  wait_for_earlier();
  CLIKA_DYNAMIC_SHARED(memory);
  __shared__ float tops[kMostRows], sums[kMostRows], factors[kMostRows];
  __shared__ Place places[64];
  const int key_stride = (a.size + 3) / 4 * 4 + 4;
  float* at = reinterpret_cast<float*>(memory);
  float* query = take(&at, a.rows * key_stride);
  float* keys = take(&at, a.tile * key_stride);
  float* values = take(&at, a.tile * a.value_size);
  float* weights = take(&at, a.rows * a.tile);
  float* totals = take(&at, a.rows * a.value_size);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int query_bytes = bytes_of(a.query_dtype);

  if (blockIdx.x + blockIdx.y + blockIdx.z == 0) {
    for (i64 b = tid; b < a.sequences; b += kThreads) check_bounds(a, b, first_token(a, b), first_token(a, b + 1));
  }
  Item i;
  i.set_heads(a, blockIdx.x);
  for (i.token = blockIdx.y; i.token < a.tokens; i.token += gridDim.y) {
    i.set_token(a);
    for (i.split = blockIdx.z; i.split < i.splits; i.split += gridDim.z) {
      i.set_span(a);
      __syncthreads();  // what the item before left in shared memory has been read
      const char* from = static_cast<const char*>(a.query) + (i.token * a.query_token + i.head * a.query_head) * query_bytes;
      for (int k = tid; k < i.rows * key_stride; k += kThreads) {
        const int row = k / key_stride, e = k - row * key_stride;
        const i64 offset = row * a.query_head + e * a.query_step;
        query[k] = e < a.size ? load<float>(from + offset * query_bytes, a.query_dtype) : 0.0f;
      }
      for (int k = tid; k < i.rows * a.value_size; k += kThreads) totals[k] = 0.0f;
      if (tid < i.rows) {
        tops[tid] = -CLIKA_INFINITY;
        sums[tid] = 0.0f;
      }
      for (int base = i.from; base < i.to; base += a.tile) {
        const int count = i.to - base < a.tile ? i.to - base : a.tile;
        if (tid < a.tile) places[tid] = checked(a, place_of(a, i.seen.sequence, base + tid, i.from, i.to));
        __syncthreads();
        for (int k = tid; k < count * key_stride; k += kThreads) {
          const int row = k / key_stride, e = k - row * key_stride;
          const Place p = places[row];
          const i64 offset = p.block * a.key_block + p.within * a.key_position + i.kv_head * a.key_head;
          keys[k] = e < a.size && p.within >= 0 ? pool_element(a.keys, a.key_dtype, offset, e, a.key_step) : 0.0f;
        }
        for (int k = tid; k < count * a.value_size; k += kThreads) {
          const int row = k / a.value_size, e = k - row * a.value_size;
          const Place p = places[row];
          const i64 offset = p.block * a.value_block + p.within * a.value_position + i.kv_head * a.value_head;
          values[k] = p.within >= 0 ? pool_element(a.values, a.value_dtype, offset, e, a.value_step) : 0.0f;
        }
        __syncthreads();
        for (int k = tid; k < i.rows * a.tile; k += kThreads) {
          const int row = k / a.tile, j = k - row * a.tile;
          float score = -CLIKA_INFINITY;
          if (j < count) {
            const auto* q = reinterpret_cast<const Sums4*>(query + row * key_stride);
            const auto* key = reinterpret_cast<const Sums4*>(keys + j * key_stride);
            Sums4 dot = {{0.0f, 0.0f, 0.0f, 0.0f}};
            for (int e = 0; e < key_stride / 4 - 1; ++e) {
              const Sums4 x = q[e], y = key[e];
              for (int c = 0; c < 4; ++c) dot.x[c] += x.x[c] * y.x[c];
            }
            score = score_of(a, (dot.x[0] + dot.x[1]) + (dot.x[2] + dot.x[3]));
          }
          weights[k] = score;
        }
        __syncthreads();
        for (int row = warp; row < i.rows; row += kThreads / 32) {
          float top = tops[row];
          const float before = top;
          for (int j = lane; j < a.tile; j += 32) top = fmaxf(top, weights[row * a.tile + j]);
          for (int step = 16; step > 0; step >>= 1) top = fmaxf(top, shuffle_xor(top, step));
          float sum = 0.0f;
          for (int j = lane; j < a.tile; j += 32) {
            const float score = weights[row * a.tile + j];
            const float weight = score == -CLIKA_INFINITY ? 0.0f : exp2f(score - top);
            weights[row * a.tile + j] = weight;
            sum += weight;
          }
          for (int step = 16; step > 0; step >>= 1) sum += shuffle_xor(sum, step);
          if (lane == 0) {
            factors[row] = weight_of(before, top);
            sums[row] = sums[row] * factors[row] + sum;
            tops[row] = top;
          }
        }
        __syncthreads();
        for (int k = tid; k < i.rows * a.value_size; k += kThreads) {
          const int row = k / a.value_size, e = k - row * a.value_size;
          float total = totals[k] * factors[row];
          for (int j = 0; j < count; ++j) total += weights[row * a.tile + j] * values[j * a.value_size + e];
          totals[k] = total;
        }
      }
      __syncthreads();
      if (i.splits == 1) {
        char* out = static_cast<char*>(a.out) + (i.token * a.out_token + i.head * a.out_head) * query_bytes;
        for (int k = tid; k < i.rows * a.value_size; k += kThreads) {
          const int row = k / a.value_size, e = k - row * a.value_size;
          const float factor = factor_of(a, i.head + row, tops[row], sums[row]);
          store(out + (row * a.out_head + e * a.out_step) * query_bytes, a.query_dtype, totals[k] * factor);
        }
        continue;
      }
      for (int k = tid; k < i.rows * a.value_size; k += kThreads) {
        const int row = k / a.value_size;
        a.parts[part_of(a, i, row) * a.part_row + k - row * a.value_size] = totals[k];
      }
      if (tid < i.rows) {
        float* state = a.part_states + 2 * part_of(a, i, tid);
        state[0] = tops[tid];
        state[1] = sums[tid];
      }
      arrive(a, i, Writer{a, i});
    }
  }
}

// A block per token and unit of heads.
extern "C" __global__ void __launch_bounds__(128) attention_join(const __grid_constant__ Attention a) {
  wait_for_earlier();
  Item i;
  i.token = blockIdx.x;
  i.set_token(a);
  i.split = 0;
  if (i.splits == 1) return;
  i.set_heads(a, blockIdx.y);
  join_parts(a, i, Writer{a, i});
}
