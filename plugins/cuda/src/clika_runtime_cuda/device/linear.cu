// Products of few tokens with weights, by tensor cores: rows of a weight are the left operand, tokens the right one.
//
// A block takes the rows of a tile (of a gated product: of both weights) after the other, its warps share the columns step
// by step, and the sums of the warps are added up in order. What a token gets is independent of the others, of their number
// and of where steps and inputs wait: of the warps alone. Every warp has a ring of steps in shared memory, which are on their
// way while it works, or the next step in registers.
//
// Codes of packed weights, which are whole numbers, are the smallest 16-bit floats as they are: the bits of q as bfloat16
// count q times 2^-133, as float16 q times 2^-24. The tensor cores take them without a conversion, and nothing is rounded
// but sums. Inputs in bfloat16 are multiplied by 2^64 for that, so that products stay among the float32 of full precision:
// they must be below 2^64. What a code is to be less by is multiplied by the sum of the inputs of its block, and added
// first; scales follow, in float32. float32 inputs are three bfloat16 whose sum they are: three columns of the right operand.
//
// CLIKA_FORM: Dense, or a layout of tiles.cuh; CLIKA_X: bf16, f16 or float, the input's type; CLIKA_TILES: columns of the
// right operand / 8; CLIKA_WEIGHTS: 1, or 2 of a gated product; CLIKA_ROWS: of a weight in a tile, 16, of a dense one 8 too;
// CLIKA_STAGED: 1 where shared memory holds the inputs; CLIKA_DEPTH: steps in a ring, 0: registers instead.
#include "functions.cuh"
#include "tiles.cuh"

using X = CLIKA_X;
constexpr int kTiles = CLIKA_TILES, kColumns = 8 * kTiles, kWeights = CLIKA_WEIGHTS, kRows = CLIKA_ROWS;
constexpr bool kStaged = CLIKA_STAGED != 0;
constexpr int kDepth = CLIKA_DEPTH;
constexpr int kAsked = 2;  // rounds of steps that are asked for before the kernels before this one are done

template <class A>
struct OperandOf {
  using Type = A;
  static constexpr int kParts = 1;
  static constexpr bool kBrain = true;
};
template <>
struct OperandOf<f16> {
  using Type = f16;
  static constexpr int kParts = 1;
  static constexpr bool kBrain = false;
};
template <>
struct OperandOf<float> {
  using Type = bf16;
  static constexpr int kParts = 3;
  static constexpr bool kBrain = true;
};
using T = OperandOf<X>::Type;
constexpr int kParts = OperandOf<X>::kParts;
constexpr bool kBrain = OperandOf<X>::kBrain;  // the operands are bfloat16


// A dense weight [rows, columns] of T; rows lie at multiples of 16 bytes. The left operand has 16 rows of it, or eight of
// either weight of a gated product.
struct Dense {
  static constexpr int kHalves = 2;
  static constexpr int kStep = 128, kShared = 0, kOffset = 0, kBytes = 2048 * kHalves;
  static constexpr bool kMinima = false, kFolded = false, kSixteenths = false;
  Words4 row[4][kHalves];

  CLIKA_INLINE void load(const u8* step, int lane) {
#pragma unroll
    for (int i = 0; i < 4 * kHalves; ++i) row[i / kHalves][i % kHalves] = words_at(step + 512 * i + 16 * lane);
  }
  template <bool>
  CLIKA_INLINE void fragments(int b, u32 (&a)[2][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) a[i / 2][2 * (i % 2) + h] = row[b][h].x[i];
    }
  }
  CLIKA_INLINE void scales(int, float (&)[2][2], float (&)[2]) const {}
};
using Form = CLIKA_FORM;
constexpr bool kPacked = Form::kShared != 0;
constexpr int kUnits = kRows == 16 ? kWeights : 1;  // left operands of a step
constexpr int kBlock = kPacked ? Form::kShared : 32;  // columns of one scale
// One in a weight's codes counts kTiny, an input kUp: sums are in units of 1 / kBack.
constexpr float kUp = kPacked && kBrain ? 18446744073709551616.0f : 1.0f;                           // 2^64
constexpr float kBack = !kPacked ? 1.0f : kBrain ? 590295810358705651712.0f : 16777216.0f;  // 2^69, 2^24
// Where minima are multiplied on tensor cores too: the bits of one, as bfloat16, are 2^-133, and its factor has 2^24.
constexpr float kMinimaUp = kBrain ? 1099511627776.0f : 38685626227668133590597632.0f;  // 2^40, 2^85
struct alignas(8) Floats2 {
  float x, y;
};

