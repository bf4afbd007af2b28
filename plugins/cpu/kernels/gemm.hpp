// Large products of matrices in float32: c[i][j] = sum over k of a[i][k] * b[k][j], for matmul and
// convolutions. Included after level.hpp.
//
// Both sides are copied into panels: kTileRows rows of the left side (k by k), a few vectors of columns of
// the right side. A tile of sums stays in registers over a block of k; between blocks it waits in the result.
// So every number is one chain of fma over ascending k: blocks, threads and edges change no bit.

#if CLIKA_X86 && CLIKA_LEVEL == 2
constexpr int kTileRows = 14;  // 28 sums and 2 columns in 32 registers; the rows are broadcast from memory
#else
constexpr int kTileRows = 6;  // 12 sums, 2 columns and a broadcast in 16 registers
#endif
constexpr int kTileVectors = 2;
constexpr int64_t kTileColumns = kTileVectors * W;
constexpr int64_t kDepth = 512;        // k of a block: a panel of columns fits the second-level cache
constexpr int64_t kBlockPanels = 20;   // panels of rows that are multiplied before the next ones are packed
constexpr int64_t kPackedMost = int64_t{1} << 24;  // floats of the right side that are packed at a time
constexpr int64_t kSlack = 16;         // floats that packing may write behind a panel

// ------------------------------------------------------------------ the tile
// A tile of sums of R rows and N vectors, of which `columns` <= N * W columns stand in the result.
template <int R, int N>
struct Sums {
  vf at[R][N];

  CLIKA_INLINE Sums(float* const* rows, int64_t column, int64_t columns, bool add) {
    if (add && columns == N * W) {
      for (int r = 0; r < R; ++r) {
        for (int i = 0; i < N; ++i) at[r][i] = load(rows[r] + column + i * W);
      }
      return;
    }
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < N; ++i) {
        const int64_t left_over = std::min<int64_t>(W, columns - i * W);
        at[r][i] = add && left_over > 0 ? load_partial(rows[r] + column + i * W, left_over) : zero();
      }
    }
  }
  CLIKA_INLINE void put(float* const* rows, int64_t column, int64_t columns) const {
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < N; ++i) {
        const int64_t left_over = columns - i * W;
        if (left_over >= W) {
          store(rows[r] + column + i * W, at[r][i]);
        } else if (left_over > 0) {
          store_partial(rows[r] + column + i * W, at[r][i], left_over);
        }
      }
    }
  }
};

// rows[r][column + j] (+)= sum over k of left[k][r] * right[k][j], for R rows and `columns` <= N * W.
template <int R, int N>
CLIKA_NOINLINE void multiply_tile(int64_t depth, const float* left, const float* right, float* const* rows,
                                  int64_t column, int64_t columns, bool add) {
  Sums<R, N> sum(rows, column, columns, add);
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    vf y[N];
    for (int i = 0; i < N; ++i) y[i] = load(right + i * W);
    for (int r = 0; r < R; ++r) {
      const vf x = splat(left[r]);
      for (int i = 0; i < N; ++i) sum.at[r][i] = fma(x, y[i], sum.at[r][i]);
    }
    left += kTileRows;
    right += N * W;
  }
  sum.put(rows, column, columns);
}

using MultiplyTile = void (*)(int64_t, const float*, const float*, float* const*, int64_t, int64_t, bool);
template <int N>
struct TilesOf {
  template <int... R>
  static constexpr std::array<MultiplyTile, sizeof...(R)> make(std::integer_sequence<int, R...>) {
    return {multiply_tile<R + 1, N>...};
  }
};
constexpr auto kNarrowTiles = TilesOf<1>::make(std::make_integer_sequence<int, kTileRows>());
constexpr auto kWideTiles = TilesOf<kTileVectors>::make(std::make_integer_sequence<int, kTileRows>());
inline void multiply_packed(int64_t count, int64_t depth, const float* left, const float* right, bool narrow,
                            float* const* to, int64_t column, int64_t columns, bool add) {
  const auto& tiles = narrow ? kNarrowTiles : kWideTiles;
  tiles[static_cast<size_t>(count - 1)](depth, left, right, to, column, columns, add);
}

