// Products of linear by the tile instructions of AMX: int8 over unpacked panels, and bfloat16 times bfloat16.
//
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18. A tile is up to 16 rows of 64
// bytes. tdpbsud adds the products of 16 rows of signed bytes with 16 columns of unsigned ones, four to a word, to 16
// times 16 int32; tdpbf16ps those of pairs of bfloat16 to float32.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"

#if CLIKA_X86 && CLIKA_LEVEL == 2 && defined(__linux__)
#define CLIKA_AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))

// The layout of ldtilecfg.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t count, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(count);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};

// Whether the machine has the tiles, the system lends them to this process, and CLIKA_RT_CPU_AMX asks for them.
bool ask_for_tiles() {
  const char* wanted = std::getenv("CLIKA_RT_CPU_AMX");
  if (wanted == nullptr || wanted[0] != '1' || wanted[1] != '\0') return false;
  uint32_t a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const uint32_t needed = (1u << 22) | (1u << 24) | (1u << 25);  // bf16, tile, int8
  if ((d & needed) != needed) return false;
  uint32_t low;
  uint32_t high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low >> 17 & 3u) != 3u) return false;
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// ---- int8
constexpr int kTileTokens = 16;

// As multiply_unpacked of linear_panels.cpp, for one group: the same int32, and the same floats in the same order.
template <int H, bool kMinimum, bool kWhole>
CLIKA_AMX void multiply_tiles(const uint8_t* panel, int64_t parts, const uint8_t* tokens, float* sums, int64_t count) {
  using Part = PanelPart<Codes::kUnsigned, H, kMinimum>;
  constexpr int kWords = 8 / H;
  const int64_t T = kWhole ? kTileTokens : count;
  const int64_t act = act_bytes(H, T);
  TileShapes shapes;
  shapes.set(0, T, 64);
  shapes.set(1, T, 4 * kWords);
  shapes.set(2, kWords, 64);
  _tile_loadconfig(&shapes);
  // A stored tile can be read some time later only: products run ahead of what is made of them.
  constexpr int kAhead = 2;
  alignas(64) int32_t totals[kAhead + 1][kTileTokens * W];
  const int64_t steps = parts * H;
  const auto multiply = [&](int64_t step) CLIKA_AMX {
    const int64_t i = step / H;
    const int64_t h = step % H;
    _tile_zero(0);
    _tile_loadd(1, tokens + i * act + h * 4 * kWords, kBlock);
    _tile_loadd(2, panel + i * Part::kBytes + h * kWords * 64, 64);
    _tile_dpbsud(0, 1, 2);
    _tile_stored(0, totals[step % (kAhead + 1)], 64);
  };
  vf sum[kTileTokens];
  vf scaled[kTileTokens];  // the products of a part
#pragma GCC unroll 16
  for (int64_t t = 0; t < T; ++t) sum[t] = load(sums + t * W);
  for (int64_t step = 0; step < std::min<int64_t>(kAhead, steps); ++step) multiply(step);
  for (int64_t step = 0; step < steps; ++step) {
    if (step + kAhead < steps) multiply(step + kAhead);
    const int64_t i = step / H;
    const int h = static_cast<int>(step % H);
    const Part part{panel + i * Part::kBytes};
    const uint8_t* block = tokens + i * act;
    const float* d = reinterpret_cast<const float*>(block + T * kBlock);
    const uint32_t* s = reinterpret_cast<const uint32_t*>(d + T);  // of [half][token]
    const int32_t* products = totals[step % (kAhead + 1)];
    const vf scale = part.scale(0, h);
#pragma GCC unroll 16
    for (int64_t t = 0; t < T; ++t) {
      vi total = (vi)_mm512_load_si512(products + t * W);
      if constexpr (!kMinimum) total += splat_int(static_cast<int32_t>(s[h * T + t]));
      if constexpr (H == 1) {
        scaled[t] = to_floats(total);
      } else {
        scaled[t] = h == 0 ? to_floats(total) * scale : fma(to_floats(total), scale, scaled[t]);
      }
    }
    if (h < H - 1) continue;
#pragma GCC unroll 16
    for (int64_t t = 0; t < T; ++t) {
      sum[t] = fma(scaled[t], H == 1 ? scale * splat(d[t]) : splat(d[t]), sum[t]);
    }
    if constexpr (kMinimum) {
      for (int half = 0; half < H; ++half) {
        const vf minimum = part.minimum(0, half);
#pragma GCC unroll 16
        for (int64_t t = 0; t < T; ++t) sum[t] = fma(minimum, splat(float_of(s[half * T + t])), sum[t]);
      }
    }
  }
  _tile_release();
#pragma GCC unroll 16
  for (int64_t t = 0; t < T; ++t) store(sums + t * W, sum[t]);
}

