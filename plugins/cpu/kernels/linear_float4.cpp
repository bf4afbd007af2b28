// linear over MXFP4_E8M0 and NVFP4_E4M3: e2m1 codes, neighbours in a byte.
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

// kFloat4 + 12.
constexpr int8_t kShifted[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

struct FormatMXFP4_E8M0 {  // value = 2^(e - 128) * kFloat4[q]
  using Block = BlockMXFP4_E8M0;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 1;
  static constexpr int kOffset = 12;
  static constexpr bool kMinimum = false;
  static constexpr bool kLongScale = true;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatMXFP4_E8M0(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int, int j) const {
    return look_up(kShifted, neighbours(word_of_run(column, 0, j / 2), j));
  }
  CLIKA_INLINE vf scale(int, int) const {  // see half_power
    const vu e = byte_of_run(column, 16, 0);
    const vu small = 0x200000u + e * 0x200000u;
    const vu normal = e == 255u ? vu{} + 0x7fc00000u : (e - 1u) << 23;
    return reinterpret_cast<vf>(e < 2u ? small : normal);
  }
};

struct FormatNVFP4_E4M3 {  // value = d * scale * kFloat4[q], in sub-blocks of 16
  using Block = BlockNVFP4_E4M3;
  static constexpr Codes kCodes = Codes::kFiveBits;
  static constexpr int kHalves = 2;
  static constexpr int kOffset = 12;
  static constexpr bool kMinimum = false;
  static constexpr bool kLongScale = true;
  const uint8_t* column;

  CLIKA_INLINE explicit FormatNVFP4_E4M3(const uint8_t* packed) : column(packed) {}
  CLIKA_INLINE vu codes(int part, int j) const {
    return look_up(kShifted, neighbours(word_of_run(column, 0, 4 * part + j / 2), j));
  }
  CLIKA_INLINE vf scale(int part, int half) const {
    const vu bits = (word_of_run(column, 32, 0) >> (16 * part + 8 * half)) & 127u;
    return float_of_run(column, 36, 0) * magnitude_e4m3<-1>(bits);
  }
};

CLIKA_LINEAR_FORMAT(MXFP4_E8M0, CLIKA_MXFP4_E8M0)
CLIKA_LINEAR_FORMAT(NVFP4_E4M3, CLIKA_NVFP4_E4M3)
CLIKA_KERNELS(linear_float4, CLIKA_LINEAR_ENTRY(MXFP4_E8M0, CLIKA_MXFP4_E8M0),
              CLIKA_LINEAR_ENTRY(NVFP4_E4M3, CLIKA_NVFP4_E4M3))
#include "level_end.hpp"
