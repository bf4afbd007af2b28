// matmul: batched products of float32, bfloat16 and float16, accumulated in float32 over ascending k. The
// other dtypes stand in plain/matmul.cpp.
#include <array>
#include <utility>

#include "level.hpp"
#include "elementwise.hpp"
#include "gemm.hpp"
#include "product.hpp"

constexpr int kVectors = 2;               // of columns in a panel
constexpr int64_t kPanel = kVectors * W;  // columns
constexpr int kRows = 6;                  // 12 sums in 16 registers

// out[r][c] = sum over k of rows[r][k] * panel[k][c].
template <int R>
void tile(const float* rows, int64_t row_stride, const float* panel, int64_t panel_stride, int64_t n,
          float* out) {
  vf sum[R][kVectors];
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < kVectors; ++i) sum[r][i] = zero();
  }
  for (int64_t k = 0; k < n; ++k) {
    vf column[kVectors];
    for (int i = 0; i < kVectors; ++i) column[i] = load(panel + k * panel_stride + i * W);
    for (int r = 0; r < R; ++r) {
      const vf x = splat(rows[r * row_stride + k]);
      for (int i = 0; i < kVectors; ++i) sum[r][i] = fma(x, column[i], sum[r][i]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int i = 0; i < kVectors; ++i) store(out + r * kPanel + i * W, sum[r][i]);
  }
}

void rows_by_panel(const float* rows, int64_t row_stride, int64_t count, const float* panel,
                   int64_t panel_stride, int64_t n, float* out) {
  switch (count) {
    case 1:
      tile<1>(rows, row_stride, panel, panel_stride, n, out);
      return;
    case 2:
      tile<2>(rows, row_stride, panel, panel_stride, n, out);
      return;
    case 3:
      tile<3>(rows, row_stride, panel, panel_stride, n, out);
      return;
    case 4:
      tile<4>(rows, row_stride, panel, panel_stride, n, out);
      return;
    case 5:
      tile<5>(rows, row_stride, panel, panel_stride, n, out);
      return;
    default:
      tile<6>(rows, row_stride, panel, panel_stride, n, out);
      return;
  }
}

// ------------------------------------------------------------------ large products
// Floats of a line: its own memory, or a copy in `buffer`.
CLIKA_INLINE const float* floats_of(const clika_value& v, LoadTile<float> loader, int64_t offset,
                                    int64_t step, int64_t n, float* buffer) {
  if (v.dtype == CLIKA_FLOAT32 && step == 1) return data_of<float>(v) + offset;
  loader(buffer, v.data, offset, step, n);
  return buffer;
}

// A panel of `count` lines that lie `line` apart, each n elements that lie `step` apart, as [n][width].
template <int width>
void pack_lines(const clika_value& v, LoadTile<float> loader, int64_t offset, int64_t line, int64_t step,
                int64_t count, int64_t n, float* panel) {
  if (line == 1 && step != 1) {  // the lines lie side by side: place by place
    for (int64_t i = 0; i < n; ++i) {
      float* to = panel + i * width;
      if (v.dtype == CLIKA_FLOAT32 && count == width) {
        const float* from = data_of<float>(v) + offset + i * step;
        for (int j = 0; j < width; ++j) to[j] = from[j];
      } else {
        loader(to, v.data, offset + i * step, 1, count);
      }
    }
    return;
  }
  constexpr int64_t kPiece = 64;
  alignas(64) float copies[kTurnedMost][kPiece];
  const float* rows[kTurnedMost];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t piece = std::min(kPiece, n - i);
    for (int64_t r = 0; r < count; ++r) {
      rows[r] = floats_of(v, loader, offset + r * line + i * step, step, piece, copies[r]);
    }
    for (int64_t r = count; r < turned_rows(width); ++r) rows[r] = rows[0];
    turn_rows<width>(rows, piece, panel + i * width);
  }
}

// One product of a batch; see gemm.hpp.
struct Large : PackedRows {
  const MatrixProduct& p;
  MatrixProduct::Batch at;
  LoadTile<float> load_left;
  LoadTile<float> load_right;
  StoreTile<float> storer;
  float* sums;  // [m][n]: the result itself, or a buffer

  void pack_left(int64_t row, int64_t count, int64_t from, int64_t depth, float* panel, int32_t) const {
    pack_lines<kTileRows>(*p.left, load_left, at.left + row * p.left_row + from * p.left_column, p.left_row,
                          p.left_column, count, depth, panel);
  }
  void pack_right(int64_t column, int64_t count, int64_t from, int64_t depth, float* panel,
                  int64_t width) const {
    const int64_t offset = at.right + from * p.right_row + column * p.right_column;
    const auto pack = width == W ? pack_lines<W> : pack_lines<static_cast<int>(kTileColumns)>;
    pack(*p.right, load_right, offset, p.right_column, p.right_row, count, depth, panel);
  }
  void find_rows(int64_t row, int64_t count, float** to) const {
    for (int64_t i = 0; i < count; ++i) to[i] = sums + (row + i) * n;
  }
  bool begin(float* const*, int64_t, int64_t, int64_t) const { return false; }
  void end(float* const* rows, int64_t count, int64_t column, int64_t columns) const {
    if (p.out->dtype == CLIKA_FLOAT32) return;
    for (int64_t i = 0; i < count; ++i) {
      const float* from = rows[i] + column;
      storer(from, p.out->data, at.out + (from - sums), 1, columns);
    }
  }
};

