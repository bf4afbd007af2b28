// matmul: batched products of float32, bfloat16 and float16, accumulated in float32 over ascending k. The
// other dtypes stand in plain/matmul.cpp.
#include "level.hpp"
#include "elementwise.hpp"
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

int32_t run(const clika_call* call) {
  const MatrixProduct p(call);
  if (p.batches * p.m * p.n == 0) return CLIKA_OK;
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