// The tile that a block is at: its weight, of all of them, and its place there.
struct Tile {
  int at, which;
  CLIKA_INLINE explicit Tile(const Linear& p) : at(static_cast<int>(blockIdx.x)), which(0) { settle(p); }
  CLIKA_INLINE void settle(const Linear& p) {
    if constexpr (kWeights == 2) return;
    for (; which + 1 < p.count && at >= p.factors[which].tiles; ++which) at -= p.factors[which].tiles;
  }
  CLIKA_INLINE bool there(const Linear& p) const { return at < p.factors[which].tiles; }
  CLIKA_INLINE void advance(const Linear& p) {
    at += static_cast<int>(gridDim.x);
    settle(p);
  }
};

// A tile's steps in memory.
template <class F>
struct Reader {
  const u8* at[kUnits];
  CLIKA_INLINE void open(const Linear& p, const Tile& tile, int steps, int) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      at[u] = static_cast<const u8*>(p.factors[tile.which + u].weight) + static_cast<i64>(tile.at) * (steps * F::kBytes);
    }
  }
  CLIKA_INLINE const u8* from(int unit, int step) const { return at[unit] + step * F::kBytes; }
  CLIKA_INLINE void load(const Linear&, int unit, int step, int lane, F& to) const { to.load(from(unit, step), lane); }
  CLIKA_INLINE void copy(const Linear&, int unit, int step, int lane, u8* to) const {
    const u8* bytes = from(unit, step) + 16 * lane;
    to += 16 * lane;
#pragma unroll
    for (int i = 0; i < F::kBytes; i += 512) {
      if (i + 512 <= F::kBytes || i + 16 * lane < F::kBytes) copy_async(to + i, bytes + i, true);
    }
  }
  CLIKA_INLINE void ask(const Linear&, int unit, int step, int lane) const {
    if (lane * 128 < F::kBytes) ask_early(from(unit, step) + lane * 128);
  }
};
template <>
struct Reader<Dense> {
  const T* rows[kUnits][2];
  CLIKA_INLINE void open(const Linear& p, const Tile& tile, int, int lane) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Factor& f = p.factors[tile.which + (kRows == 16 ? u : h)];
        const i64 row = static_cast<i64>(tile.at) * kRows + lane / 4 + (kRows == 16 ? 8 * h : 0);
        rows[u][h] = static_cast<const T*>(f.weight) + (row < f.rows ? row : f.rows - 1) * p.columns;
      }
    }
  }
  CLIKA_INLINE void load(const Linear& p, int unit, int step, int lane, Dense& to) const {
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int k = step * Dense::kStep + 32 * b + 8 * (lane % 4);
#pragma unroll
      for (int h = 0; h < 2; ++h) to.row[b][h] = k < p.columns ? load_once(rows[unit][h] + k) : Words4{};
    }
  }
  CLIKA_INLINE void copy(const Linear& p, int unit, int step, int lane, u8* to) const {
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int k = step * Dense::kStep + 32 * b + 8 * (lane % 4);
#pragma unroll
      for (int h = 0; h < 2; ++h) copy_async(to + 512 * (2 * b + h) + 16 * lane, rows[unit][h] + k, k < p.columns);
    }
  }
  // A lane's quarter of the 256 bytes of its rows.
  CLIKA_INLINE void ask(const Linear& p, int unit, int step, int lane) const {
    const int k = step * Dense::kStep + 32 * (lane % 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (k < p.columns) ask_early(rows[unit][h] + k);
    }
  }
};
// What a warp reads, in order: steps of its columns, of the block's tiles.
struct Cursor {
  Reader<Form> reader;
  Tile tile;
  int step;
  bool there;
  CLIKA_INLINE Cursor(const Linear& p, int steps, int warp, int lane) : tile(p), step(warp) { open(p, steps, warp, lane); }
  CLIKA_INLINE void open(const Linear& p, int steps, int warp, int lane) {
    there = warp < steps && tile.there(p);
    if (there) reader.open(p, tile, steps, lane);
  }
  CLIKA_INLINE void advance(const Linear& p, int steps, int warp, int warps, int lane) {
    step += warps;
    if (step < steps) return;
    step = warp;
    tile.advance(p);
    open(p, steps, warp, lane);
  }
};