// ------------------------------------------------------------------ packing
// Squares of kTurn rows and places: out[i][r] = rows[r][at + i].
#if CLIKA_X86 && CLIKA_LEVEL >= 1
constexpr int64_t kTurn = 8;
using Line = __m256;
CLIKA_INLINE void store_line(float* p, Line x) { _mm256_storeu_ps(p, x); }
CLIKA_INLINE void turn_square(const float* const* rows, int64_t at, Line* out) {
  const __m256 r0 = _mm256_loadu_ps(rows[0] + at);
  const __m256 r1 = _mm256_loadu_ps(rows[1] + at);
  const __m256 r2 = _mm256_loadu_ps(rows[2] + at);
  const __m256 r3 = _mm256_loadu_ps(rows[3] + at);
  const __m256 r4 = _mm256_loadu_ps(rows[4] + at);
  const __m256 r5 = _mm256_loadu_ps(rows[5] + at);
  const __m256 r6 = _mm256_loadu_ps(rows[6] + at);
  const __m256 r7 = _mm256_loadu_ps(rows[7] + at);
  const __m256 a0 = _mm256_unpacklo_ps(r0, r1);
  const __m256 a1 = _mm256_unpackhi_ps(r0, r1);
  const __m256 a2 = _mm256_unpacklo_ps(r2, r3);
  const __m256 a3 = _mm256_unpackhi_ps(r2, r3);
  const __m256 a4 = _mm256_unpacklo_ps(r4, r5);
  const __m256 a5 = _mm256_unpackhi_ps(r4, r5);
  const __m256 a6 = _mm256_unpacklo_ps(r6, r7);
  const __m256 a7 = _mm256_unpackhi_ps(r6, r7);
  const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44);
  const __m256 b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44);
  const __m256 b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44);
  const __m256 b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44);
  const __m256 b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  out[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
  out[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
  out[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
  out[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
  out[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
  out[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
  out[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
  out[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}
#else
constexpr int64_t kTurn = 4;
using Line = vf;
CLIKA_INLINE void store_line(float* p, Line x) { store(p, x); }
CLIKA_INLINE void turn_square(const float* const* rows, int64_t at, Line* out) {
  const vf r0 = load(rows[0] + at);
  const vf r1 = load(rows[1] + at);
  const vf r2 = load(rows[2] + at);
  const vf r3 = load(rows[3] + at);
  const vf a0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const vf a1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const vf a2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const vf a3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  out[0] = __builtin_shufflevector(a0, a2, 0, 1, 4, 5);
  out[1] = __builtin_shufflevector(a0, a2, 2, 3, 6, 7);
  out[2] = __builtin_shufflevector(a1, a3, 0, 1, 4, 5);
  out[3] = __builtin_shufflevector(a1, a3, 2, 3, 6, 7);
}
#endif

// Rows that turn_rows reads for a panel of `width` columns: whole squares.
constexpr int64_t turned_rows(int64_t width) { return (width + kTurn - 1) / kTurn * kTurn; }
constexpr int64_t kTurnedMost = turned_rows(kTileColumns > kTileRows ? kTileColumns : kTileRows);

// panel[k * width + r] = rows[r][k] for n places k. `rows` has turned_rows(width) readable entries. The line
// of a k may reach into the next k, which is written after it: what stands up to kSlack floats behind the
// last k is lost.
template <int width>
CLIKA_NOINLINE void turn_rows(const float* const* rows, int64_t n, float* panel) {
  constexpr int64_t count = turned_rows(width);
  constexpr int64_t squares = width % kTurn == 0 ? 1 : count / kTurn;  // turned before the first is stored
  if (n < kTurn) {
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t r = 0; r < width; ++r) panel[k * width + r] = rows[r][k];
    }
    return;
  }
  // Few rows at a time, so that the memory sees few streams.
  for (int64_t r = 0; r < count; r += squares * kTurn) {
    for (int64_t k = 0; k < n; k += kTurn) {
      if (k + kTurn > n) k = n - kTurn;  // the rest, once more with what stands before it
      Line lines[squares][kTurn];
      for (int64_t s = 0; s < squares; ++s) turn_square(rows + r + s * kTurn, k, lines[s]);
      for (int64_t i = 0; i < kTurn; ++i) {
        for (int64_t s = 0; s < squares; ++s) {
          store_line(panel + (k + i) * width + r + s * kTurn, lines[s][i]);
        }
      }
    }
  }
}

// ------------------------------------------------------------------ the product
// A Problem is PackedRows, or has its own height and tile, and
//   height(row): how many rows the tile that begins at `row` has, a multiple of kTileRows; at most so many
//   pack_left(row, count, from, depth, panel, worker): rows row .. row + count of columns from .. from + depth,
//     as [depth][kTileRows]; what stands in rows beyond count does not matter
//   tile(row, count, from, depth, panel, right, narrow, to, column, columns, add): their product with a panel
//     of columns (narrow: of one vector), from column `column` of the result on
//   pack_right(column, count, from, depth, panel, width): columns column .. column + count as [depth][width];
//     what stands in columns beyond count does not matter either
//   find_rows(row, count, to): where rows of the result lie (float32, column j at to[i][j])
//   begin(to, count, column, columns): false, or true after it has filled this part of the result with what the
//     sums start from
//   end(to, count, column, columns): after this part of the result is whole
struct PackedRows {
  int64_t m;
  int64_t n;
  int64_t k;

  int64_t height(int64_t row) const { return std::min<int64_t>(kTileRows, m - row); }
  void tile(int64_t, int64_t count, int64_t, int64_t depth, const float* panel, const float* right, bool narrow,
            float* const* to, int64_t column, int64_t columns, bool add) const {
    multiply_packed(count, depth, panel, right, narrow, to, column, columns, add);
  }
};

struct GemmPlan {
  int64_t panels;        // of columns
  int64_t row_panels;
  int64_t block_panels;  // of rows, in a task
  int64_t blocks;
  int64_t chunk;         // panels of columns in a task
  int64_t chunks;
};

// Tasks of `block_panels` row panels by `chunk` column panels: the split whose slowest worker is done first.
// A task packs its rows, about as much work as two panels of columns, and streams the columns once: dear for
// few rows.
inline GemmPlan plan_gemm(int64_t m, int64_t n, int64_t workers) {
  GemmPlan best{};
  best.panels = (n + kTileColumns - 1) / kTileColumns;
  best.row_panels = (m + kTileRows - 1) / kTileRows;
  double least = 0.0;
  for (int64_t rows = std::min(kBlockPanels, best.row_panels); rows >= 1; --rows) {
    for (int64_t chunks = 1; chunks <= best.panels && chunks <= 4 * workers; chunks *= 2) {
      GemmPlan p = best;
      p.block_panels = rows;
      p.blocks = (p.row_panels + rows - 1) / rows;
      p.chunk = (p.panels + chunks - 1) / chunks;
      p.chunks = (p.panels + p.chunk - 1) / p.chunk;
      const auto height = static_cast<double>(rows);
      const double task = (height + 0.5) * static_cast<double>(p.chunk) + 2.0 * height;
      const int64_t turns = (p.blocks * p.chunks + workers - 1) / workers;
      const double time = task * (static_cast<double>(turns) + 0.1);  // a late worker leaves part of a task
      if (least == 0.0 || time < least) {
        least = time;
        best = p;
      }
    }
    if (workers == 1) break;  // the most rows at a time
  }
  return best;
}

// What a product of that size needs beside its operands.
struct GemmMemory {
  float* blocks = nullptr;  // of the left side, one for each worker
  float* packed = nullptr;  // of the right side
  int64_t room;             // floats of a block
  int64_t columns;          // that are packed at a time

  // Keeps nothing where scratch could not be had.
  GemmMemory(const clika_call* call, int64_t m, int64_t n, int64_t k) {
    const int64_t workers = call->core->num_threads();
    const int64_t panels = std::min(kBlockPanels, (m + kTileRows - 1) / kTileRows);
    room = (panels * kTileRows * std::min(k, kDepth) + kSlack + 15) / 16 * 16;
    const int64_t fitting = kPackedMost / std::max<int64_t>(1, k * kTileColumns);
    columns = std::min(n, std::max<int64_t>(1, fitting) * kTileColumns);
    const int64_t padded = (columns + kTileColumns - 1) / kTileColumns * kTileColumns;
    const size_t bytes = static_cast<size_t>(padded * k + workers * room) * sizeof(float);
    blocks = static_cast<float*>(call->core->scratch(call, bytes));
    if (blocks != nullptr) packed = blocks + workers * room;
  }
};

// The columns [column, column + columns) of the result.
template <class Problem>
void multiply_columns(const clika_call* call, const Problem& p, int64_t column, int64_t columns,
                      const GemmMemory& memory) {
  const GemmPlan plan = plan_gemm(p.m, columns, call->core->num_threads());
  const int64_t padded = plan.panels * kTileColumns;
  const int64_t depths = (p.k + kDepth - 1) / kDepth;
  const auto width_of = [&](int64_t panel) {
    return columns - panel * kTileColumns <= W ? int64_t{W} : kTileColumns;
  };
  // A panel's block of k: the blocks of k lie one after the other, in each the panels.
  const auto packed_at = [&](int64_t panel, int64_t from, int64_t depth) {
    return memory.packed + from * padded + panel * kTileColumns * depth;
  };
  const int64_t grain = std::max<int64_t>(1, 32768 / (kTileColumns * std::min(p.k + 1, kDepth)));
  parallel(call, plan.panels * depths, grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t panel = i / depths;
      const int64_t from = i % depths * kDepth;
      const int64_t depth = std::min(kDepth, p.k - from);
      const int64_t count = std::min(kTileColumns, columns - panel * kTileColumns);
      p.pack_right(column + panel * kTileColumns, count, from, depth, packed_at(panel, from, depth),
                   width_of(panel));
    }
  });
  const int64_t tasks = plan.blocks * plan.chunks;
  const double work = static_cast<double>(p.m) * static_cast<double>(columns) * static_cast<double>(p.k);
  parallel(call, tasks, work < 1e6 ? tasks : 1, [&](int64_t begin, int64_t end, int32_t worker) {
    float* left = memory.blocks + worker * memory.room;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / plan.chunks * plan.block_panels * kTileRows;
      const int64_t rows = std::min(p.m - first, plan.block_panels * kTileRows);
      const int64_t panel_from = task % plan.chunks * plan.chunk;
      const int64_t panel_to = std::min(plan.panels, panel_from + plan.chunk);
      const int64_t from_column = column + panel_from * kTileColumns;
      const int64_t to_column = column + std::min(columns, panel_to * kTileColumns);
      float* to[kBlockPanels * kTileRows];
      bool add = false;
      for (int64_t r = 0; r < rows; r += kTileRows) {
        p.find_rows(first + r, p.height(first + r), to + r);
        add = p.begin(to + r, p.height(first + r), from_column, to_column - from_column);
      }
      for (int64_t from = 0; from < p.k || (from == 0 && !add); from += kDepth) {
        const int64_t depth = std::min(kDepth, p.k - from);
        for (int64_t r = 0; r < rows; r += kTileRows) {
          p.pack_left(first + r, p.height(first + r), from, depth, left + r * depth, worker);
        }
        for (int64_t panel = panel_from; panel < panel_to; ++panel) {
          const int64_t at = column + panel * kTileColumns;
          const int64_t count = std::min(kTileColumns, to_column - at);
          const float* right = packed_at(panel, from, depth);
          const bool narrow = width_of(panel) == W;
          for (int64_t r = 0; r < rows; r += kTileRows) {
            p.tile(first + r, p.height(first + r), from, depth, left + r * depth, right, narrow, to + r, at, count,
                   add);
          }
        }
        add = true;
      }
      for (int64_t r = 0; r < rows; r += kTileRows) {
        p.end(to + r, p.height(first + r), from_column, to_column - from_column);
      }
    }
  });
}

template <class Problem>
void multiply(const clika_call* call, const Problem& p, const GemmMemory& memory) {
  for (int64_t column = 0; column < p.n; column += memory.columns) {
    multiply_columns(call, p, column, std::min(memory.columns, p.n - column), memory);
  }
}
