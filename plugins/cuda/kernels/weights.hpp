// Weights in every form: dense, packed as published, and packed in the layout of tiles.cuh.
#pragma once

#include "launch.hpp"
#include "linear_arguments.cuh"

namespace clika_cuda {

constexpr int32_t kTiledLayout = 1;
// The schemes that `pack` puts into tiles; the others are read as they are published.
#define CLIKA_TILED(X) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K)

#define CLIKA_X(name, number, columns, bytes) | CLIKA_BIT(number)
constexpr uint64_t kPackedSchemes = 0 CLIKA_SCHEMES(CLIKA_X);
#undef CLIKA_X
constexpr uint64_t kWeightSchemes = CLIKA_BIT(CLIKA_DENSE) | kPackedSchemes;

// Kernels of weights.cu for one form.
struct WeightPrograms {
  Program* decode = nullptr;
  Program* tiles = nullptr;  // of whole tiles
  Program* embedding = nullptr;
  Program* one = nullptr;
  Program* eight = nullptr;
};
// Null after an error: nothing serves the weight's scheme, layout or dtype.
const WeightPrograms* programs_of(const clika_call* call, const clika_value& weight, const char* op);
// CLIKA_OK, or the error of a weight whose shape is not that of whole blocks.
int32_t check_weight(const clika_call* call, const clika_value& weight, const char* op);

// `count` rows of a weight from `first` on, in one piece, in a floating-point dtype.
int32_t decode(const clika_call* call, const char* op, const clika_value& weight, int64_t first, int64_t count, void* out,
               int32_t dtype);

// Repacking, for the backend's table.
int32_t pack_info(const clika_value* weight, int32_t mode, clika_pack_info* out);
int32_t pack(const clika_call* call, int32_t mode);
int32_t unpack(const clika_call* call);

}  // namespace clika_cuda
