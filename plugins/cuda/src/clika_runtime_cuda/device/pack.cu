// Packed weights between their published form and the layout of tiles.cuh. CLIKA_FORM: a layout.
#include "tiles.cuh"

using F = CLIKA_FORM;
using B = F::Block;
static_assert(F::kBytes == kTileRows * (F::kStep / B::kColumns) * B::kBytes, "as large as the published blocks");
constexpr int kStepBlocks = F::kStep / B::kColumns;

// A thread per row and step, rows that fill up the last tile included.
extern "C" __global__ void __launch_bounds__(128) pack_rows(const __grid_constant__ Repack p) {
  const i64 steps = (p.columns + F::kStep - 1) / F::kStep, blocks = p.columns / B::kColumns;
  const i64 tiles = (p.rows + kTileRows - 1) / kTileRows;
  const i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 row = at / steps, step = at % steps;
  if (row >= tiles * kTileRows) return;
  const i64 rest = row < p.rows ? blocks - step * kStepBlocks : 0;
  F::pack(static_cast<const u8*>(p.from) + (row * blocks + step * kStepBlocks) * B::kBytes,
          static_cast<int>(rest < kStepBlocks ? rest : kStepBlocks),
          static_cast<u8*>(p.to) + (row / kTileRows * steps + step) * F::kBytes, static_cast<int>(row % kTileRows));
}

// A thread per published block.
extern "C" __global__ void __launch_bounds__(128) unpack_rows(const __grid_constant__ Repack p) {
  const i64 steps = (p.columns + F::kStep - 1) / F::kStep, blocks = p.columns / B::kColumns;
  const i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 row = at / blocks, block = at % blocks;
  if (row >= p.rows) return;
  F::unpack(static_cast<const u8*>(p.from) + (row / kTileRows * steps + block / kStepBlocks) * F::kBytes,
            static_cast<int>(row % kTileRows), static_cast<int>(block % kStepBlocks),
            static_cast<u8*>(p.to) + (row * blocks + block) * B::kBytes);
}
