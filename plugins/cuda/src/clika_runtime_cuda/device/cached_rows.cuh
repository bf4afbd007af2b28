// Rows of a cache's pool in any dtype, element by element: floats, float8 e4m3, and Q8_0, blocks of 32 codes behind a
// float16 scale (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include "prelude.cuh"

constexpr int kCodes = 32;      // of a block of Q8_0
constexpr int kCodeBytes = 34;  // the scale comes first

CLIKA_INLINE float from_e4m3(u8 bits) {
  const int exponent = bits >> 3 & 15;
  const float magnitude = (bits & 0x7f) == 0x7f ? CLIKA_NAN
                          : exponent == 0       ? static_cast<float>(bits & 7) * 0.001953125f
                                                : __uint_as_float((exponent + 120u) << 23 | (bits & 7u) << 20);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}
// The nearest, halves to even; beyond 448, infinity included, it is 448.
CLIKA_INLINE u8 to_e4m3(float x) {
  const u32 sign = __float_as_uint(x) >> 24 & 0x80u, magnitude = __float_as_uint(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<u8>(sign | 0x7fu);
  const float kept = fminf(__uint_as_float(magnitude), 448.0f);
  const u32 u = __float_as_uint(kept);
  // From 2^-6 on three bits of the mantissa stay; below, the sum rounds to multiples of 2^-9.
  const u32 normal = ((u + 0x7ffffu + (u >> 20 & 1u)) >> 20) - (120u << 3);
  const u32 small = __float_as_uint(kept + 16384.0f) - __float_as_uint(16384.0f);
  return static_cast<u8>(sign | (u < 121u << 23 ? small : normal));
}

// Element e of the row at offset `at` of a pool: in elements, of Q8_0 in bytes.
CLIKA_INLINE float pool_element(const void* pool, int dtype, i64 at, int e, i64 step) {
  const auto* bytes = static_cast<const u8*>(pool);
  if (dtype == kFloat8) return from_e4m3(bytes[at + e * step]);
  if (dtype != kUint8) return load<float>(bytes + (at + e * step) * bytes_of(dtype), dtype);
  const u8* block = bytes + at + e / kCodes * kCodeBytes;
  const u16 scale = static_cast<u16>(block[0] | block[1] << 8);
  return half_to_float(scale) * static_cast<float>(static_cast<signed char>(block[2 + e % kCodes]));
}
