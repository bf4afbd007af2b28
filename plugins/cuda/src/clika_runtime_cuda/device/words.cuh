// Loads of whole words, and small numbers in them that become floats without a conversion. Each piece of machine code has a
// twin for the emulator of the tests.
#pragma once

#include "tensor_cores.cuh"

struct alignas(8) Words2 {
  u32 x[2];
};
// 16 bytes that nobody reads again: they leave the first cache to the activations.
CLIKA_INLINE Words4 load_once(const void* p) {
#if defined(CLIKA_EMULATED)
  return *static_cast<const Words4*>(p);
#else
  Words4 x;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(x.x[0]), "=r"(x.x[1]), "=r"(x.x[2]), "=r"(x.x[3])
      : "l"(p));
  return x;
#endif
}

// Bytes of two words, picked by the digits of `which`: 0 .. 3 are a's, 4 .. 7 b's.
CLIKA_INLINE u32 bytes_from(u32 a, u32 b, u32 which) { return __byte_perm(a, b, which); }
// The upper halves of two float32, one behind the other.
CLIKA_INLINE u32 upper_halves(float low, float high) {
  return bytes_from(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

// (x & mask) | base in one operation, which the compiler does not find when both are constants.
CLIKA_INLINE u32 and_or(u32 x, u32 mask, u32 base) {
#if defined(CLIKA_EMULATED)
  return (x & mask) | base;
#else
  u32 y;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(y) : "r"(x), "r"(mask), "r"(base));
  return y;
#endif
}
// Byte i of a word as float32: below 2^23, whose last bit counts 1, and the power taken off. Without a conversion, of which
// the hardware does few at a time.
CLIKA_INLINE float byte_to_float(u32 word, int i, float less = 0.0f) {
  return __uint_as_float(bytes_from(word, 0x4b000000u, 0x7440u + static_cast<u32>(i))) - (8388608.0f + less);
}

// ---------------------------------------------------------------- pairs of 16-bit floats
// Whole numbers are put below a power of two whose last bit counts 1: they become a float by one OR, and a subtraction,
// which is exact, takes the power off.
template <class T>
struct Pairs;
template <>
struct Pairs<bf16> {
  static constexpr u32 kBase = 0x43004300u;  // 128: numbers of seven bits
  static constexpr float kBaseValue = 128.0f;
  static constexpr u32 kOnes = 0x3f803f80u;
};
template <>
struct Pairs<f16> {
  static constexpr u32 kBase = 0x64006400u;  // 1024: numbers of ten bits
  static constexpr float kBaseValue = 1024.0f;
  static constexpr u32 kOnes = 0x3c003c00u;
};
// x + by, both halves.
template <class T>
CLIKA_INLINE u32 pair_plus(u32 x, float by) {
#if defined(CLIKA_EMULATED)
  return pair(to_float(T{static_cast<u16>(x)}) + by, to_float(T{static_cast<u16>(x >> 16)}) + by, T{});
#else
  u32 y;
  const u32 second = pair(by, by, T{});
  if constexpr (Pairs<T>::kBase == Pairs<bf16>::kBase) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(Pairs<bf16>::kOnes), "r"(second));
  } else {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(second));
  }
  return y;
#endif
}
