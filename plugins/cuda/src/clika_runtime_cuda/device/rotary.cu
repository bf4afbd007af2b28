// rotary and rotary_embedding: pairs of a head's values turned by angles, in float32, rounded once.
#include "prelude.cuh"

CLIKA_INLINE float value(const void* p, int dtype, i64 offset) {
  return load<float>(static_cast<const char*>(p) + offset * bytes_of(dtype), dtype);
}

// One thread per pair; the values behind the last pair pass unchanged.
template <bool kTables>
CLIKA_INLINE void turned(const Rotary& r) {
  const i64 rest = r.size - 2 * r.half;
  const i64 each = r.half + rest;  // threads of a head
  const i64 total = r.tokens * r.heads * each;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < total; at += step) {
    const i64 i = at % each, head = at / each % r.heads, token = at / each / r.heads;
    const i64 from = token * r.in_strides[0] + head * r.in_strides[1];
    const i64 to = (token * r.heads + head) * r.size;
    const int bytes = bytes_of(r.dtype);
    char* out = static_cast<char*>(r.out) + to * bytes;
    if (i >= r.half) {
      const i64 d = r.half + i;
      store(out + d * bytes, r.dtype, value(r.in, r.dtype, from + d * r.in_strides[2]));
      continue;
    }
    float cosine, sine;
    if (kTables) {
      i64 row = token;
      if (r.positions != nullptr) {
        row = load<i64>(static_cast<const char*>(r.positions) + token * r.position_step * bytes_of(r.position_dtype),
                        r.position_dtype);
      }
      if (row < 0 || row >= r.rows) {
        report(r.reporter.to, kIndexOutside, r.reporter.op, row, r.rows);
        row = 0;
        if (r.rows == 0) return;
      }
      cosine = value(r.frequencies, r.cosine_dtype, row * r.frequency_axis + i * r.frequency_step);
      sine = value(r.sines, r.sine_dtype, row * r.sine_axis + i * r.sine_step);
    } else {
      float angle = 0.0f;
      for (i64 a = 0; a < r.axes; ++a) {
        const i64 place = a * r.position_axis + token * r.position_step;
        const float position = static_cast<float>(
            load<i64>(static_cast<const char*>(r.positions) + place * bytes_of(r.position_dtype), r.position_dtype));
        angle += __fmul_rn(position, static_cast<const float*>(r.frequencies)[a * r.frequency_axis + i * r.frequency_step]);
      }
      cosine = cos(angle) * r.scale;
      sine = sin(angle) * r.scale;
    }
    const i64 first = r.interleaved != 0 ? 2 * i : i, second = r.interleaved != 0 ? 2 * i + 1 : r.half + i;
    const float x = value(r.in, r.dtype, from + first * r.in_strides[2]);
    const float y = value(r.in, r.dtype, from + second * r.in_strides[2]);
    store(out + first * bytes, r.dtype, x * cosine - y * sine);
    store(out + second * bytes, r.dtype, y * cosine + x * sine);
  }
}
extern "C" __global__ void by_frequencies(const __grid_constant__ Rotary r) { begin_early(); turned<false>(r); }
extern "C" __global__ void by_tables(const __grid_constant__ Rotary r) { begin_early(); turned<true>(r); }
