// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). Included after level.hpp.
struct Philox {
  uint32_t word[4];
};

inline Philox philox(uint64_t key, uint64_t low, uint64_t high) {
  uint32_t c0 = static_cast<uint32_t>(low);
  uint32_t c1 = static_cast<uint32_t>(low >> 32);
  uint32_t c2 = static_cast<uint32_t>(high);
  uint32_t c3 = static_cast<uint32_t>(high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c0;
    const uint64_t b = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(b);
    c3 = static_cast<uint32_t>(a);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;  // the golden ratio and the square root of 3
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// 24 bits of a word as a number in [0, 1).
CLIKA_INLINE float unit(uint32_t word) { return static_cast<float>(word >> 8) * 5.9604644775390625e-8f; }
