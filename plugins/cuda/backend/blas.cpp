#include "blas.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "clika_runtime/plugin.h"

namespace clika_cuda {

namespace {

// Types and numbers of the published interface.
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96, "cublasLtMatmulHeuristicResult_t");
constexpr int kReal32 = 0, kReal64 = 1, kReal16 = 2, kReal16b = 14;  // cudaDataType
constexpr int kCompute32 = 68, kCompute64 = 70;                      // cublasComputeType_t; TF32 is another number
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;  // of a product's description
constexpr uint32_t kEpilogueBias = 4;
constexpr int kBatchCount = 5, kBatchStep = 6;                       // of a layout
constexpr int kMostWorkspace = 1, kReductions = 3, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7,
              kAlignmentD = 8;                                       // of a preference
// Partial sums in a workspace, in the compute type: the same bits in every run.
constexpr uint32_t kOrderedReductions = 2;
constexpr size_t kWorkspace = size_t{32} << 20;

#define CLIKA_BLAS_FUNCTIONS(X)                                                                                        \
  X(create, "cublasLtCreate", (void** handle))                                                                         \
  X(product_create, "cublasLtMatmulDescCreate", (void** product, int compute, int scale))                              \
  X(product_set, "cublasLtMatmulDescSetAttribute", (void* product, int attribute, const void* value, size_t bytes))    \
  X(layout_create, "cublasLtMatrixLayoutCreate", (void** layout, int type, uint64_t rows, uint64_t columns, int64_t ld)) \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (void* layout, int attribute, const void* value, size_t bytes))    \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (void* layout))                                                     \
  X(product_destroy, "cublasLtMatmulDescDestroy", (void* product))                                                     \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (void** preference))                                          \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                                            \
    (void* preference, int attribute, const void* value, size_t bytes))                                                \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (void* preference))                                         \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                                       \
    (void* handle, void* product, void* a, void* b, void* c, void* d, void* preference, int wanted, Heuristic* found,  \
     int* count))                                                                                                      \
  X(matmul, "cublasLtMatmul",                                                                                          \
    (void* handle, void* product, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,     \
     const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const Algorithm* algorithm,             \
     void* workspace, size_t workspace_bytes, Stream stream))

struct Library {
#define CLIKA_X(member, symbol, parameters) int(*member) parameters = nullptr;
  CLIKA_BLAS_FUNCTIONS(CLIKA_X)
#undef CLIKA_X
  bool usable = false;
  std::string why;
};

const Library& library() {
  static const Library* opened = [] {
    auto* made = new Library();
    void* found = open_library(settings().cublaslt, &made->why);
    if (found == nullptr) return made;
    made->usable = true;
#define CLIKA_X(member, symbol, parameters)                                              \
  made->member = reinterpret_cast<int(*) parameters>(library_symbol(found, symbol));     \
  if (made->member == nullptr) {                                                         \
    made->usable = false;                                                                \
    made->why = std::string("the library lacks ") + symbol;                              \
  }
    CLIKA_BLAS_FUNCTIONS(CLIKA_X)
#undef CLIKA_X
    return made;
  }();
  return *opened;
}

// A matrix as the library sees it, column by column.
struct Layout {
  int64_t rows = 0, columns = 0, ld = 0;
  int transposed = 0;
};

// The matrix whose element (row, column) lies at row * row_step + column * column_step, seen column by column with
// `columns` of the product as rows: as it is where neighbours in a row lie side by side, else turned.
bool layout_of(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step, Layout* out) {
  if (columns == 1 || column_step == 1) {
    *out = {columns, rows, rows == 1 ? std::max<int64_t>(columns, 1) : row_step, 0};
  } else if (rows == 1 || row_step == 1) {
    *out = {rows, columns, columns == 1 ? std::max<int64_t>(rows, 1) : column_step, 1};
  } else {
    return false;
  }
  return out->ld >= std::max<int64_t>(out->rows, 1);
}

uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return static_cast<uint32_t>(std::min<uintptr_t>(address == 0 ? 256 : address & (~address + 1), 256));
}

// What a product is made ready from, and the ready one.
using Key = std::array<int64_t, 16>;
struct Ready {
  void* product = nullptr;
  void* layouts[3] = {};
  Heuristic found{};
  bool served = false;
};

int type_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_FLOAT64: return kReal64;
    case CLIKA_BFLOAT16: return kReal16b;
    case CLIKA_FLOAT16: return kReal16;
    default: return kReal32;
  }
}

int64_t out_row_of(const Product& p) { return std::max<int64_t>(p.out_row != 0 ? p.out_row : p.n, 1); }

