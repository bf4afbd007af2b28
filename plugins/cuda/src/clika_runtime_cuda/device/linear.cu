// Products of few tokens with weights, by tensor cores: 16 rows of a weight are the left operand, tokens the right one.
//
// A block takes 16 rows (of a gated product: 16 of both weights) after the other, its warps share the columns step by step,
// and the sums of the warps are added up in order. What a token gets is independent of the others and of their number.
// Codes of packed weights are whole numbers that a 16-bit float holds, so the products of a sub-block are those of the
// codes and take their scale, in float32, afterwards: nothing is rounded but sums. float32 inputs are three bfloat16 whose
// sum they are: three columns of the right operand.
//
// CLIKA_FORM: Dense, or a layout of tiles.cuh; CLIKA_X: bf16, f16 or float, the input's type; CLIKA_TILES: columns of the
// right operand / 8; CLIKA_WEIGHTS: 1, or 2 of a gated product; CLIKA_WARPS: of a multiprocessor.
#include "functions.cuh"
#include "tiles.cuh"

using X = CLIKA_X;
constexpr int kTiles = CLIKA_TILES, kColumns = 8 * kTiles, kWeights = CLIKA_WEIGHTS;

template <class A>
struct OperandOf {
  using Type = A;
  static constexpr int kParts = 1;
};
template <>
struct OperandOf<float> {
  using Type = bf16;
  static constexpr int kParts = 3;
};
using T = OperandOf<X>::Type;
constexpr int kParts = OperandOf<X>::kParts;

// A dense weight [rows, columns] of T; rows lie at multiples of 16 bytes.
struct Dense {
  static constexpr int kStep = 128, kShared = 0;
  static constexpr bool kMinima = false, kFolded = false;
  Words4 row[4][2];

  template <class>
  CLIKA_INLINE void fragments(int b, u32 (&a)[2][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i / 2][2 * (i % 2)] = row[b][0].x[i];
      a[i / 2][2 * (i % 2) + 1] = row[b][1].x[i];
    }
  }
  CLIKA_INLINE void scales(int, float (&)[2][2], float (&)[2]) const {}
};
using Form = CLIKA_FORM;
struct alignas(8) Floats2 {
  float x, y;
};

template <class F>
struct Reader {  // of a tile in the layout of tiles.cuh
  const u8* at;
  int lane;
  CLIKA_INLINE Reader() : at(nullptr), lane(0) {}
  CLIKA_INLINE Reader(const Factor& f, i64 tile, i64 columns, int lane_) : lane(lane_) {
    at = static_cast<const u8*>(f.weight) + tile * ((columns + F::kStep - 1) / F::kStep) * F::kBytes;
  }
  CLIKA_INLINE void load(int step, F* out) const { out->load(at + static_cast<i64>(step) * F::kBytes, lane); }
  CLIKA_INLINE void ask(int step) const {
    if (lane * 128 < F::kBytes) ask_early(at + static_cast<i64>(step) * F::kBytes + lane * 128);
  }
};
template <>
struct Reader<Dense> {
  const T* rows[2];
  int columns, t;
  CLIKA_INLINE Reader() : columns(0), t(0) {}
  CLIKA_INLINE Reader(const Factor& f, i64 tile, i64 columns_, int lane) : columns(static_cast<int>(columns_)), t(lane % 4) {
    for (int h = 0; h < 2; ++h) {
      const i64 row = tile * kTileRows + lane / 4 + 8 * h;
      rows[h] = static_cast<const T*>(f.weight) + (row < f.rows ? row : f.rows - 1) * columns_;
    }
  }
  CLIKA_INLINE void load(int step, Dense* out) const {
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int k = step * Dense::kStep + 32 * b + 8 * t;
#pragma unroll
      for (int h = 0; h < 2; ++h) out->row[b][h] = k < columns ? load_once(rows[h] + k) : Words4{};
    }
  }
  // A lane's quarter of the 256 bytes of its two rows.
  CLIKA_INLINE void ask(int step) const {
    const int k = step * Dense::kStep + 32 * t;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (k < columns) ask_early(rows[h] + k);
    }
  }
};

// Four neighbouring inputs as two pairs of T: of float32 the part that the column stands for.
CLIKA_INLINE float without_top(float x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? 0.0f : x - __uint_as_float(bits & 0xffff0000u);
}
CLIKA_INLINE void load_four(const X* from, int part, u32* to) {
  if constexpr (kParts == 1) {
    const Words2 two = *reinterpret_cast<const Words2*>(from);
    to[0] = two.x[0];
    to[1] = two.x[1];
  } else {
    const Words4 four = *reinterpret_cast<const Words4*>(from);
    float x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = __uint_as_float(four.x[i]);
      if (part > 0) x[i] = without_top(x[i]);
      if (part > 1) x[i] = without_top(x[i]);
    }
    to[0] = upper_halves(x[0], x[1]);
    to[1] = upper_halves(x[2], x[3]);
  }
}

