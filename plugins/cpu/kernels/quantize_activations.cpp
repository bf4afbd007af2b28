// The quantized activations of linear's fast mode, see quantize_activations.hpp.
#include <cstring>
#include <limits>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "quantize_activations.hpp"

// Lane i of the result is the largest lane of x[i], or the sum of its lanes, for i < n.
template <bool kLargest>
CLIKA_INLINE vi reduce_each(const vi (&x)[W], int64_t n) {
  vi result = {};
  for (int64_t i = 0; i < n; ++i) result[i] = kLargest ? max_lane(x[i]) : sum_lanes(x[i]);
  return result;
}
#if CLIKA_X86 && CLIKA_LEVEL == 2
template <bool kLargest>
CLIKA_INLINE __m512i join(__m512i a, __m512i b) {
  return kLargest ? _mm512_max_epi32(a, b) : _mm512_add_epi32(a, b);
}
template <bool kLargest>
CLIKA_INLINE vi reduce_each(const vi (&x)[W], std::integral_constant<int64_t, W>) {
  __m512i pairs[8];
  for (int i = 0; i < 8; ++i) {
    const __m512i a = (__m512i)x[2 * i];
    const __m512i b = (__m512i)x[2 * i + 1];
    pairs[i] = join<kLargest>(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  }
  __m512i fours[4];  // quarter q of number i: lanes 4 q .. 4 q + 3 of x[4 i .. 4 i + 3]
  for (int i = 0; i < 4; ++i) {
    fours[i] = join<kLargest>(_mm512_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                              _mm512_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
  }
  __m512i eights[2];
  for (int i = 0; i < 2; ++i) {
    eights[i] = join<kLargest>(_mm512_shuffle_i32x4(fours[2 * i], fours[2 * i + 1], 0x44),
                               _mm512_shuffle_i32x4(fours[2 * i], fours[2 * i + 1], 0xee));
  }
  return (vi)join<kLargest>(_mm512_shuffle_i32x4(eights[0], eights[1], 0x88),
                            _mm512_shuffle_i32x4(eights[0], eights[1], 0xdd));
}
#endif

// The nearest integers to x for |x| < 2^22, ties to even: x + 1.5 * 2^23 has them in its last bits.
constexpr float kMagic = 12582912.0f;
CLIKA_INLINE vi to_whole(vf x) { return as_int(x + kMagic) - as_int(splat(kMagic)); }

// Sums of codes over the halves of a block, lane by lane.
template <int H>
CLIKA_INLINE void add_lanes(const vi (&whole)[kBlockLanes], vi (&lanes)[H]) {
  for (int h = 0; h < H; ++h) {
    lanes[h] = whole[h * kBlockLanes / H];
    for (int i = h * kBlockLanes / H + 1; i < (h + 1) * kBlockLanes / H; ++i) lanes[h] += whole[i];
  }
}

// Whether a block with this largest magnitude has codes other than 0: it may be zero, or so small that the inverse
// overflows, or not finite, and then its scale makes the row NaN.
CLIKA_INLINE bool has_codes(float amax) { return amax >= 1e-33f && amax <= std::numeric_limits<float>::max(); }

// The second codes of a block, and their sums.
template <int H, class In>
void refine(const In* x, float amax, CodeSums sums, FineCodes<H>* fine, int32_t (&second)[H]) {
  const float inverse = 127.0f / amax;
  vi whole[kBlockLanes];
  for (int i = 0; i < kBlockLanes; ++i) {
    const vf value = load(x + i * W);
    const vf left = fma(-to_floats(to_whole(value * inverse)), splat(amax * (1.0f / 127.0f)), value);
    whole[i] = to_whole(left * (kFineSteps * inverse));
  }
  store_codes(fine->q, whole);
  vi lanes[H];
  add_lanes(whole, lanes);
  for (int h = 0; h < H; ++h) {
    second[h] = sum_lanes(lanes[h]);
    fine->s[h] = static_cast<uint32_t>(sums.factor * second[h]);
  }
}

// Calls body(b, count) for each run of W blocks, with the count as a constant, and for what is left.
template <class Body>
CLIKA_INLINE void each_run(int64_t blocks, const Body& body) {
  int64_t b = 0;
  for (; b + W <= blocks; b += W) body(b, std::integral_constant<int64_t, W>{});
  if (b < blocks) body(b, blocks - b);
}

// Calls body(k) for the blocks of a run.
template <class Body>
CLIKA_INLINE void each_block(std::integral_constant<int64_t, W>, const Body& body) {
#pragma GCC unroll 16
  for (int64_t k = 0; k < W; ++k) body(k);
}
template <class Body>
CLIKA_INLINE void each_block(int64_t n, const Body& body) {
  for (int64_t k = 0; k < n; ++k) body(k);
}

template <int H, class In>
void quantize_row(const In* x, int64_t blocks, int64_t t, int64_t count, CodeSums sums, uint8_t* tile) {
  const int64_t bytes = act_bytes(H, count);
  auto* second_codes = reinterpret_cast<FineCodes<H>*>(tile + blocks * bytes);
  auto* peaks = reinterpret_cast<float*>(second_codes + blocks * count);
  double squares[4] = {};
  each_run(blocks, [&](int64_t b, auto n) {
    vi most[W];
    each_block(n, [&](int64_t k) {
      most[k] = vi{};
      for (int i = 0; i < kBlockLanes; ++i) {
        // Magnitudes compare as integers, and NaN is the largest of them: it is not lost in the maximum.
        const vi magnitude = as_int(load(x + (b + k) * kBlock + i * W)) & 0x7fffffff;
        most[k] = magnitude > most[k] ? magnitude : most[k];
      }
    });
    const vi largest = reduce_each<true>(most, n);
    float amax[W];
    std::memcpy(amax, &largest, sizeof(amax));
    std::memcpy(peaks + b, amax, static_cast<size_t>(4 * n));
    for (int64_t k = 0; k < n; ++k) squares[k % 4] += static_cast<double>(amax[k]) * static_cast<double>(amax[k]);
  });
  const double bound =
      ((squares[0] + squares[1]) + (squares[2] + squares[3])) * (kFineShare / static_cast<double>(blocks));
  each_run(blocks, [&](int64_t b, auto n) {
    vi lanes[H][W];
    each_block(n, [&](int64_t k) {
      uint8_t* q = tile + (b + k) * bytes + t * kBlock;
      const float amax = peaks[b + k];
      const vf inverse = splat(127.0f / amax);
      vi whole[kBlockLanes];
      for (int i = 0; i < kBlockLanes; ++i) whole[i] = to_whole(load(x + (b + k) * kBlock + i * W) * inverse);
      if (!has_codes(amax)) {
        for (vi& codes : whole) codes = vi{};
      }
      store_codes(q, whole);
      vi own[H];
      add_lanes(whole, own);
      for (int h = 0; h < H; ++h) lanes[h][k] = own[h];
    });
    int32_t first[H][W];
    for (int h = 0; h < H; ++h) {
      const vi sum = reduce_each<false>(lanes[h], n);
      std::memcpy(first[h], &sum, sizeof(sum));
    }
    for (int64_t k = 0; k < n; ++k) {
      const float amax = peaks[b + k];
      const float scale = amax * (1.0f / 127.0f);
      uint8_t* numbers = tile + (b + k) * bytes + count * kBlock;
      std::memcpy(numbers + 4 * t, &scale, 4);
      int32_t second[H] = {};
      if (static_cast<double>(amax) * static_cast<double>(amax) > bound && has_codes(amax)) {
        refine<H>(x + (b + k) * kBlock, amax, sums, second_codes + (b + k) * count + t, second);
        uint32_t refined;
        std::memcpy(&refined, numbers + 4 * count * (1 + H), 4);
        refined |= 1u << t;
        std::memcpy(numbers + 4 * count * (1 + H), &refined, 4);
      }
      for (int h = 0; h < H; ++h) {
        const float sum =
            static_cast<float>(first[h][k]) + static_cast<float>(second[h]) * (1.0f / kFineSteps);
        const uint32_t s =
            sums.scaled ? bits_of(scale * sum) : static_cast<uint32_t>(sums.factor * first[h][k]);
        std::memcpy(numbers + 4 * (count * (1 + h) + t), &s, 4);
      }
    }
  });
}

template <int H, class In>
void quantize_tile(const void* x, int64_t columns, int64_t rows, int64_t count, CodeSums sums, uint8_t* tile) {
  const int64_t blocks = columns / kBlock;
  const int64_t bytes = act_bytes(H, count);
  if (rows < count) {
    std::memset(tile, 0, static_cast<size_t>(blocks * bytes));
  } else {
    for (int64_t b = 0; b < blocks; ++b) std::memset(tile + (b + 1) * bytes - 4, 0, 4);  // nothing is refined yet
  }
  for (int64_t t = 0; t < rows; ++t) {
    quantize_row<H>(static_cast<const In*>(x) + t * columns, blocks, t, count, sums, tile);
  }
}

}  // namespace
CLIKA_CONSTINIT const QuantizeTiles quantize_tiles = {
    {quantize_tile<1, float>, quantize_tile<2, float>},
    {quantize_tile<1, bf16>, quantize_tile<2, bf16>},
    {quantize_tile<1, f16>, quantize_tile<2, f16>},
};
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_quantize_activations;
CLIKA_CONSTINIT const KernelFile file_quantize_activations = {nullptr, 0, nullptr};
namespace {
#include "level_end.hpp"