// The right operand is the library's first one: column by column, the product is that of the turned matrices.
bool prepare(const Library& blas, void* handle, const Product& p, const Layout& right, const Layout& left, Ready* out) {
  const int type = type_of(p.dtype);
  const bool wide = p.dtype == CLIKA_FLOAT64;
  if (blas.product_create(&out->product, wide ? kCompute64 : kCompute32, wide ? kReal64 : kReal32) != 0) return false;
  int bad = blas.product_set(out->product, kTransposeA, &right.transposed, sizeof(int)) |
            blas.product_set(out->product, kTransposeB, &left.transposed, sizeof(int));
  if (p.bias != nullptr) {
    bad |= blas.product_set(out->product, kEpilogue, &kEpilogueBias, sizeof(kEpilogueBias)) |
           blas.product_set(out->product, kBiasPointer, &p.bias, sizeof(p.bias));
  }
  const Layout result{p.n, p.m, out_row_of(p), 0};
  const Layout* shapes[3] = {&right, &left, &result};
  const int64_t steps[3] = {p.right_step, p.left_step, p.m * out_row_of(p)};
  for (int i = 0; i < 3; ++i) {
    bad |= blas.layout_create(&out->layouts[i], type, static_cast<uint64_t>(shapes[i]->rows),
                              static_cast<uint64_t>(shapes[i]->columns), shapes[i]->ld);
    if (bad != 0 || p.batches == 1) continue;
    const auto count = static_cast<int32_t>(p.batches);
    bad |= blas.layout_set(out->layouts[i], kBatchCount, &count, sizeof(count)) |
           blas.layout_set(out->layouts[i], kBatchStep, &steps[i], sizeof(steps[i]));
  }
  void* preference = nullptr;
  if (bad != 0 || blas.preference_create(&preference) != 0) return false;
  const size_t most = kWorkspace;
  const uint32_t a = alignment_of(p.right), b = alignment_of(p.left), d = alignment_of(p.out);
  bad = blas.preference_set(preference, kMostWorkspace, &most, sizeof(most)) |
        blas.preference_set(preference, kReductions, &kOrderedReductions, sizeof(kOrderedReductions)) |
        blas.preference_set(preference, kAlignmentA, &a, sizeof(a)) |
        blas.preference_set(preference, kAlignmentB, &b, sizeof(b)) |
        blas.preference_set(preference, kAlignmentC, &d, sizeof(d)) |
        blas.preference_set(preference, kAlignmentD, &d, sizeof(d));
  int count = 0;
  if (bad == 0) {
    bad = blas.heuristic(handle, out->product, out->layouts[0], out->layouts[1], out->layouts[2], out->layouts[2],
                         preference, 1, &out->found, &count);
  }
  blas.preference_destroy(preference);
  return bad == 0 && count > 0 && out->found.state == 0;
}

void drop(const Library& blas, const Ready& ready) {
  for (void* layout : ready.layouts) {
    if (layout != nullptr) blas.layout_destroy(layout);
  }
  if (ready.product != nullptr) blas.product_destroy(ready.product);
}

struct State {
  std::mutex mutex;
  void* handle = nullptr;
  std::map<Key, Ready> ready;
};
constexpr size_t kMostReady = 1024;

}  // namespace

std::string blas_missing() {
  const Library& blas = library();
  return blas.usable ? "" : blas.why;
}

Blas multiply(Device& device, Stream stream, const Product& p, void* (*workspace)(size_t, void*), void* context) {
  const Library& blas = library();
  Layout right, left;
  if (!blas.usable || p.k == 0 || p.batches > INT32_MAX) return Blas::kNotServed;
  if (!layout_of(p.k, p.n, p.right_row, p.right_column, &right)) return Blas::kNotServed;
  if (!layout_of(p.m, p.k, p.left_row, p.left_column, &left)) return Blas::kNotServed;
  static auto* states = new State[kMaxDevices];
  State& state = states[device.index()];
  const Current current(device);
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.handle == nullptr && blas.create(&state.handle) != 0) {
    state.handle = nullptr;
    fail(CLIKA_INTERNAL, "INTERNAL", "cublasLtCreate failed on " + device.name());
    return Blas::kFailed;
  }
  const Key key = {p.dtype, p.m, p.n, p.k, p.batches, p.left_step, p.right_step, right.ld, left.ld, right.transposed,
                   left.transposed, alignment_of(p.right), alignment_of(p.left), alignment_of(p.out), out_row_of(p), p.bias != nullptr};
  auto known = state.ready.find(key);
  if (known == state.ready.end()) {
    if (state.ready.size() >= kMostReady) {
      for (const auto& entry : state.ready) drop(blas, entry.second);
      state.ready.clear();
    }
    known = state.ready.emplace(key, Ready{}).first;
    known->second.served = prepare(blas, state.handle, p, right, left, &known->second);
  }
  const Ready& ready = known->second;
  if (!ready.served) return Blas::kNotServed;
  void* memory = nullptr;
  if (ready.found.workspace != 0) {
    memory = workspace(ready.found.workspace, context);
    if (memory == nullptr) {
      fail(CLIKA_INTERNAL, "OUT_OF_MEMORY", "matmul: no memory for a workspace on " + device.name());
      return Blas::kFailed;
    }
  }
  if (p.bias != nullptr) blas.product_set(ready.product, kBiasPointer, &p.bias, sizeof(p.bias));
  const float one = 1.0f, zero = 0.0f;
  const double wide_one = 1.0, wide_zero = 0.0;
  const bool wide = p.dtype == CLIKA_FLOAT64;
  const int status =
      blas.matmul(state.handle, ready.product, wide ? static_cast<const void*>(&wide_one) : &one, p.right,
                  ready.layouts[0], p.left, ready.layouts[1], wide ? static_cast<const void*>(&wide_zero) : &zero, p.out,
                  ready.layouts[2], p.out, ready.layouts[2], &ready.found.algorithm, memory, ready.found.workspace, stream);
  if (status == 0) return Blas::kDone;
  fail(CLIKA_INTERNAL, "INTERNAL", "cublasLtMatmul failed on " + device.name() + " with status " + std::to_string(status));
  return Blas::kFailed;
}

}  // namespace clika_cuda
