// rotary_append: queries and keys turned by angles, in float32, rounded once; keys and values to their slots of the pools.
// A job is what one thread does at a time: pairs of a head of the queries or keys, values behind the last pair, or a piece
// of a head of the values. The jobs of a token come in this order.
#include "attention_arguments.cuh"
#include "prelude.cuh"

enum Part : int { kQuery, kKey, kValue };
struct Job {
  int part, head, piece;
};
// `turned` jobs are a head of queries or keys, `plain` a head of values.
CLIKA_INLINE Job job_of(const RotaryAppend& r, int at, int turned, int plain) {
  const int behind = at - (r.heads + r.kv_heads) * turned;
  if (behind >= 0) return {kValue, behind / plain, behind % plain};
  const int head = at / turned;
  return {head < r.heads ? kQuery : kKey, head < r.heads ? head : head - r.heads, at % turned};
}
CLIKA_INLINE i64 row_of(const HeadRows& rows, i64 token, int head) { return token * rows.token + head * rows.head; }
// The offset of a head's row in a pool; -1: the slot is outside, which is reported.
CLIKA_INLINE i64 place_of(const RotaryAppend& r, const HeadPool& pool, i64 token, int head) {
  const int slot = r.slots[token * r.slot_step];
  if (slot < 0 || slot >= pool.capacity) {
    report(r.reporter.to, kIndexOutside, r.reporter.op, slot, pool.capacity);
    return -1;
  }
  const int block = slot / pool.page;
  return block * pool.block + (slot - block * pool.page) * pool.position + head * pool.head;
}
struct Turn {
  float cosine, sine;
};
CLIKA_INLINE Turn turn_of(const RotaryAppend& r, i64 token, int pair) {
  float angle = 0.0f;
#pragma unroll 1
  for (int a = 0; a < r.axes; ++a) {
    const i64 place = a * r.position_axis + token * r.position_step;
    const float position = r.position_dtype == kInt32 ? static_cast<float>(static_cast<const int*>(r.positions)[place])
                                                      : static_cast<float>(static_cast<const i64*>(r.positions)[place]);
    angle += __fmul_rn(position, r.frequencies[a * r.frequency_axis + pair * r.frequency_step]);
  }
  Turn turn;
  sincosf(angle, &turn.sine, &turn.cosine);
  return {turn.cosine * r.scale, turn.sine * r.scale};
}

// ---------------------------------------------------------------- 16 bytes at a time
template <class T>
struct alignas(16) Piece {
  static constexpr int kWide = 16 / sizeof(T);
  T x[kWide];
};
// What a job reads: a piece, and the piece of the other half where pairs lie apart.
template <class T>
struct Read {
  Job job;
  Piece<T> a, b;
};
template <class T>
CLIKA_INLINE Read<T> read(const RotaryAppend& r, i64 token, int at, int turned, int plain) {
  Read<T> found;
  found.job = job_of(r, at, turned, plain);
  const HeadRows& rows = found.job.part == kQuery ? r.query : found.job.part == kKey ? r.key : r.value;
  const auto* row = reinterpret_cast<const Piece<T>*>(static_cast<const T*>(rows.data) + row_of(rows, token, found.job.head));
  // Where pairs lie apart, pieces behind the first half stand for those behind the second.
  const int pairs = r.interleaved != 0 || found.job.part == kValue ? 0 : r.half / Piece<T>::kWide;
  const int piece = found.job.piece;
  found.a = row[piece < pairs ? piece : piece + pairs];
  if (piece < pairs) found.b = row[piece + pairs];
  return found;
}

