// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

struct Philox {
  u32 word[4];
};

CLIKA_INLINE Philox philox(u64 key, u64 low, u64 high) {
  u32 c0 = static_cast<u32>(low), c1 = static_cast<u32>(low >> 32);
  u32 c2 = static_cast<u32>(high), c3 = static_cast<u32>(high >> 32);
  u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 a = u64{0xD2511F53u} * c0, b = u64{0xCD9E8D57u} * c2;
    c0 = static_cast<u32>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<u32>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<u32>(b);
    c3 = static_cast<u32>(a);
    k0 += 0x9E3779B9u;  // the golden ratio and the square root of 3
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
// 24 bits of a word as a number in [0, 1).
CLIKA_INLINE float unit(u32 word) { return static_cast<float>(word >> 8) * 5.9604644775390625e-8f; }