// Four neighbouring inputs as two pairs of T: of float32 the part that the column stands for.
CLIKA_INLINE float without_top(float x) {
  const u32 bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? 0.0f : x - __uint_as_float(bits & 0xffff0000u);
}
template <class A>
CLIKA_INLINE void load_four(const A* from, int part, u32* to) {
  if constexpr (OperandOf<A>::kParts == 1) {
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
template <bool kNeighbours, class A>
CLIKA_INLINE void load_eight(const A* from, int part, u32 (&to)[4]) {
  if constexpr (kNeighbours && OperandOf<A>::kParts == 1) {
    const Words4 four = *reinterpret_cast<const Words4*>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = four.x[i];
  } else {
    load_four(from, part, to);
    load_four(from + (kNeighbours ? 4 : 16), part, to + 2);
  }
}
CLIKA_INLINE int part_of(int column) { return kParts == 1 ? 0 : column % kParts; }

// Inputs times what the codes lack: the second of four pairs of nibbles is not shifted and counts 16.
CLIKA_INLINE void scale_eight(u32 (&x)[4]) {
  if constexpr (kPacked && kBrain) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = pair_times(x[i], Form::kSixteenths && i % 2 == 1 ? kUp / 16.0f : kUp);
  }
}

// The sums of the inputs of every block, times kSumsBy, for as many columns of the right operand as there are, and one more
// where that is odd. In float32: [block][column]; or, where tensor cores multiply minima, as three bfloat16 whose sum they
// are: [step][column][pair of blocks][part].
constexpr bool kSums = kPacked && (Form::kMinima || Form::kOffset != 0), kSplit = Form::kMinima && Form::kFolded;
constexpr float kSumsBy = kSplit ? kMinimaUp : (Form::kMinima ? 1.0f : -static_cast<float>(Form::kOffset)) / kBack;
CLIKA_INLINE void put_sum(void* sums, int width, int block, int column, float sum) {
  sum *= kSumsBy;
  if constexpr (kSplit) {
    u16* to = static_cast<u16*>(sums) + ((block / 8 * width + column) * 4 + block % 8 / 2) * 8 + block % 2;
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const u32 top = __float_as_uint(sum) & 0xffff0000u;
      to[2 * part] = static_cast<u16>(top >> 16);
      sum -= __uint_as_float(top);
    }
  } else {
    static_cast<float*>(sums)[block * width + column] = sum;
  }
}
CLIKA_INLINE void stage(const Linear& p, int width, u8* inputs, void* sums) {
  const int chunks = static_cast<int>(p.columns / 8), all = chunks * static_cast<int>(p.tokens) * kParts;
  const int stride = staged_stride(static_cast<int>(p.columns));
  for (int i = threadIdx.x; i < (all + 31) / 32 * 32; i += blockDim.x) {
    const int column = i / chunks, chunk = i - column * chunks;
    u32 x[4] = {};
    if (i < all) load_eight<true>(static_cast<const X*>(p.input) + column / kParts * p.columns + chunk * 8, part_of(column), x);
    if constexpr (kSums) {
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sum += to_float(T{static_cast<u16>(x[k])});
        sum += to_float(T{static_cast<u16>(x[k] >> 16)});
      }
      sum += shuffle_xor(sum, 1);
      if constexpr (kBlock == 32) sum += shuffle_xor(sum, 2);
      if (i < all && chunk % (kBlock / 8) == 0) put_sum(sums, width, chunk / (kBlock / 8), column, sum);
    }
    if constexpr (kStaged) {
      scale_eight(x);
      if (i < all) *reinterpret_cast<Words4*>(inputs + column * stride + chunk * 16) = Words4{{x[0], x[1], x[2], x[3]}};
    }
  }
}
// What a lane reads of the right operand: its columns, and the sums that meet its columns of the result. A column without a
// token has some other's, and nobody reads its sums.
struct Inputs {
  const u8* at[kTiles];
  const u8* sums[kTiles];
  int width, lane;
  CLIKA_INLINE Inputs(const Linear& p, int width_, int lane_, const u8* staged, const u8* of_blocks) : width(width_), lane(lane_) {
    const int columns = static_cast<int>(p.columns), last = static_cast<int>(p.tokens) * kParts - 1;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int own = 8 * n + lane / 4, pair = 8 * n + lane % 4 * 2;
      const int column = own > last ? 0 : own;
      at[n] = kStaged ? staged + column * staged_stride(columns)
                      : static_cast<const u8*>(p.input) + static_cast<i64>(column / kParts * columns) * static_cast<int>(sizeof(X));
      sums[n] = of_blocks + (kSplit ? column * 64 + lane % 4 * 16 : (pair > last ? 0 : pair) * 4);
    }
  }
  CLIKA_INLINE void eight(int n, int k, u32 (&x)[4]) const {
    constexpr bool kNeighbours = Form::kShared != 16;
    if constexpr (kStaged) {
      load_eight<kNeighbours>(reinterpret_cast<const T*>(at[n]) + k, 0, x);
    } else {
      load_eight<kNeighbours>(reinterpret_cast<const X*>(at[n]) + k, part_of(8 * n + lane / 4), x);
      scale_eight(x);
    }
  }
  CLIKA_INLINE Floats2 two(int n, int block) const { return *reinterpret_cast<const Floats2*>(sums[n] + block * width * 4); }
  CLIKA_INLINE Words4 split(int n, int step) const { return words_at(sums[n] + step * width * 64); }
};