// A block turns some of a token's heads; sines and cosines are worked out once, while the rows are on their way.
template <class T>
CLIKA_INLINE void append(const RotaryAppend& r) {
  constexpr int kWide = Piece<T>::kWide;
  CLIKA_DYNAMIC_SHARED(memory);
  float* cosines = reinterpret_cast<float*>(memory);
  float* sines = cosines + r.half;
  const i64 token = blockIdx.x;
  const int turned = (r.interleaved != 0 ? r.size : r.size - r.half) / kWide, plain = r.value_size / kWide;
  const int jobs = (r.heads + r.kv_heads) * turned + r.kv_heads * plain;
  const int step = gridDim.y * blockDim.x;
  int at = blockIdx.y * blockDim.x + threadIdx.x;
  Read<T> x;
  if (at < jobs) x = read<T>(r, token, at, turned, plain);
#pragma unroll 1
  for (int i = threadIdx.x; i < r.half; i += blockDim.x) {
    const Turn turn = turn_of(r, token, i);
    cosines[i] = turn.cosine;
    sines[i] = turn.sine;
  }
  __syncthreads();
  while (at < jobs) {
    const Job job = x.job;
    const int pairs = r.interleaved != 0 || job.part == kValue ? 0 : r.half / kWide;
    if (job.part != kValue && r.interleaved != 0) {
      const int first = job.piece * (kWide / 2);
      if (first < r.half) {
#pragma unroll
        for (int w = 0; w < kWide; w += 2) {
          const float c = cosines[first + w / 2], s = sines[first + w / 2];
          const float a = to_float(x.a.x[w]), b = to_float(x.a.x[w + 1]);
          x.a.x[w] = from_float<T>(a * c - b * s);
          x.a.x[w + 1] = from_float<T>(b * c + a * s);
        }
      }
    } else if (job.piece < pairs) {
      const int first = job.piece * kWide;
#pragma unroll
      for (int w = 0; w < kWide; ++w) {
        const float c = cosines[first + w], s = sines[first + w];
        const float a = to_float(x.a.x[w]), b = to_float(x.b.x[w]);
        x.a.x[w] = from_float<T>(a * c - b * s);
        x.b.x[w] = from_float<T>(b * c + a * s);
      }
    }
    T* to = static_cast<T*>(r.out) + (token * r.heads + job.head) * r.size;
    if (job.part != kQuery) {
      const HeadPool& pool = job.part == kKey ? r.keys : r.values;
      const i64 place = place_of(r, pool, token, job.head);
      to = place < 0 ? nullptr : static_cast<T*>(pool.data) + place;
    }
    if (to != nullptr) {
      auto* row = reinterpret_cast<Piece<T>*>(to);
      row[job.piece < pairs ? job.piece : job.piece + pairs] = x.a;
      if (job.piece < pairs) row[job.piece + pairs] = x.b;
    }
    at += step;
    if (at < jobs) x = read<T>(r, token, at, turned, plain);
  }
}
extern "C" __global__ void __launch_bounds__(256) append_float32(const __grid_constant__ RotaryAppend r) { begin_early(); append<float>(r); }
extern "C" __global__ void __launch_bounds__(256) append_bfloat16(const __grid_constant__ RotaryAppend r) { begin_early(); append<bf16>(r); }
extern "C" __global__ void __launch_bounds__(256) append_float16(const __grid_constant__ RotaryAppend r) { begin_early(); append<f16>(r); }

// ---------------------------------------------------------------- any strides and dtypes
CLIKA_INLINE float element(const RotaryAppend& r, const HeadRows& rows, i64 row, int i) {
  return load<float>(static_cast<const char*>(rows.data) + (row + i * rows.step) * bytes_of(r.dtype), r.dtype);
}
// Rounded to the rows' dtype, then converted to that of where it goes.
CLIKA_INLINE void put(const RotaryAppend& r, void* to, int dtype, i64 at, float x) {
  float rounded;
  if (r.dtype == kFloat32) rounded = x;
  else if (r.dtype == kFloat16) rounded = to_float(from_float<f16>(x));
  else rounded = to_float(from_float<bf16>(x));
  store(static_cast<char*>(to) + at * bytes_of(dtype), dtype, rounded);
}
// A job is a pair or an element.
extern "C" __global__ void __launch_bounds__(256) append_elements(const __grid_constant__ RotaryAppend r) {
  begin_early();
  const int turned = r.size - r.half;
  const i64 jobs = static_cast<i64>(r.heads + r.kv_heads) * turned + static_cast<i64>(r.kv_heads) * r.value_size;
  for (i64 n = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; n < r.tokens * jobs;
       n += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 token = n / jobs;
    const Job job = job_of(r, static_cast<int>(n - token * jobs), turned, r.value_size);
    const HeadRows& rows = job.part == kQuery ? r.query : job.part == kKey ? r.key : r.value;
    const HeadPool& pool = job.part == kKey ? r.keys : r.values;
    const i64 row = row_of(rows, token, job.head);
    i64 place = (token * r.heads + job.head) * r.size, step = 1;
    void* to = r.out;
    int dtype = r.dtype;
    if (job.part != kQuery) {
      place = place_of(r, pool, token, job.head);
      if (place < 0) continue;
      step = pool.step;
      to = pool.data;
      dtype = pool.dtype;
    }
    const int pairs = job.part == kValue ? 0 : r.half;
    if (job.piece >= pairs) {
      const int i = job.piece + pairs;
      put(r, to, dtype, place + i * step, element(r, rows, row, i));
      continue;
    }
    const Turn turn = turn_of(r, token, job.piece);
    const int first = r.interleaved != 0 ? 2 * job.piece : job.piece;
    const int second = r.interleaved != 0 ? first + 1 : r.half + job.piece;
    const float a = element(r, rows, row, first), b = element(r, rows, row, second);
    put(r, to, dtype, place + first * step, a * turn.cosine - b * turn.sine);
    put(r, to, dtype, place + second * step, b * turn.cosine + a * turn.sine);
  }
}
