// Arguments of the operators that choose tokens. Plain C++ for host and device.
#pragma once

#include "arguments.cuh"

namespace clika_device {

// One value for each row.
struct Column {
  const void* data;
  i64 stride;
};

// Rows of logits, and what is drawn from them.
struct Sampling {
  const void* logits;
  i64 row_stride, step;
  i64 rows, n;
  Column columns[10];  // in the order of the operator's inputs behind the logits
  void* out[3];
  void* parts;         // [rows, splits]: the best of each part of a row; null: the row's block finds it
  float* weights;      // [rows, n]: room for weights that filters change; null where none is asked for
  void* room;          // [rows, most]: tokens that are put in order
  i64 splits, part, most;
  int scale;           // weights are counted in units of 2^-scale
  int dtype;
};

// What a request asks of logits, in place. `spans` says which of `count` ids or tokens are a row's.
struct Adjustment {
  void* logits;
  i64 rows, n, row_stride, step;
  const void* ids;
  const void* values;
  const void* spans;
  i64 count, id_step, value_step, span_row, span_step;
  Column columns[7];
  int* seen;  // [blocks, n], and `said` behind it: counters of tokens
  int* said;
  Reporter reporter;
};

}  // namespace clika_device