CLIKA_INLINE float bias_of(const Factor& f, i64 row) {
  switch (f.bias == nullptr ? kBool : f.bias_dtype) {
    case kFloat32: return static_cast<const float*>(f.bias)[row];
    case kFloat16: return to_float(static_cast<const f16*>(f.bias)[row]);
    case kBfloat16: return to_float(static_cast<const bf16*>(f.bias)[row]);
    default: return 0.0f;
  }
}

template <class A>
CLIKA_INLINE void multiply_more(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, A type) {
  multiply_from(d, a, b0, b1, d[0], d[1], d[2], d[3], type);
}

// One step: total[tile of columns] += the weight's numbers times the inputs.
template <class F>
CLIKA_INLINE void add_step(const F& form, int columns, int step, const Inputs& inputs, float (&total)[kTiles][4]) {
  constexpr int kBlocks = F::kStep / 32, kProducts = F::kShared == 16 ? 2 : 1;
  const int t = inputs.lane % 4;
  const auto inputs_of = [&](int b, int n, u32 (&x)[4]) {
    const int block = step * kBlocks + b, k = block * 32 + (F::kShared == 16 ? 4 * t : 8 * t);
    const bool there = F::kStep == 256 || (F::kShared == 0 ? k : block * 32) < columns;  // a step of 256 columns is whole
    x[0] = x[1] = x[2] = x[3] = 0u;
    if (there) inputs.eight(n, k, x);
  };
  // All of a step's are on their way together, where there are registers for them.
  u32 early[kTiles == 1 ? kBlocks : 1][4];
  if constexpr (kTiles == 1) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) inputs_of(b, 0, early[b]);
  }
  // Where a step has one float for all its scales, and one for the minima, they are multiplied by last.
  float codes[kTiles][4] = {};
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const int block = step * kBlocks + b;
    if (F::kStep != 256 && block * 32 >= columns) break;
    u32 a[2][4];
    form.template fragments<!(F::kSixteenths && kBrain)>(b, a);
    float scale[2][2], minimum[2];
    form.scales(b, scale, minimum);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      u32 other[4];
      if constexpr (kTiles != 1) inputs_of(b, n, other);
      const u32(&x)[4] = kTiles == 1 ? early[kTiles == 1 ? b : 0] : other;
      if constexpr (F::kShared == 0 && kParts == 1) {  // no scales
        multiply_more(total[n], a[0], x[0], x[1], T{});
        multiply_more(total[n], a[1], x[2], x[3], T{});
        continue;
      }
      float(&to)[4] = F::kFolded ? codes[n] : total[n];
