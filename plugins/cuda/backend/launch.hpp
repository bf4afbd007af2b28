// From a call of the core to a launch: the operands of a call in the form of the kernels' arguments, and the launch.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "arguments.cuh"
#include "compiler.hpp"

namespace clika_cuda {

// Shared memory of a multiprocessor while kernels that begin early run: where two of them wanted different parts, the
// second would have to wait for the end of the first.
constexpr int kSharedKib = 132;

// ---------------------------------------------------------------- kernels
// A kernel and its function on every device that has launched it.
class Program {
 public:
  Program(std::string source, std::string defines, std::string symbol)
      : source_(std::move(source)), defines_(std::move(defines)), symbol_(std::move(symbol)) {}
  Function on(Device& device);
  // Of a source whose kernels call begin_early, see prelude.cuh.
  Program* begins_early() {
    early_ = true;
    return this;
  }
  bool early() const { return early_; }
  const std::string& source() const { return source_; }
  const std::string& defines() const { return defines_; }

 private:
  std::string source_, defines_, symbol_;
  bool early_ = false;
  std::array<std::atomic<Function>, kMaxDevices> functions_{};
};

// Every program and every table entry of the backend, filled once by the files of kernels/.
struct Registry {
  std::deque<Program> programs;
  std::vector<clika_kernel> entries;

  Program* program(const std::string& source, const std::string& defines, const std::string& symbol) {
    return &programs.emplace_back(source, defines, symbol);
  }
  // An entry over dense operands of any strides and ranks.
  clika_kernel& entry(const char* op, clika_kernel_fn run, std::initializer_list<uint64_t> inputs, uint64_t outputs,
                      uint32_t flags = CLIKA_STRIDED);
};
const Registry& registry();

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// Puts a kernel on the call's stream. Its one argument is a structure of arguments.cuh. `op` is a constant.
int32_t launch(const clika_call* call, const char* op, Program* program, Grid grid, unsigned threads,
               const void* argument, unsigned shared = 0);
// This thread's failure as the call's error.
int32_t pass_on(const clika_call* call, int32_t status);
int32_t refuse(const clika_call* call, const std::string& message);

inline Device& device_of(const clika_call* call) { return *static_cast<Queue*>(call->stream)->device; }
clika_device::Reporter reporter_of(const clika_call* call, const char* op);
// Blocks that go over n elements, `each` per block, and keep the device busy.
unsigned blocks_for(const clika_call* call, int64_t n, int64_t each);

// ---------------------------------------------------------------- dtypes
constexpr uint64_t bit(int dtype) { return CLIKA_BIT(dtype); }
constexpr uint64_t kFloats3 = bit(CLIKA_FLOAT32) | bit(CLIKA_BFLOAT16) | bit(CLIKA_FLOAT16);
constexpr uint64_t kFloats4 = kFloats3 | bit(CLIKA_FLOAT64);
constexpr uint64_t kInts = bit(CLIKA_INT8) | bit(CLIKA_INT16) | bit(CLIKA_INT32) | bit(CLIKA_INT64) | bit(CLIKA_UINT8) |
                           bit(CLIKA_UINT16) | bit(CLIKA_UINT32) | bit(CLIKA_UINT64);
constexpr uint64_t kBools = bit(CLIKA_BOOL);
constexpr uint64_t kEvery = kFloats4 | kInts | kBools;
constexpr uint64_t kIndex = bit(CLIKA_INT32) | bit(CLIKA_INT64);

enum Compute { kFloat = 0, kDouble = 1, kInt = 2, kUint = 3 };
constexpr const char* kComputeNames[] = {"float", "double", "i64", "u64"};
inline Compute compute_of(int32_t dtype) {
  if (kFloats3 & bit(dtype)) return kFloat;
  if (dtype == CLIKA_FLOAT64) return kDouble;
  return dtype == CLIKA_UINT64 ? kUint : kInt;
}
inline int64_t size_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_INT16: case CLIKA_UINT16: case CLIKA_FLOAT16: case CLIKA_BFLOAT16: return 2;
    case CLIKA_INT32: case CLIKA_UINT32: case CLIKA_FLOAT32: return 4;
    case CLIKA_INT64: case CLIKA_UINT64: case CLIKA_FLOAT64: return 8;
    default: return 1;
  }
}

// ---------------------------------------------------------------- operands
inline int64_t elements(const clika_value& v) {
  int64_t n = 1;
  for (int32_t i = 0; i < v.rank; ++i) n *= v.shape[i];
  return n;
}
inline bool in_one_piece(const clika_value& v) {
  int64_t expected = 1;
  for (int32_t i = v.rank - 1; i >= 0; --i) {
    if (v.shape[i] != 1 && v.strides[i] != expected) return false;
    expected *= v.shape[i];
  }
  return true;
}
inline bool present(const clika_call* call, uint32_t i) {
  return i < call->n_inputs && call->inputs[i].kind != CLIKA_NONE;
}
inline int64_t attr_int(const clika_call* call, uint32_t i, int64_t otherwise) {
  return i < call->n_attrs && call->attrs[i].kind == CLIKA_ATTR_INT ? call->attrs[i].v.i : otherwise;
}
inline double scalar_float(const clika_call* call, uint32_t i, double otherwise) {
  if (i >= call->n_scalars || call->scalars[i].is_none) return otherwise;
  const clika_scalar& s = call->scalars[i];
  return s.is_float ? s.f : static_cast<double>(s.i);
}
inline int64_t scalar_int(const clika_call* call, uint32_t i, int64_t otherwise) {
  if (i >= call->n_scalars || call->scalars[i].is_none) return otherwise;
  const clika_scalar& s = call->scalars[i];
  return s.is_float ? static_cast<int64_t>(s.f) : s.i;
}

// The dims of several operands that are walked together: those of size 1 are left out, and neighbours that lie as one in
// every operand are merged. Operand 0 gives the shape; the others are broadcast to it.
struct Walk {
  int rank = 0;
  int64_t n = 1;
  int64_t shape[CLIKA_MAX_RANK];
  int64_t strides[4][CLIKA_MAX_RANK];

  Walk(const clika_value* const* operands, int count);
};

// An elementwise launch: `in` are broadcast to `out`.
clika_device::Elementwise elementwise_of(const clika_value* const* in, int count, const clika_value& out);

}  // namespace clika_cuda