// Whether packing both sides pays.
bool is_large(const MatrixProduct& p) {
  return p.m > 2 * kTileRows && p.n >= W && p.k >= 16 && p.m * p.n >= (1 << 22) / p.k;
}

int32_t run_large(const clika_call* call, const MatrixProduct& p) {
  float* sums = nullptr;
  if (p.out->dtype != CLIKA_FLOAT32) {
    sums = static_cast<float*>(call->core->scratch(call, static_cast<size_t>(p.m * p.n) * sizeof(float)));
    if (sums == nullptr) return CLIKA_UNAVAILABLE;
  }
  const GemmMemory memory(call, p.m, p.n, p.k);
  if (memory.packed == nullptr) return CLIKA_UNAVAILABLE;
  for (int64_t b = 0; b < p.batches; ++b) {
    const MatrixProduct::Batch at = p.batch(b);
    float* to = sums != nullptr ? sums : data_of<float>(*p.out) + at.out;
    const Large product{{p.m, p.n, p.k},
                        p,
                        at,
                        Tiles<float>::loader(p.left->dtype),
                        Tiles<float>::loader(p.right->dtype),
                        Tiles<float>::storer(p.out->dtype),
                        to};
    multiply(call, product, memory);
  }
  return CLIKA_OK;
}

// ------------------------------------------------------------------ small ones
int32_t run(const clika_call* call) {
  const MatrixProduct p(call);
  if (p.batches * p.m * p.n == 0) return CLIKA_OK;
  if (is_large(p)) return run_large(call, p);
  const LoadTile<float> load_left = Tiles<float>::loader(p.left->dtype);
  const LoadTile<float> load_right = Tiles<float>::loader(p.right->dtype);
  const StoreTile<float> storer = Tiles<float>::storer(p.out->dtype);
  const int64_t workers = call->core->num_threads();
  const bool direct_left = p.left->dtype == CLIKA_FLOAT32 && p.left_column == 1;
  const bool direct_right = p.right->dtype == CLIKA_FLOAT32 && p.right_column == 1;
  const int64_t left_room = direct_left ? 0 : kRows * p.k;
  const int64_t room = (left_room + p.k * kPanel + kRows * kPanel + 31) / 16 * 16;
  float* scratch =
      static_cast<float*>(call->core->scratch(call, static_cast<size_t>(room * workers) * sizeof(float)));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t panels = (p.n + kPanel - 1) / kPanel;
  const int64_t work = std::max<int64_t>(1, p.m * p.k * kPanel);
  const int64_t grain = std::max<int64_t>(1, 262144 / work);
  parallel(call, p.batches * panels, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    float* copy = scratch + worker * room;
    float* sums = copy + p.k * kPanel;
    float* row_copy = sums + kRows * kPanel;
    for (int64_t task = begin; task < end; ++task) {
      const MatrixProduct::Batch batch = p.batch(task / panels);
      const int64_t column = task % panels * kPanel;
      const int64_t columns = std::min(kPanel, p.n - column);
      const float* panel = copy;
      int64_t panel_stride = kPanel;
      if (direct_right && columns == kPanel && p.m <= 2 * kRows) {
        panel = data_of<float>(*p.right) + batch.right + column;
        panel_stride = p.right_row;
      } else {
        for (int64_t k = 0; k < p.k; ++k) {
          float* to = copy + k * kPanel;
          load_right(to, p.right->data, batch.right + k * p.right_row + column * p.right_column,
                     p.right_column, columns);
          for (int64_t c = columns; c < kPanel; ++c) to[c] = 0.0f;
        }
      }
      for (int64_t row = 0; row < p.m; row += kRows) {
        const int64_t count = std::min<int64_t>(kRows, p.m - row);
        const float* rows = row_copy;
        int64_t row_stride = p.k;
        if (direct_left) {
          rows = data_of<float>(*p.left) + batch.left + row * p.left_row;
          row_stride = p.left_row;
        } else {
          for (int64_t r = 0; r < count; ++r) {
            load_left(row_copy + r * p.k, p.left->data, batch.left + (row + r) * p.left_row, p.left_column,
                      p.k);
          }
        }
        rows_by_panel(rows, row_stride, count, panel, panel_stride, p.k, sums);
        for (int64_t r = 0; r < count; ++r) {
          storer(sums + r * kPanel, p.out->data, batch.out + (row + r) * p.n + column, 1, columns);
        }
      }
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(matmul,
              Entry("matmul", run).in(FLOATS).out(FLOATS).rank(0, CLIKA_MAX_RANK).parallel())
#include "level_end.hpp"
