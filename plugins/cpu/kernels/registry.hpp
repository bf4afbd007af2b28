// How a kernel file contributes to the backend's table. See level.hpp for the recipe.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "clika_runtime/plugin.h"

namespace clika_cpu {

// The repacking of weights, see clika_backend.
struct Repacking {
  int32_t (*pack_info)(const clika_value* weight, int32_t mode, clika_pack_info* out);
  int32_t (*pack)(const clika_call* call, int32_t mode);
  int32_t (*unpack)(const clika_call* call);
};

// What one kernel file gives at one level. It must be constant data: code that ran at load would run
// before the level is known to be safe.
struct KernelFile {
  const clika_kernel* kernels;
  uint32_t n;
  const Repacking* repacking;  // of one file, else NULL
};

// Dtype masks.
constexpr uint64_t F64 = CLIKA_BIT(CLIKA_FLOAT64);
constexpr uint64_t F32 = CLIKA_BIT(CLIKA_FLOAT32);
constexpr uint64_t BF16 = CLIKA_BIT(CLIKA_BFLOAT16);
constexpr uint64_t F16 = CLIKA_BIT(CLIKA_FLOAT16);
constexpr uint64_t FLOATS = F32 | BF16 | F16;  // what the float kernels compute on
constexpr uint64_t FLOATS8 = CLIKA_BIT(CLIKA_FLOAT8_E4M3) | CLIKA_BIT(CLIKA_FLOAT8_E5M2) |
                             CLIKA_BIT(CLIKA_FLOAT8_E4M3FNUZ) | CLIKA_BIT(CLIKA_FLOAT8_E5M2FNUZ);
constexpr uint64_t I32 = CLIKA_BIT(CLIKA_INT32);
constexpr uint64_t I64 = CLIKA_BIT(CLIKA_INT64);
constexpr uint64_t BOOL = CLIKA_BIT(CLIKA_BOOL);
constexpr uint64_t SINTS = CLIKA_BIT(CLIKA_INT8) | CLIKA_BIT(CLIKA_INT16) | I32 | I64;
constexpr uint64_t UINTS =
    CLIKA_BIT(CLIKA_UINT8) | CLIKA_BIT(CLIKA_UINT16) | CLIKA_BIT(CLIKA_UINT32) | CLIKA_BIT(CLIKA_UINT64);
constexpr uint64_t INTS = SINTS | UINTS;  // whole bytes; narrower ones are storage only
constexpr uint64_t DENSE = CLIKA_BIT(CLIKA_DENSE);

// Builder of one table entry. Defaults: every input float32 and dense, output float32, any rank,
// strided inputs. `in(a, b, c)` gives the masks of inputs 0, 1, 2; the last one stands for all further.
struct Entry : clika_kernel {
  constexpr Entry(const char* operator_name, clika_kernel_fn function) : clika_kernel{} {
    op = operator_name;
    name = nullptr;  // the loader fills in "operator (level)"
    run = function;
    workspace = nullptr;
    for (int i = 0; i < 8; ++i) {
      input_dtypes[i] = F32;
      input_schemes[i] = 0;  // dense, as published
    }
    output_dtypes = F32;
    min_rank = 0;
    max_rank = CLIKA_MAX_RANK;
    flags = CLIKA_STRIDED;
    reserved = 0;
  }
  template <class... M>
  constexpr Entry in(M... masks) const {
    Entry e = *this;
    const uint64_t given[] = {static_cast<uint64_t>(masks)...};
    constexpr int n = static_cast<int>(sizeof...(M));
    for (int i = 0; i < 8; ++i) e.input_dtypes[i] = given[i < n ? i : n - 1];
    return e;
  }
  template <class... M>
  constexpr Entry schemes(M... masks) const {
    Entry e = *this;
    const uint64_t given[] = {static_cast<uint64_t>(masks)...};
    constexpr int n = static_cast<int>(sizeof...(M));
    for (int i = 0; i < 8; ++i) e.input_schemes[i] = given[i < n ? i : n - 1];
    return e;
  }
  constexpr Entry out(uint64_t mask) const {
    Entry e = *this;
    e.output_dtypes = mask;
    return e;
  }
  constexpr Entry rank(int32_t lowest, int32_t highest) const {
    Entry e = *this;
    e.min_rank = lowest;
    e.max_rank = highest;
    return e;
  }
  constexpr Entry contiguous() const {  // the core makes every dense input contiguous first
    Entry e = *this;
    e.flags &= ~static_cast<uint32_t>(CLIKA_STRIDED);
    return e;
  }
  constexpr Entry inplace() const {
    Entry e = *this;
    e.flags |= CLIKA_INPLACE;
    return e;
  }
  constexpr Entry parallel() const {
    Entry e = *this;
    e.flags |= CLIKA_PARALLEL;
    return e;
  }
  constexpr Entry with_workspace(size_t (*bytes)(const clika_call*)) const {
    Entry e = *this;
    e.workspace = bytes;
    return e;
  }
  constexpr Entry named(const char* kernel_name) const {
    Entry e = *this;
    e.name = kernel_name;
    return e;
  }
};

// ------------------------------------------------------------------ helpers for kernels
inline int64_t elements(const clika_value& v) {
  int64_t n = 1;
  for (int32_t i = 0; i < v.rank; ++i) n *= v.shape[i];
  return n;
}

inline bool is_contiguous(const clika_value& v) {
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

inline int32_t fail(const clika_call* call, int32_t status, const char* code, const char* message) {
  return call->core->set_error(call, status, code, message);
}

// The same with a message in the manner of printf: what was received belongs into it.
inline __attribute__((format(printf, 2, 3))) int32_t refuse(const clika_call* call, const char* format, ...) {
  char text[240];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  return fail(call, CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT", text);
}

// Runs body(begin, end, worker) over [0, n): on the caller alone when n is at most `grain`, so that small
// work never pays for a parallel region. The body must give the same bits for every split.
template <class Body>
inline void parallel(const clika_call* call, int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  if (n <= grain) {
    body(int64_t{0}, n, int32_t{0});
    return;
  }
  call->core->parallel_for(
      call, n, grain,
      [](void* arg, int64_t begin, int64_t end, int32_t worker) {
        (*static_cast<const Body*>(arg))(begin, end, worker);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace clika_cpu