template <int H, bool kMinimum, int T>
void multiply_in_tiles(const uint8_t* panels, int64_t parts, const uint8_t* tokens, float* sums, int64_t) {
  multiply_tiles<H, kMinimum, T == kTileTokens>(panels, parts, tokens, sums, T);
}
template <int H, bool kMinimum, int... T>
constexpr void fill_tiles(PanelKernels* kernels, std::integer_sequence<int, T...>) {
  PanelKernel* to = kernels->at[static_cast<int>(Codes::kUnsigned)][H - 1][kMinimum];
  ((to[T] = multiply_in_tiles<H, kMinimum, T + 1>), ...);
  kernels->refine[static_cast<int>(Codes::kUnsigned)][H - 1][kMinimum] =
      refine_sums<Codes::kUnsigned, H, kMinimum, 1>;
}
constexpr PanelKernels all_tiles() {
  constexpr auto kTokens = std::make_integer_sequence<int, kTileTokens>();
  PanelKernels kernels = {};
  kernels.tokens = kTileTokens;
  kernels.groups = 1;
  fill_tiles<1, false>(&kernels, kTokens);
  fill_tiles<1, true>(&kernels, kTokens);
  fill_tiles<2, false>(&kernels, kTokens);
  fill_tiles<2, true>(&kernels, kTokens);
  return kernels;
}
CLIKA_CONSTINIT const PanelKernels tile_panels = all_tiles();

// ---- bfloat16
// A step is 32 columns: 64 bytes of a row of the weight, and 16 rows of pairs of the tokens. Every output is one chain
// over the steps, so its bits do not depend on what is computed beside it.
constexpr int64_t kStepColumns = 32;
constexpr int64_t kStepBytes = 16 * 64;

// Tokens [first, first + 16) as tiles of pairs, step by step; what is missing is zero.
void pair_tokens(const Linear& p, int64_t first, int64_t steps, uint16_t* to) {
  const uint16_t* x = static_cast<const uint16_t*>(p.x);
  std::memset(to, 0, static_cast<size_t>(steps * kStepBytes));
  const int64_t tokens = std::min<int64_t>(kTileTokens, p.m - first);
  for (int64_t t = 0; t < tokens; ++t) {
    const uint16_t* row = x + (first + t) * p.k;
    for (int64_t k = 0; k < p.k; ++k) {
      to[k / kStepColumns * (kStepBytes / 2) + k % kStepColumns / 2 * 32 + t * 2 + k % 2] = row[k];
    }
  }
}

// The last rows, or the last columns, of a weight as a whole tile.
void copy_rows(const Linear& p, int64_t row, int64_t k, uint16_t* to) {
  const uint16_t* weight = static_cast<const uint16_t*>(p.weight->data);
  std::memset(to, 0, static_cast<size_t>(kStepBytes));
  const int64_t columns = std::min(kStepColumns, p.k - k);
  for (int64_t r = 0; r < std::min<int64_t>(16, p.n - row); ++r) {
    std::memcpy(to + r * kStepColumns, weight + (row + r) * p.k + k, static_cast<size_t>(columns) * 2);
  }
}