#pragma unroll
      for (int j = 0; j < kProducts; ++j) {
        Floats2 sum = {0.0f, 0.0f};
        if constexpr (kSums && !kSplit) sum = inputs.two(n, block * kProducts + j);
        const Floats2 from = F::kOffset != 0 ? sum : Floats2{0.0f, 0.0f};
        float part[4];
        multiply_from(part, a[j], x[2 * j], x[2 * j + 1], from.x, from.y, from.x, from.y, T{});
        if constexpr (kProducts == 1) multiply_more(part, a[1], x[2], x[3], T{});
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          to[i] += F::kShared == 0 ? part[i] : scale[i / 2][j] * part[i];
          if constexpr (F::kMinima && !kSplit) to[i] -= minimum[i / 2] * (i % 2 == 0 ? sum.x : sum.y);
        }
      }
    }
  }
  if constexpr (F::kFolded) {
    float scale[2], minimum[2];
    form.of_all(scale, minimum);
    u32 pairs[4];
    if constexpr (kSplit) form.minima(t, pairs);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float low[4];
      if constexpr (kSplit) {
        const Words4 sum = inputs.split(n, step);
        multiply_from(low, pairs, sum.x[2], 0u, 0.0f, 0.0f, 0.0f, 0.0f, bf16{});
        multiply_more(low, pairs, sum.x[0], sum.x[1], bf16{});
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[n][i] += scale[i / 2] * codes[n][i];
        if constexpr (kSplit) total[n][i] -= minimum[i / 2] * low[i];
      }
    }
  }
}

// The sums of a tile over the warps; two tiles take turns in them.
constexpr int kSumRows = kWeights * kRows;
static_assert(kDepth % kUnits == 0, "a place in the ring is of one unit");
// Shared memory: sums of the tiles [2][warp][kSumRows][width], rings [warp][kDepth], sums of blocks, inputs.
extern "C" __global__ void __launch_bounds__(512, 1) linear_rows(const __grid_constant__ Linear p) {
  CLIKA_DYNAMIC_SHARED(memory);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int g = lane / 4, t = lane % 4;
  const int columns = static_cast<int>(p.columns), steps = (columns + Form::kStep - 1) / Form::kStep;
  float* joined = reinterpret_cast<float*>(memory);
  const int width = columns_of(static_cast<int>(p.tokens) * kParts), of_tile = warps * kSumRows * width;
  u8* ring = reinterpret_cast<u8*>(joined + 2 * of_tile) + warp * (kDepth * Form::kBytes);
  u8* sums = reinterpret_cast<u8*>(joined + 2 * of_tile) + warps * (kDepth * Form::kBytes);
  u8* staged = sums + (kPacked ? bytes_of_sums(columns, width) : 0);

  Cursor ahead(p, steps, warp, lane);
  {  // Weights are on their way while the kernels before this one still run.
    Cursor early = ahead;
    for (int k = 0; k < kAsked && early.there; ++k) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) early.reader.ask(p, u, early.step, lane);
      early.advance(p, steps, warp, warps, lane);
    }
  }
  wait_for_earlier();
  if constexpr (kDepth != 0) let_next_begin();
  Form next;
  const auto fetch = [&](int slot, int unit) {
    if (ahead.there) {
      if constexpr (kDepth == 0) ahead.reader.load(p, unit, ahead.step, lane, next);
      else ahead.reader.copy(p, unit, ahead.step, lane, ring + slot * Form::kBytes);
      if (unit == kUnits - 1) ahead.advance(p, steps, warp, warps, lane);
    }
    if constexpr (kDepth != 0) end_copies();
  };