// Eight inputs from `from` on, or four and four that are 16 columns away.
template <bool kNeighbours>
CLIKA_INLINE void load_eight(const X* from, int part, u32 (&to)[4]) {
  if constexpr (kNeighbours && kParts == 1) {
    const Words4 four = *reinterpret_cast<const Words4*>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = four.x[i];
  } else {
    load_four(from, part, to);
    load_four(from + (kNeighbours ? 4 : 16), part, to + 2);
  }
}
CLIKA_INLINE int part_of(int column) { return kParts == 1 ? 0 : column % kParts; }

// The sums of the inputs of every block of 32 columns, which minima are multiplied by: [block][kColumns]. Four neighbours
// of a warp have one sum.
CLIKA_INLINE void add_blocks(const Linear& p, float* sums) {
  const int blocks = static_cast<int>(p.columns / 32), all = blocks * kColumns * 4;
  for (int i = threadIdx.x; i < (all + 31) / 32 * 32; i += blockDim.x) {
    const int block = i / 4 % blocks, column = i / 4 / blocks, token = column / kParts;
    float sum = 0.0f;
    if (i < all && token < p.tokens) {
      u32 x[4];
      load_eight<true>(static_cast<const X*>(p.input) + token * p.columns + block * 32 + i % 4 * 8, part_of(column), x);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sum += to_float(T{static_cast<u16>(x[k])});
        sum += to_float(T{static_cast<u16>(x[k] >> 16)});
      }
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (i < all && i % 4 == 0) sums[block * kColumns + column] = sum;
  }
  __syncthreads();
}

CLIKA_INLINE float bias_of(const Factor& f, i64 row) {
  switch (f.bias == nullptr ? kBool : f.bias_dtype) {
    case kFloat32: return static_cast<const float*>(f.bias)[row];
    case kFloat16: return to_float(static_cast<const f16*>(f.bias)[row]);
    case kBfloat16: return to_float(static_cast<const bf16*>(f.bias)[row]);
    default: return 0.0f;
  }
}

// One step of 16 rows: total[tile of columns] += the weight's numbers times the inputs. `sums` are those of the blocks.
template <class F>
CLIKA_INLINE void add_step(const F& form, const Linear& p, int step, int lane, const int (&rows)[kTiles],
                           const float* sums, float (&total)[kTiles][4]) {
  const int columns = static_cast<int>(p.columns), t = lane % 4;
  // Where a step has one float for all its scales, and one for the minima, they are multiplied by last.
  float codes[kTiles][4] = {}, minima[kTiles][4] = {};
#pragma unroll
  for (int b = 0; b < F::kStep / 32; ++b) {
    u32 a[2][4];
    form.template fragments<T>(b, a);
    float scale[2][2], minimum[2];
    form.scales(b, scale, minimum);
    const int block = step * (F::kStep / 32) + b;
    const int k = block * 32 + (F::kShared == 16 ? 4 * t : 8 * t);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float(&to)[4] = F::kFolded ? codes[n] : total[n];
      u32 x[4] = {};
      if (F::kStep == 256 || k < columns) {  // a step of 256 columns is there or not
        load_eight<F::kShared != 16>(static_cast<const X*>(p.input) + rows[n] + k, part_of(8 * n + lane / 4), x);
      }
      if constexpr (F::kShared == 0 && kParts == 1) {  // no scales
        multiply(to, a[0], x[0], x[1], T{});
        multiply(to, a[1], x[2], x[3], T{});
      } else if constexpr (F::kShared != 16) {  // for float32 inputs the sums of tensor cores, which drop digits, stay short
        float part[4] = {};
        multiply(part, a[0], x[0], x[1], T{});
        multiply(part, a[1], x[2], x[3], T{});
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] += F::kShared == 0 ? part[i] : scale[i / 2][0] * part[i];
      } else {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float part[4] = {};
          multiply(part, a[j], x[2 * j], x[2 * j + 1], T{});
#pragma unroll
          for (int i = 0; i < 4; ++i) to[i] += scale[i / 2][j] * part[i];
        }
      }
      if constexpr (F::kMinima) {
        if (F::kFolded || block * 32 < columns) {
          const Floats2 sum = *reinterpret_cast<const Floats2*>(sums + block * kColumns + 8 * n + 2 * t);
          float(&off)[4] = F::kFolded ? minima[n] : total[n];
#pragma unroll
          for (int i = 0; i < 4; ++i) off[i] -= minimum[i / 2] * (i % 2 == 0 ? sum.x : sum.y);
        }
      }
    }
  }
  if constexpr (F::kFolded) {
    float scale[2], minimum[2];
    form.of_all(scale, minimum);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[n][i] += scale[i / 2] * codes[n][i];
        if constexpr (F::kMinima) total[n][i] += minimum[i / 2] * minima[n][i];
      }
    }
  }
}

