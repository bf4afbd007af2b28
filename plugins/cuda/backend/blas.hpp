// Products of matrices by cuBLASLt, opened at run time.
#pragma once

#include <cstdint>

#include "device.hpp"

namespace clika_cuda {

// out[b, i, j] = sum over k of left[b, i, k] * right[b, k, j], of one floating-point dtype; rows of out lie in one piece.
// Strides and offsets count elements. A step between batches of 0 is an operand that all of them share.
struct Product {
  const void* left;
  const void* right;
  void* out;
  int32_t dtype;  // float64, float32, bfloat16 or float16
  int64_t m, n, k;
  int64_t left_row, left_column, right_row, right_column;
  int64_t batches, left_step, right_step;
  int64_t out_row = 0;         // 0: the result is in one piece
  const void* bias = nullptr;  // [n] of the same dtype, added to every row; at a multiple of 16 bytes
};

enum class Blas { kDone, kNotServed, kFailed };  // kFailed: this thread's failure says why

// `workspace(bytes, context)` gives memory of the device for the call, or null. Not served: no library here, strides
// that it does not take, or no algorithm.
Blas multiply(Device& device, Stream stream, const Product& product, void* (*workspace)(size_t bytes, void* context),
              void* context);
// Why there is no library; empty when there is one.
std::string blas_missing();

}  // namespace clika_cuda
