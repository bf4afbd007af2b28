// Loads of whole words, and small numbers in them that become floats without a conversion. Each piece of machine code has a
// twin for the emulator of the tests.
#pragma once

#include "tensor_cores.cuh"

struct alignas(8) Words2 {
  u32 x[2];
};
CLIKA_INLINE Words4 words_at(const void* p) { return *static_cast<const Words4*>(p); }
// 16 bytes that nobody reads again: they leave the first cache to the activations.
CLIKA_INLINE Words4 load_once(const void* p) {
#if defined(CLIKA_EMULATED)
  return words_at(p);
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

// A number of up to 23 bits as float32: below 2^23, whose last bit counts 1, and the power taken off. Without a conversion, of
// which the hardware does few at a time.
CLIKA_INLINE float small_to_float(u32 x, int less) { return __uint_as_float(x | 0x4b000000u) - (8388608.0f + less); }
// Byte i of a word.
CLIKA_INLINE float byte_to_float(u32 word, int i, float less = 0.0f) {
  return __uint_as_float(bytes_from(word, 0x4b000000u, 0x7440u + static_cast<u32>(i))) - (8388608.0f + less);
}

// x times a power of two, both halves of which are bfloat16.
CLIKA_INLINE u32 pair_times(u32 x, float by) {
#if defined(CLIKA_EMULATED)
  return pair(to_float(bf16{static_cast<u16>(x)}) * by, to_float(bf16{static_cast<u16>(x >> 16)}) * by, bf16{});
#else
  u32 y;
  const u32 bits = __float_as_uint(by) >> 16;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(bits | bits << 16), "r"(0x80008000u));
  return y;
#endif
}
