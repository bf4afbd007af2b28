// Arguments of products with weights.
#pragma once

#include "arguments.cuh"

namespace clika_device {

constexpr int kMostFactors = 4;
constexpr int kTileRows = 16;  // rows of a weight that the layout of packed weights and the tensor cores take together

// A weight [rows, columns] of a product, with its bias [rows] (may be null) and its result [tokens, rows].
struct Factor {
  const void* weight;
  const void* bias;
  void* out;
  i64 rows;
  int bias_dtype;
  int tiles;  // that linear.cu divides the rows into
};

// input [tokens, columns] times up to four weights of one form; of a gated product the gate, then the other.
struct Linear {
  const void* input;
  Factor factors[kMostFactors];
  i64 columns, tokens;
  int count;
  int dtype;       // of input and results
  int activation;  // of a gated product: 0 silu, 1 gelu, 2 gelu in its tanh form
  int aligned;     // rows of input and weight lie at multiples of 16 bytes
};

// Columns of the right operand that are kept, a float32 input's parts among them; pairs of them are.
constexpr int columns_of(int columns) { return (columns + 1) / 2 * 2; }
// Room for the sums of blocks of a packed weight's columns.
constexpr int bytes_of_sums(int columns, int width) { return columns / 4 * width; }
// Inputs in shared memory: neighbouring rows begin in different banks.
constexpr int staged_stride(int columns) { return (2 * columns + 127) / 128 * 128 + 64; }

// The gate, which becomes the result, and the other operand of a gated product.
struct Gated {
  void* gate;
  const void* other;
  i64 n;
  int dtype, activation;
};

// Rows of a weight as numbers: all of them from `first` on, or those that ids name.
struct Decode {
  const void* weight;
  const void* ids;
  void* out;
  i64 first, rows, columns;  // of the weight
  i64 count;                 // rows of the result
  Reporter reporter;
  int id_dtype, out_dtype;
};

// A weight between its published form and the layout of tiles.cuh.
struct Repack {
  const void* from;
  void* to;
  i64 rows, columns;
};

}  // namespace clika_device