// Two tiles of rows with one or two tiles of tokens.
template <int kTiles>
CLIKA_AMX void multiply_bf16(const Linear& p, int64_t row, const uint16_t* tokens, int64_t steps, float* sums) {
  const uint16_t* weight = static_cast<const uint16_t*>(p.weight->data);
  const int64_t row_bytes = p.k * 2;
  alignas(64) uint16_t copies[2][kStepBytes / 2];
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTiles == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t k = i * kStepColumns;
    const bool whole = row + 32 <= p.n && k + kStepColumns <= p.k;
    if (whole) {
      _tile_loadd(4, weight + row * p.k + k, row_bytes);
      _tile_loadd(5, weight + (row + 16) * p.k + k, row_bytes);
    } else {
      copy_rows(p, row, k, copies[0]);
      copy_rows(p, std::min(row + 16, p.n), k, copies[1]);
      _tile_loadd(4, copies[0], 64);
      _tile_loadd(5, copies[1], 64);
    }
    _tile_loadd(6, tokens + i * (kStepBytes / 2), 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    if constexpr (kTiles == 2) {
      _tile_loadd(7, tokens + (steps + i) * (kStepBytes / 2), 64);
      _tile_dpbf16ps(2, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  if constexpr (kTiles == 2) {
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
  }
}

CLIKA_AMX void multiply_pairs(const Linear& p, const uint16_t* tokens, int64_t steps, int64_t begin, int64_t end) {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, 16, 64);
  _tile_loadconfig(&shapes);
  alignas(64) float sums[4][16 * 16];
  for (int64_t pair = begin; pair < end; ++pair) {
    const int64_t row = pair * 32;
    for (int64_t t = 0; t < p.m; t += 32) {
      const uint16_t* at = tokens + t / kTileTokens * steps * (kStepBytes / 2);
      if (p.m - t > kTileTokens) {
        multiply_bf16<2>(p, row, at, steps, sums[0]);
      } else {
        multiply_bf16<1>(p, row, at, steps, sums[0]);
      }
      for (int64_t i = 0; i < std::min<int64_t>(32, p.m - t); ++i) {
        for (int64_t g = 0; g < 2 && row + 16 * g < p.n; ++g) {
          vf value;
          for (int r = 0; r < W; ++r) value[r] = sums[i / 16 * 2 + g][r * 16 + i % 16];
          put(p, t + i, pair * 2 + g, with_bias(p, pair * 2 + g, value));
        }
      }
    }
  }
  _tile_release();
}
#endif

}  // namespace
const PanelKernels& best_panels() {
#if CLIKA_X86 && CLIKA_LEVEL == 2 && defined(__linux__)
  static const bool tiles = ask_for_tiles();
  if (tiles) return tile_panels;
#endif
  return panel_kernels;
}

bool multiply_bfloat16(const Linear& p, int32_t* status) {
#if CLIKA_X86 && CLIKA_LEVEL == 2 && defined(__linux__)
  if (&best_panels() == &panel_kernels || p.x_dtype != CLIKA_BFLOAT16 || p.weight->dtype != CLIKA_BFLOAT16) return false;
  const int64_t steps = group_count(p.k, kStepColumns);
  const int64_t tiles = group_count(p.m, kTileTokens);
  uint16_t* tokens = static_cast<uint16_t*>(
      p.call->core->scratch(p.call, static_cast<size_t>(std::max<int64_t>(64, tiles * steps * kStepBytes))));
  *status = tokens == nullptr ? CLIKA_UNAVAILABLE : CLIKA_OK;
  if (tokens == nullptr) return true;
  const double pairing = static_cast<double>(kTileTokens * p.k);
  parallel(p.call, tiles, piece(p.call, tiles, pairing), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      pair_tokens(p, i * kTileTokens, steps, tokens + i * steps * (kStepBytes / 2));
    }
  });
  const int64_t pairs = group_count(p.n, 32);
  const double cost = static_cast<double>(64 * p.k) * (1.0 / 16.0 + static_cast<double>(p.m) / 512.0);
  parallel(p.call, pairs, piece(p.call, pairs, cost),
           [&](int64_t begin, int64_t end, int32_t) { multiply_pairs(p, tokens, steps, begin, end); });
  return true;
#else
  static_cast<void>(p);
  static_cast<void>(status);
  return false;
#endif
}
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_linear_amx;
CLIKA_CONSTINIT const KernelFile file_linear_amx = {nullptr, 0, nullptr};
namespace {
#include "level_end.hpp"
