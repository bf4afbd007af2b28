// linear over NF4: value = d * kNormal4[q].
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"
#include "linear_codes.hpp"

// kNormal4[index] for every lane, index in 0 .. 15.
CLIKA_INLINE vf normal4(vi index) {
#if CLIKA_X86 && CLIKA_LEVEL == 2
  return (vf)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(kNormal4));
#elif CLIKA_X86 && CLIKA_LEVEL == 1
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(kNormal4), (__m256i)index);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(kNormal4 + 8), (__m256i)index);
  return (vf)_mm256_blendv_ps(low, high, (__m256)(index << 28));
#else
  vf out = {};
  for (int r = 0; r < W; ++r) out[r] = kNormal4[index[r]];
  return out;
#endif
}

struct FormatNF4 {
  using Block = BlockNF4;
  static constexpr Codes kCodes = Codes::kFloats;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 0;
  static constexpr bool kMinimum = false;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatNF4(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    const vu words = word_of_run(column, 0, 4 * part + j / 2);
    return neighbours(((words >> 4) & 0x0f0f0f0fu) | ((words << 4) & 0xf0f0f0f0u), j);
  }
  static CLIKA_INLINE vf number(vu words, int c) { return normal4(unsigned_byte(words, c)); }
  CLIKA_INLINE vf scale(int, int) const { return float_of_run(column, 32, 0); }
};

CLIKA_LINEAR_FORMAT(NF4, CLIKA_NF4)
CLIKA_KERNELS(linear_nf4, CLIKA_LINEAR_ENTRY(NF4, CLIKA_NF4))
#include "level_end.hpp"
