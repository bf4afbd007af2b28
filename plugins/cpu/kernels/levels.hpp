// The instruction sets that kernels are compiled for. Level 0 is `portable`: what every machine of the architecture
// has. A machine of level 2 has level 1 too.
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#define CLIKA_X86 1
#define CLIKA_ARM 0
#define CLIKA_LEVEL_1 avx2    // with fma, f16c, bmi
#define CLIKA_LEVEL_2 avx512  // with f, bw, dq, vl, vnni
#define CLIKA_LEVEL_COUNT 3
#elif defined(__aarch64__) || defined(_M_ARM64)
#define CLIKA_X86 0
#define CLIKA_ARM 1
#define CLIKA_LEVEL_1 dotprod
#define CLIKA_LEVEL_2 i8mm  // with bf16
#define CLIKA_LEVEL_COUNT 3
#else
#define CLIKA_X86 0
#define CLIKA_ARM 0
#define CLIKA_LEVEL_COUNT 1
#endif
