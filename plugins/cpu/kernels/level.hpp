// Opens a kernel file. How to add a kernel: write one file kernels/<operator>.cpp and nothing else.
//
//   #include <cmath>          // standard headers first: they must not be compiled for a level
//   #include "level.hpp"      // opens namespace clika_cpu::<level>::<anonymous>, gives simd.hpp
//
//   int32_t run(const clika_call* call) { ... }
//
//   CLIKA_KERNELS(<operator>,  // the stem of the file
//                 Entry("<operator>", run).in(F32 | BF16).out(F32 | BF16))
//   #include "level_end.hpp"
//
// The build compiles the file once per level. On x86-64: CLIKA_LEVEL 0 portable, 1 avx2 with fma and f16c, 2 avx512
// with f, bw, dq, vl and vnni. On arm64: 0 portable, 1 dotprod, 2 i8mm with bf16. The loader takes the entries of
// the best level that the machine has. All entries
// of one operator stand in one file, the preferred first: the first that fits wins. Use `vf` and the
// functions of simd.hpp and one source serves every level; write `#if CLIKA_X86 && CLIKA_LEVEL >= 1` (or CLIKA_ARM)
// around raw intrinsics (never test __AVX2__: the compiler does not define it under the pragma). Shared code goes into a
// header that is included after level.hpp and has no include guard of its own namespace to open. Kernels that gain nothing
// from SIMD stand in kernels/plain/ and are compiled once.
#pragma once

#include "levels.hpp"
#include "prelude.hpp"
#include "registry.hpp"

#define CLIKA_INLINE inline __attribute__((always_inline))
#define CLIKA_NOINLINE __attribute__((noinline))

#if defined(CLIKA_PLAIN)
#define CLIKA_LEVEL_NAME plain
#elif CLIKA_LEVEL == 0
#define CLIKA_LEVEL_NAME portable
#elif CLIKA_LEVEL == 1
#define CLIKA_LEVEL_NAME CLIKA_LEVEL_1
#elif CLIKA_LEVEL == 2
#define CLIKA_LEVEL_NAME CLIKA_LEVEL_2
#else
#error "CLIKA_LEVEL must be 0, 1 or 2"
#endif

// Constant initialization is demanded, not hoped for: see KernelFile.
#if defined(__clang__)
#define CLIKA_CONSTINIT [[clang::require_constant_initialization]]
#else
#define CLIKA_CONSTINIT __constinit
#endif

#define CLIKA_KERNELS(stem, ...)                                                                                    \
  constexpr Entry entries_##stem[] = {__VA_ARGS__};                                                                 \
  }                                                                                                                 \
  extern const KernelFile file_##stem;                                                                              \
  CLIKA_CONSTINIT const KernelFile file_##stem = {entries_##stem, sizeof(entries_##stem) / sizeof(Entry), nullptr}; \
  namespace {

// From here on everything is compiled for the level.
#if CLIKA_X86 && CLIKA_LEVEL == 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#endif
#elif CLIKA_X86 && CLIKA_LEVEL == 2
#if defined(__clang__)
#pragma clang attribute push(                                                                        \
    __attribute__((target("avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target( \
    "avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")
#endif
#elif CLIKA_ARM && CLIKA_LEVEL == 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#elif CLIKA_ARM && CLIKA_LEVEL == 2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod,i8mm,bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm+bf16")
#endif
#endif

namespace clika_cpu {
namespace CLIKA_LEVEL_NAME {
namespace {

#include "simd.hpp"
