// Repacking of weights, once, at load: from the published payload into the form of pack.hpp (quantized) or interleaved.hpp
// (dense); and back, for whoever writes them to a file.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "interleaved.hpp"

}  // namespace
#include "linear_tables.hpp"
namespace {

bool packs(const clika_value& weight, int32_t mode) {
  // A table that is only gathered from reads the published rows faster than the packed ones and without a copy.
  if (mode == 3) return false;
  if (weight.scheme != CLIKA_DENSE) return true;
  // Less rows than a group has would be read with many zeros. AMX takes bfloat16 rows as published.
  const bool amx = &best_panels() != &panel_kernels;
  if (weight.rank != 2 || (FLOATS & CLIKA_BIT(weight.dtype)) == 0 || (amx && weight.dtype == CLIKA_BFLOAT16)) return false;
  const int64_t rows = weight.shape[0];
  const int64_t columns = weight.shape[1];
  const bool contiguous = weight.strides == nullptr ||
                          (weight.strides[0] == columns && (columns == 1 || weight.strides[1] == 1));
  return rows >= kInterleaved && columns > 0 && contiguous;
}

int32_t pack_info(const clika_value* weight, int32_t mode, clika_pack_info* out) {
  out->layout = CLIKA_LAYOUT_PUBLISHED;
  out->nbytes = weight->nbytes;
  if (!packs(*weight, mode)) return CLIKA_OK;
  if (weight->scheme == CLIKA_DENSE) {
    out->layout = static_cast<int32_t>(kInterleaved);
    out->nbytes = interleaved_bytes(*weight);
    return CLIKA_OK;
  }
  if (weight->rank != 2) return CLIKA_INVALID_ARGUMENT;
  const clika_block block = clika_block_of(weight->scheme);
  if (block.columns == 0 || weight->shape[1] % block.columns != 0) return CLIKA_UNSUPPORTED;
  out->layout = kGroup;
  out->nbytes = weight_bytes(*weight, kGroup);
  return CLIKA_OK;
}

template <class Block>
void pack_all(const clika_call* call, const clika_value& weight, uint8_t* out) {
  const int64_t rows = weight.shape[0];
  const int64_t blocks = weight.shape[1] / Block::kColumns;
  if (blocks == 0) return;
  const int64_t stride = blocks * static_cast<int64_t>(sizeof(Block));
  const uint8_t* data = static_cast<const uint8_t*>(weight.data);
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, kGroup * stride));
  parallel(call, group_count(rows, kGroup), grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t valid = std::min<int64_t>(kGroup, rows - g * kGroup);
      const int64_t at = g * kGroup * stride;
      pack_group<kGroup, Block>(data + at, stride, valid, 0, blocks, out + at);
    }
  });
}

int32_t pack(const clika_call* call, int32_t mode) {
  const clika_value& weight = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (!packs(weight, mode)) {
    return refuse(call, CLIKA_UNSUPPORTED, "pack: this backend keeps scheme %d as published in mode %d",
                  static_cast<int>(weight.scheme), static_cast<int>(mode));
  }
  const bool dense = weight.scheme == CLIKA_DENSE;
  const int32_t status = dense ? CLIKA_OK : check_weight(call, weight, "pack");
  if (status != CLIKA_OK) return status;
  if (weight.layout != CLIKA_LAYOUT_PUBLISHED) {
    return refuse(call, CLIKA_INVALID_ARGUMENT, "pack: the weight is packed already, in layout %d",
                  static_cast<int>(weight.layout));
  }
  const int64_t needed = dense ? interleaved_bytes(weight) : weight_bytes(weight, kGroup);
  if (out.nbytes < needed) {
    return refuse(call, CLIKA_INVALID_ARGUMENT, "pack: the output needs %" PRId64 " bytes, it has %" PRId64,
                  needed, out.nbytes);
  }
  if (dense) {
    weight.dtype == CLIKA_FLOAT32 ? interleave<uint32_t>(call, weight, out.data)
                                  : interleave<uint16_t>(call, weight, out.data);
    return CLIKA_OK;
  }
  uint8_t* to = static_cast<uint8_t*>(out.data);
  with_block(weight.scheme, [&](auto* tag) {
    pack_all<std::remove_pointer_t<decltype(tag)>>(call, weight, to);
  });
  return CLIKA_OK;
}

template <class Block>
void unpack_all(const clika_call* call, const clika_value& weight, uint8_t* out) {
  const int64_t blocks = weight.shape[1] / Block::kColumns;
  const int64_t stride = blocks * static_cast<int64_t>(sizeof(Block));
  const uint8_t* data = static_cast<const uint8_t*>(weight.data);
  parallel(call, weight.shape[0], std::max<int64_t>(1, 65536 / std::max<int64_t>(1, stride)),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t row = begin; row < end; ++row) {
               for (int64_t b = 0; b < blocks; ++b) {
                 const Block block = unpack_block<Block>(data, weight.layout, blocks, row, b);
                 std::memcpy(out + row * stride + b * static_cast<int64_t>(sizeof(Block)), &block, sizeof(Block));
               }
             }
           });
}

int32_t unpack(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  clika_value& out = call->outputs[0];
  const bool dense = weight.scheme == CLIKA_DENSE;
  if (weight.layout == CLIKA_LAYOUT_PUBLISHED) {
    return refuse(call, CLIKA_INVALID_ARGUMENT, "unpack: the weight is as published");
  }
  const int32_t status = dense ? check_interleaved(call, weight, "unpack") : check_weight(call, weight, "unpack");
  if (status != CLIKA_OK) return status;
  const int64_t needed =
      dense ? weight.shape[0] * weight.shape[1] * element_bytes(weight.dtype) : weight_bytes(weight, 1);
  if (out.nbytes < needed) {
    return refuse(call, CLIKA_INVALID_ARGUMENT, "unpack: the output needs %" PRId64 " bytes, it has %" PRId64,
                  needed, out.nbytes);
  }
  if (needed == 0) return CLIKA_OK;
  if (dense) {
    weight.dtype == CLIKA_FLOAT32 ? publish<uint32_t>(call, weight, out.data) : publish<uint16_t>(call, weight, out.data);
    return CLIKA_OK;
  }
  uint8_t* to = static_cast<uint8_t*>(out.data);
  with_block(weight.scheme, [&](auto* tag) {
    unpack_all<std::remove_pointer_t<decltype(tag)>>(call, weight, to);
  });
  return CLIKA_OK;
}

constexpr Repacking kRepacking = {pack_info, pack, unpack};

}  // namespace
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_pack;
CLIKA_CONSTINIT const KernelFile file_pack = {nullptr, 0, &kRepacking};
namespace {
#include "level_end.hpp"