// The weight that has a tile, counted over all of them, and its place there.
struct Tile {
  i64 at;
  int which;
  CLIKA_INLINE Tile(const Linear& p, i64 tile) : at(tile), which(0) {
    for (; which + 1 < p.count; ++which) {
      const i64 tiles = (p.factors[which].rows + kTileRows - 1) / kTileRows;
      if (at < tiles) return;
      at -= tiles;
    }
  }
};

// As many warps in a block as a multiprocessor is to hold, at most.
extern "C" __global__ void __launch_bounds__(32 * CLIKA_WARPS) linear_rows(const __grid_constant__ Linear p) {
  CLIKA_DYNAMIC_SHARED(memory);
  float* sums = reinterpret_cast<float*>(memory);  // [warp][weight][16][kColumns], then those of blocks
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int g = lane / 4, t = lane % 4;
  // Where the rows of the thread's columns begin. A column without a token has some other's, and nobody reads its sums.
  int inputs[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int token = (8 * n + g) / kParts;
    inputs[n] = token < p.tokens ? token * static_cast<int>(p.columns) : 0;
  }

  // While a step is worked on the next one is on its way: of the other weight, of the warp's next columns, of the block's
  // next tile.
  const int steps = static_cast<int>((p.columns + Form::kStep - 1) / Form::kStep);
  Form next;
  Reader<Form> first, second;
  const auto open = [&](i64 number) {
    if (number >= p.tiles || warp >= steps) return;
    const Tile tile(p, kWeights == 2 ? 0 : number);
    first = Reader<Form>(p.factors[tile.which], kWeights == 2 ? number : tile.at, p.columns, lane);
    if constexpr (kWeights == 2) second = Reader<Form>(p.factors[1], number, p.columns, lane);
    first.load(warp, &next);
  };
  // Weights are on their way while the kernels before this one still run.
  if (blockIdx.x < p.tiles) {
    const Tile tile(p, kWeights == 2 ? 0 : blockIdx.x);
    for (int w = 0; w < kWeights; ++w) {
      const Reader<Form> early(p.factors[tile.which + w], kWeights == 2 ? blockIdx.x : tile.at, p.columns, lane);
      for (int step = warp; step < steps && step < warp + 2 * warps; step += warps) early.ask(step);
    }
  }
  wait_for_earlier();
  open(blockIdx.x);
  float* of_blocks = sums + warps * kWeights * kTileRows * kColumns;
  if constexpr (Form::kMinima) add_blocks(p, of_blocks);
  for (i64 number = blockIdx.x; number < p.tiles; number += gridDim.x) {
    float total[kWeights][kTiles][4] = {};
    for (int step = warp; step < steps; step += warps) {
#pragma unroll
      for (int w = 0; w < kWeights; ++w) {
        const Form now = next;
        if (w + 1 < kWeights) second.load(step, &next);
        else if (step + warps < steps) first.load(step + warps, &next);
        else open(number + gridDim.x);
        add_step(now, p, step, lane, inputs, of_blocks, total[w]);
      }
    }

    if (number + gridDim.x >= p.tiles) let_next_begin();
    if (number != blockIdx.x) __syncthreads();  // the sums of the tile before have been read
#pragma unroll
    for (int w = 0; w < kWeights; ++w) {
      float* mine = sums + (warp * kWeights + w) * kTileRows * kColumns;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) mine[(g + i / 2 * 8) * kColumns + 8 * n + 2 * t + i % 2] = total[w][n][i];
      }
    }
    __syncthreads();
    const Tile tile(p, kWeights == 2 ? 0 : number);
    const i64 row0 = (kWeights == 2 ? number : tile.at) * kTileRows;
    const i64 rows = p.factors[tile.which].rows;
    for (int i = threadIdx.x; i < kTileRows * p.tokens; i += blockDim.x) {
      const int row = i % kTileRows, token = i / kTileRows;
      if (row0 + row >= rows) continue;
      float result[kWeights];
#pragma unroll
      for (int w = 0; w < kWeights; ++w) {
        float sum = 0.0f;
        for (int k = 0; k < warps; ++k) {
          const float* from = sums + ((k * kWeights + w) * kTileRows + row) * kColumns + token * kParts;
#pragma unroll
          for (int part = kParts - 1; part >= 0; --part) sum += from[part];
        }
        result[w] = sum + bias_of(p.factors[tile.which + w], row0 + row);
      }
      const float y = kWeights == 2 ? activated(result[0], result[kWeights - 1], p.activation) : result[0];
      static_cast<X*>(p.factors[tile.which].out)[token * rows + row0 + row] = from_float<X>(y);
    }
  }
}