#pragma unroll
  for (int k = 0; k < (kDepth == 0 ? 1 : kDepth); ++k) fetch(k, k % kUnits);
  if constexpr (kStaged || kSums) {
    stage(p, width, staged, sums);
    __syncthreads();
  }
  const Inputs inputs(p, width, lane, staged, sums);
  int slot = 0, turn = 0, half = 0;
  for (Tile tile(p); tile.there(p);) {
    float total[kUnits][kTiles][4] = {};
    for (int step = warp; step < steps; step += warps) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        Form now;
        if constexpr (kDepth == 0) {
          now = next;
          fetch(0, (u + 1) % kUnits);
        } else {
          wait_copies<kDepth - 1>();
          __syncwarp();
          now.load(ring + slot * Form::kBytes, lane);
          __syncwarp();
          fetch(slot, u);
          slot = slot + 1 == kDepth ? 0 : slot + 1;
        }
        add_step(now, columns, step, inputs, total[u]);
      }
    }

    const Tile done = tile;
    tile.advance(p);
    if constexpr (kDepth == 0) {
      if (!tile.there(p)) let_next_begin();
    }
    float* tile_sums = joined + half;
    half = of_tile - half;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float* to = tile_sums + (warp * kSumRows + u * kRows + 8 * h + g) * width + 8 * n + 2 * t;
          if (8 * n + 2 * t < width) *reinterpret_cast<Floats2*>(to) = {total[u][n][2 * h], total[u][n][2 * h + 1]};
        }
      }
    }
    __syncthreads();
    // Another warp's turn with every tile.
    int first = static_cast<int>(threadIdx.x) + 32 * turn;
    if (first >= static_cast<int>(blockDim.x)) first -= static_cast<int>(blockDim.x);
    turn = turn + 1 == warps ? 0 : turn + 1;
    const int row0 = done.at * kRows, row_end = static_cast<int>(p.factors[done.which].rows) - row0;
    for (int i = first; i < kRows * static_cast<int>(p.tokens); i += blockDim.x) {
      const int row = i % kRows, token = i / kRows;
      if (row >= row_end) continue;
      float result[kWeights];
#pragma unroll
      for (int w = 0; w < kWeights; ++w) {
        const float* from = tile_sums + (w * kRows + row) * width + token * kParts;
        float sum = 0.0f;
#pragma unroll 8
        for (int k = 0; k < warps; ++k, from += kSumRows * width) {
#pragma unroll
          for (int part = kParts - 1; part >= 0; --part) sum += from[part];
        }
        result[w] = sum * kBack + bias_of(p.factors[done.which + w], row0 + row);
      }
      const float y = kWeights == 2 ? activated(result[0], result[kWeights - 1], p.activation) : result[0];
      static_cast<X*>(p.factors[done.which].out)[token * p.factors[done.which].rows + row0 + row] = from_float<X>(y);
    }
  }
}
