// Rows of weights as numbers, and products with them one number at a time: every scheme as it is published, every layout of
// tiles.cuh, and dense weights. CLIKA_WEIGHT: Published<..>, Tiled<..> or Plain<..>.
#include "tiles.cuh"

template <class B>
struct Published {
  static constexpr bool kTiles = false;
  const u8* data;
  i64 blocks;
  CLIKA_INLINE Published(const void* weight, i64 columns)
      : data(static_cast<const u8*>(weight)), blocks(columns / B::kColumns) {}
  CLIKA_INLINE float value(i64 row, i64 c) const {
    return B::value(data + (row * blocks + c / B::kColumns) * B::kBytes, static_cast<int>(c % B::kColumns));
  }
  CLIKA_INLINE void eight(i64 row, i64 c, bool, float* out) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = value(row, c + i);
  }
};
template <class F>
struct Tiled {
  using Form = F;
  static constexpr bool kTiles = true;
  const u8* data;
  i64 steps;
  CLIKA_INLINE Tiled(const void* weight, i64 columns)
      : data(static_cast<const u8*>(weight)), steps((columns + F::kStep - 1) / F::kStep) {}
  CLIKA_INLINE float value(i64 row, i64 c) const {
    return F::value(data + (row / kTileRows * steps + c / F::kStep) * F::kBytes, static_cast<int>(row % kTileRows),
                    static_cast<int>(c % F::kStep));
  }
  CLIKA_INLINE void eight(i64 row, i64 c, bool, float* out) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = value(row, c + i);
  }
};
// Eight neighbours; `aligned` says that they lie at a multiple of 16 bytes.
template <class A>
CLIKA_INLINE void eight_of(const A* from, bool aligned, float* out) {
  if (aligned) {
    A x[8];
    Words4 words[sizeof(x) / 16];
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(x) / 16); ++i) words[i] = reinterpret_cast<const Words4*>(from)[i];
    memcpy(x, words, sizeof(x));
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = to_float(x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = to_float(from[i]);
  }
}
template <class A>
struct Plain {
  static constexpr bool kTiles = false;
  const A* data;
  i64 columns;
  CLIKA_INLINE Plain(const void* weight, i64 columns_) : data(static_cast<const A*>(weight)), columns(columns_) {}
  CLIKA_INLINE float value(i64 row, i64 c) const { return to_float(data[row * columns + c]); }
  CLIKA_INLINE void eight(i64 row, i64 c, bool aligned, float* out) const {
    eight_of(data + row * columns + c, aligned, out);
  }
};
using Weight = CLIKA_WEIGHT;

CLIKA_INLINE void decode_row(const Decode& d, const Weight& weight, i64 row, i64 to, i64 from, i64 step) {
  const int bytes = bytes_of(d.out_dtype);
  char* out = static_cast<char*>(d.out) + to * d.columns * bytes;
  for (i64 c = from * 8; c < d.columns; c += step * 8) {
    if (c + 8 > d.columns) {
      for (; c < d.columns; ++c) store(out + c * bytes, d.out_dtype, weight.value(row, c));
      return;
    }
    float x[8];
    weight.eight(row, c, false, x);
    if (bytes == 2 && d.columns % 8 == 0 && reinterpret_cast<u64>(d.out) % 16 == 0) {
      Words4 words;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words.x[i] = d.out_dtype == kFloat16 ? pair(x[2 * i], x[2 * i + 1], f16{}) : pair(x[2 * i], x[2 * i + 1], bf16{});
      }
      *reinterpret_cast<Words4*>(out + c * bytes) = words;
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) store(out + (c + i) * bytes, d.out_dtype, x[i]);
    }
  }
}

// Rows from `first` on: a block per row and 2048 columns.
extern "C" __global__ void __launch_bounds__(256) decode_rows(const __grid_constant__ Decode d) {
  const Weight weight(d.weight, d.columns);
  const i64 pieces = (d.columns + 2047) / 2048;
  const i64 row = blockIdx.x / pieces, piece = blockIdx.x % pieces;
  decode_row(d, weight, d.first + row, row, piece * 256 + threadIdx.x, pieces * 256);
}

