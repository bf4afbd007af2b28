// What the host and the kernels agree on: numbers of dtypes, and the arguments of launches. Plain C++ for both.
#pragma once

namespace clika_device {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// Numbers of plugin.h; table.cpp compares them.
enum Dtype : int {
  kBool = 1,
  kInt8 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kUint8 = 11,
  kUint16 = 12,
  kUint32 = 13,
  kUint64 = 14,
  kFloat16 = 15,
  kBfloat16 = 16,
  kFloat32 = 17,
  kFloat64 = 18,
  kFloat8 = 19,
};

constexpr int kMaxRank = 8;

// What a kernel found wrong with the values it was given. It lies in memory of the host that the device writes to.
enum ReportCode : u32 { kNothing = 0, kIndexOutside = 1, kZeroDivisor = 2, kRefusedValue = 3 };
struct Report {
  u32 claimed;
  u32 code;
  u64 op;  // address of the operator's name on the host
  i64 value, size;
};
struct Reporter {
  Report* to;
  u64 op;
};

// An operand over any strides; a number of the host rides along.
struct Operand {
  const void* data;
  i64 strides[kMaxRank];
  i64 number;
  int dtype;
  int is_number;
};

// One value per element, from up to three operands that are broadcast to the result.
struct Elementwise {
  Operand in[3];
  void* out;
  i64 shape[kMaxRank];
  i64 out_strides[kMaxRank];
  i64 n;
  double f[6];
  i64 i[6];
  Reporter reporter;
  int rank;
  int out_dtype;
};

// Folds of an input over some dims: `kept` gives the place of a result, `gone` the elements of one.
struct Reduction {
  const void* in;
  void* out;
  void* out2;
  i64 kept_shape[kMaxRank], kept_strides[kMaxRank];
  i64 gone_shape[kMaxRank], gone_strides[kMaxRank];
  i64 results, n;
  void* parts;  // of results that several blocks fold: `splits` states each
  i64 splits;
  double f;
  int kept_rank, gone_rank;
  int in_dtype, out_dtype;
};

// Lines along one dim: softmax, argmax and their like. Strides of the other dims in `strides`.
struct Lines {
  const void* in;
  void* out;
  i64 shape[kMaxRank], in_strides[kMaxRank], out_strides[kMaxRank];
  i64 lines, n, in_step, out_step;
  int rank;
  int in_dtype, out_dtype;
};

// Rows of n elements that are normalized, each in one piece. Absent operands are null.
struct Norm {
  const void* in;
  const void* residual;
  const void* in_bias;
  const void* residual_bias;
  const void* weight;
  const void* bias;
  void* out;
  void* sum;
  i64 rows, n;
  float offset, eps;
  int lanes;  // threads of a row that is held in registers
  int dtype;
  int weight_dtype, bias_dtype, in_bias_dtype, residual_bias_dtype;
};

// Rows of a table by ids.
struct Embedding {
  const void* table;
  const void* ids;
  void* out;
  i64 rows, columns, count;
  Reporter reporter;
  int table_dtype, id_dtype, out_dtype;
};

// out[.., i, ..] = in[.., index[..], ..]; strides of the input are 0 along the dim that is indexed.
struct Gather {
  const void* in;
  const void* index;
  void* out;
  i64 shape[kMaxRank], in_strides[kMaxRank], index_strides[kMaxRank], out_strides[kMaxRank];
  i64 n, size, stride;
  Reporter reporter;
  int rank, index_dtype, bytes;
};

// Elements whose places are named by up to eight index tensors, read (index) or written (index_put_).
struct Picked {
  const void* indices[kMaxRank];
  i64 index_strides[kMaxRank][kMaxRank];  // over the result's dims
  i64 sizes[kMaxRank], steps[kMaxRank];   // of the dims that are indexed
  int index_dtypes[kMaxRank];
  void* picked;    // the indexed tensor
  void* other;     // the result, or the values; null: one number for every place
  i64 number;
  i64 shape[kMaxRank], picked_strides[kMaxRank], other_strides[kMaxRank];
  i64 n;
  void* items;     // of a sum: the places in order
  i64* winners;    // of a write: which element of `other` each place gets, so that equal indices have one outcome
  i64 positions;   // places of the index tensors together
  i64 position_strides[kMaxRank];  // over the result's dims
  Reporter reporter;
  int rank, count, bytes, dtype;
};

// start + i * step.
struct Sequence {
  void* out;
  i64 n;
  double start, step;
  i64 whole_start, whole_step;
  int dtype;
};

// Pairs of a head's values turned by angles.
struct Rotary {
  const void* in;
  const void* positions;
  const void* frequencies;  // or the table of cosines
  const void* sines;
  void* out;
  i64 tokens, heads, size, half;
  i64 in_strides[3];
  i64 position_axis, position_step, frequency_axis, frequency_step, sine_axis, sine_step;
  i64 axes, rows;
  Reporter reporter;
  float scale;
  int dtype, position_dtype, cosine_dtype, sine_dtype, interleaved;
};

// A product of matrices, many at once: out[b, i, j] = sum over k of left[b, i, k] * right[b, k, j].
struct Matmul {
  const void* left;
  const void* right;
  void* out;
  i64 batch_shape[kMaxRank], left_batch[kMaxRank], right_batch[kMaxRank];
  i64 batches, m, n, k;
  i64 left_row, left_column, right_row, right_column;
  int batch_rank;
  int dtype;
};

}  // namespace clika_device
#if defined(__CUDACC_RTC__) || defined(CLIKA_EMULATED)
using namespace clika_device;
#endif