// Tiles of a layout from that of row `first` on, which begins one, to one of the dtypes float32, bfloat16 and float16: a warp
// per step, a thread eight numbers of two rows at a time.
template <class A, int kCount>
CLIKA_INLINE void put(A* to, const float* x) {
  A y[kCount];
  Words2 words[sizeof(y) / 8];
#pragma unroll
  for (int i = 0; i < kCount; ++i) y[i] = from_float<A>(x[i]);
  memcpy(words, y, sizeof(y));
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(y) / 8); ++i) reinterpret_cast<Words2*>(to)[i] = words[i];
}
template <class F, class A>
CLIKA_INLINE void decode_step(const Decode& d, i64 tile, i64 step, i64 steps, int lane) {
  F form;
  form.load(static_cast<const u8*>(d.weight) + ((d.first / kTileRows + tile) * steps + step) * F::kBytes, lane);
  float scales[2] = {1.0f, 1.0f}, minima[2] = {1.0f, 1.0f};
  if constexpr (F::kFolded) form.of_all(scales, minima);
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int b = 0; b < F::kStep / 32; ++b) {
    u32 a[2][4];
    form.template fragments<true>(b, a);
    float scale[2][2] = {}, minimum[2] = {};
    form.scales(b, scale, minimum);
    const i64 c = step * F::kStep + 32 * b;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float x[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u32 pair = a[i / 2][2 * (i % 2) + h];
        const float by = scales[h] * scale[h][F::kShared == 16 ? i / 2 : 0], less = minima[h] * minimum[h];
        x[2 * i] = by * small_to_float(pair & 0xffffu, F::kOffset);
        x[2 * i + 1] = by * small_to_float(pair >> 16, F::kOffset);
        if constexpr (F::kMinima) {
          x[2 * i] -= less;
          x[2 * i + 1] -= less;
        }
      }
      const i64 row = tile * kTileRows + g + 8 * h;
      if (row >= d.count || c >= d.columns) continue;
      A* to = static_cast<A*>(d.out) + row * d.columns + c;
      if constexpr (F::kShared == 16) {
        put<A, 4>(to + 4 * t, x);
        put<A, 4>(to + 16 + 4 * t, x + 4);
      } else {
        put<A, 8>(to + 8 * t, x);
      }
    }
  }
}
template <class W>
CLIKA_INLINE void decode_all(const Decode& d) {
  if constexpr (W::kTiles) {
    using F = typename W::Form;
    const i64 steps = (d.columns + F::kStep - 1) / F::kStep;
    const i64 at = static_cast<i64>(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const i64 tile = at / steps, step = at % steps;
    if (tile * kTileRows >= d.count) return;
    const int lane = threadIdx.x & 31;
    if (d.out_dtype == kFloat32) decode_step<F, float>(d, tile, step, steps, lane);
    else if (d.out_dtype == kFloat16) decode_step<F, f16>(d, tile, step, steps, lane);
    else decode_step<F, bf16>(d, tile, step, steps, lane);
  }
}
extern "C" __global__ void __launch_bounds__(256) decode_tiles(const __grid_constant__ Decode d) { decode_all<Weight>(d); }

// Rows by ids: a block per id.
extern "C" __global__ void __launch_bounds__(256) embedding_rows(const __grid_constant__ Decode d) {
  const Weight weight(d.weight, d.columns);
  i64 id = load<i64>(static_cast<const char*>(d.ids) + static_cast<i64>(blockIdx.x) * bytes_of(d.id_dtype), d.id_dtype);
  if (id < 0 || id >= d.rows) {
    if (threadIdx.x == 0) report(d.reporter.to, kIndexOutside, d.reporter.op, id, d.rows);
    if (d.rows == 0) return;
    id = 0;
  }
  decode_row(d, weight, id, blockIdx.x, threadIdx.x, blockDim.x);
}

// A warp per row; lanes take eight columns each in turn, and their sums are folded.
template <int kTokens, class X>
CLIKA_INLINE void product_of(const Linear& p) {
  const Factor& f = p.factors[0];
  const Weight weight(f.weight, p.columns);
  const int lane = threadIdx.x & 31;
  const i64 row = static_cast<i64>(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (row >= f.rows) return;  // a whole warp
  const X* input = static_cast<const X*>(p.input);
  float sum[kTokens] = {};
  i64 c = lane * 8;
#pragma unroll 2
  for (; c + 8 <= p.columns; c += 256) {
    float w[8];
    weight.eight(row, c, p.aligned != 0, w);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= p.tokens) break;
      float x[8];
      eight_of(input + t * p.columns + c, p.aligned != 0, x);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[t] += w[i] * x[i];
    }
  }
  for (; c < p.columns; ++c) {  // of the one lane that has a rest
    const float w = weight.value(row, c);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t < p.tokens) sum[t] += w * to_float(input[t * p.columns + c]);
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if (t >= p.tokens) break;
    float y = sum[t];
    for (int step = 16; step > 0; step >>= 1) y += shuffle_xor(y, step);
    if (lane != 0) continue;
    if (f.bias != nullptr) {
      y += load<float>(static_cast<const char*>(f.bias) + row * bytes_of(f.bias_dtype), f.bias_dtype);
    }
    static_cast<X*>(f.out)[t * f.rows + row] = from_float<X>(y);
  }
}
template <int kTokens>
CLIKA_INLINE void product(const Linear& p) {
  if (p.dtype == kFloat32) product_of<kTokens, float>(p);
  else if (p.dtype == kFloat16) product_of<kTokens, f16>(p);
  else product_of<kTokens, bf16>(p);
}
extern "C" __global__ void __launch_bounds__(256) products_one(const __grid_constant__ Linear p) { product<1>(p); }
extern "C" __global__ void __launch_bounds__(256) products_eight(const __grid_constant__ Linear p) { product<8>(p); }
