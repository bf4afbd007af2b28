// Weights as numbers (dequantize, embedding from packed tables), and the way into the layout of tiles.cuh and back.
#include "weights.hpp"

namespace clika_cuda {

namespace {

using clika_device::Decode;
using clika_device::kTileRows;
using clika_device::Repack;

constexpr int kSchemeCount = 64;
WeightPrograms published[kSchemeCount], tiled[kSchemeCount], plain[CLIKA_DTYPE_COUNT];
Program* packers[kSchemeCount];
Program* unpackers[kSchemeCount];

void add_programs(Registry& registry, const std::string& weight, WeightPrograms* out) {
  const std::string defines = "CLIKA_WEIGHT=" + weight;
  out->decode = registry.program("weights", defines, "decode_rows");
  out->tiles = registry.program("weights", defines, "decode_tiles");
  out->embedding = registry.program("weights", defines, "embedding_rows");
  out->one = registry.program("weights", defines, "products_one");
  out->eight = registry.program("weights", defines, "products_eight");
}

std::string shape_of(const clika_value& v) {
  std::string text = "[";
  for (int32_t i = 0; i < v.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(v.shape[i]);
  return text + "]";
}

// Bytes of a weight in tiles: rows and columns are filled up, and a step of a tile is as large as its published blocks.
int64_t tiled_bytes(const clika_value& weight) {
  const clika_block block = clika_block_of(weight.scheme);
  const int64_t step = block.columns < 128 ? 128 : block.columns;
  const int64_t rows = (weight.shape[0] + kTileRows - 1) / kTileRows * kTileRows;
  return rows * ((weight.shape[1] + step - 1) / step) * (step / block.columns) * block.bytes;
}
int64_t published_bytes(const clika_value& weight) {
  const clika_block block = clika_block_of(weight.scheme);
  return weight.shape[0] * (weight.shape[1] / block.columns) * block.bytes;
}

unsigned blocks_of(int64_t threads) { return static_cast<unsigned>((threads + 127) / 128); }

int32_t run_dequantize(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  if (weight.scheme == CLIKA_DENSE) {  // of any rank
    clika_value line = weight;
    const int64_t shape[2] = {1, elements(weight)};
    line.rank = 2;
    line.shape = shape;
    return decode(call, "dequantize", line, 0, 1, call->outputs[0].data, call->outputs[0].dtype);
  }
  if (const int32_t status = check_weight(call, weight, "dequantize")) return status;
  return decode(call, "dequantize", weight, 0, weight.shape[0], call->outputs[0].data, call->outputs[0].dtype);
}

int32_t run_embedding(const clika_call* call) {
  const clika_value& table = call->inputs[0];
  const clika_value& ids = call->inputs[1];
  if (const int32_t status = check_weight(call, table, "embedding")) return status;
  const WeightPrograms* programs = programs_of(call, table, "embedding");
  if (programs == nullptr) return CLIKA_UNSUPPORTED;
  Decode d{};
  d.weight = table.data;
  d.ids = ids.data;
  d.out = call->outputs[0].data;
  d.rows = table.shape[0];
  d.columns = table.shape[1];
  d.count = elements(ids);
  d.id_dtype = ids.dtype;
  d.out_dtype = call->outputs[0].dtype;
  d.reporter = reporter_of(call, "embedding");
  if (d.count == 0 || d.columns == 0) return CLIKA_OK;
  return launch(call, "embedding", programs->embedding, {static_cast<unsigned>(d.count)}, d.columns <= 1024 ? 128 : 256, &d);
}

}  // namespace

const WeightPrograms* programs_of(const clika_call* call, const clika_value& weight, const char* op) {
  const WeightPrograms* found = nullptr;
  if (weight.scheme == CLIKA_DENSE) found = &plain[weight.dtype];
  else if (weight.scheme > 0 && weight.scheme < kSchemeCount && weight.layout == CLIKA_LAYOUT_PUBLISHED) {
    found = &published[weight.scheme];
  } else if (weight.scheme > 0 && weight.scheme < kSchemeCount && weight.layout == kTiledLayout) {
    found = &tiled[weight.scheme];
  }
  if (found != nullptr && found->decode != nullptr) return found;
  call->core->set_error(call, CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED_FOR_LAYOUT",
                        (std::string(op) + ": no kernel on CUDA reads a weight of dtype " + std::to_string(weight.dtype) +
                         ", scheme " + std::to_string(weight.scheme) + " and layout " + std::to_string(weight.layout))
                            .c_str());
  return nullptr;
}

int32_t check_weight(const clika_call* call, const clika_value& weight, const char* op) {
  if (weight.rank != 2) {
    return refuse(call, std::string(op) + ": a weight is [rows, columns], got " + shape_of(weight));
  }
  if (weight.scheme == CLIKA_DENSE) return CLIKA_OK;
  const clika_block block = clika_block_of(weight.scheme);
  if (block.columns == 0 || weight.shape[1] % block.columns != 0) {
    return refuse(call, std::string(op) + ": the columns of " + shape_of(weight) + " are not whole blocks of " +
                            std::to_string(block.columns) + " of scheme " + std::to_string(weight.scheme));
  }
  const int64_t needed = weight.layout == kTiledLayout ? tiled_bytes(weight) : published_bytes(weight);
  if (weight.nbytes < needed) {
    return refuse(call, std::string(op) + ": a weight " + shape_of(weight) + " of scheme " + std::to_string(weight.scheme) +
                            " takes " + std::to_string(needed) + " bytes, got " + std::to_string(weight.nbytes));
  }
  return CLIKA_OK;
}

int32_t decode(const clika_call* call, const char* op, const clika_value& weight, int64_t first, int64_t count, void* out,
               int32_t dtype) {
  const WeightPrograms* programs = programs_of(call, weight, op);
  if (programs == nullptr) return CLIKA_UNSUPPORTED;
  Decode d{};
  d.weight = weight.data;
  d.out = out;
  d.first = first;
  d.rows = weight.shape[0];
  d.columns = weight.shape[1];
  d.count = count;
  d.out_dtype = dtype;
  if (count == 0 || d.columns == 0) return CLIKA_OK;
  if (weight.layout == kTiledLayout && first % kTileRows == 0 && (kFloats3 & bit(dtype)) != 0 &&
      reinterpret_cast<uintptr_t>(out) % 8 == 0) {
    const int64_t step = std::max<int64_t>(128, clika_block_of(weight.scheme).columns);
    const int64_t warps = (count + kTileRows - 1) / kTileRows * ((d.columns + step - 1) / step);
    return launch(call, op, programs->tiles, {static_cast<unsigned>((warps + 7) / 8)}, 256, &d);
  }
  const int64_t pieces = (d.columns + 2047) / 2048;
  return launch(call, op, programs->decode, {static_cast<unsigned>(count * pieces)}, 256, &d);
}

int32_t pack_info(const clika_value* weight, int32_t mode, clika_pack_info* out) {
  out->layout = CLIKA_LAYOUT_PUBLISHED;
  out->nbytes = weight->nbytes;
  // A table that is only gathered from stays as it is.
  if (mode == 3 || weight->scheme <= 0 || weight->scheme >= kSchemeCount || packers[weight->scheme] == nullptr) return CLIKA_OK;
  if (weight->rank != 2 || weight->shape[1] % clika_block_of(weight->scheme).columns != 0) return CLIKA_INVALID_ARGUMENT;
  out->layout = kTiledLayout;
  out->nbytes = tiled_bytes(*weight);
  return CLIKA_OK;
}

int32_t pack(const clika_call* call, int32_t) {
  const clika_value& weight = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (const int32_t status = check_weight(call, weight, "pack")) return status;
  Program* program = weight.scheme == CLIKA_DENSE ? nullptr : packers[weight.scheme];
  if (program == nullptr || weight.layout != CLIKA_LAYOUT_PUBLISHED || out.nbytes < tiled_bytes(weight)) {
    return refuse(call, "pack: scheme " + std::to_string(weight.scheme) + " in layout " + std::to_string(weight.layout) +
                            " has no other layout on CUDA, or the output is too small");
  }
  const int64_t tile_rows = (weight.shape[0] + kTileRows - 1) / kTileRows * kTileRows;
  const int64_t step = std::max<int64_t>(128, clika_block_of(weight.scheme).columns);
  const int64_t threads = tile_rows * ((weight.shape[1] + step - 1) / step);
  if (threads == 0) return CLIKA_OK;
  const Repack p{weight.data, out.data, weight.shape[0], weight.shape[1]};
  return launch(call, "pack_weight", program, {blocks_of(threads)}, 128, &p);
}

int32_t unpack(const clika_call* call) {
  const clika_value& weight = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (const int32_t status = check_weight(call, weight, "unpack")) return status;
  Program* program = weight.scheme == CLIKA_DENSE ? nullptr : unpackers[weight.scheme];
  if (program == nullptr || weight.layout != kTiledLayout || out.nbytes < published_bytes(weight)) {
    return refuse(call, "unpack: scheme " + std::to_string(weight.scheme) + " in layout " + std::to_string(weight.layout) +
                            " is as published, or the output is too small");
  }
  const int64_t threads = weight.shape[0] * (weight.shape[1] / clika_block_of(weight.scheme).columns);
  if (threads == 0) return CLIKA_OK;
  const Repack p{weight.data, out.data, weight.shape[0], weight.shape[1]};
  return launch(call, "unpack_weight", program, {blocks_of(threads)}, 128, &p);
}

void add_weights(Registry& registry) {
#define CLIKA_X(name, number, columns, bytes) add_programs(registry, "Published<" #name ">", &published[number]);
  CLIKA_SCHEMES(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name)                                                                              \
  add_programs(registry, "Tiled<Tiled" #name ">", &tiled[CLIKA_GGUF_##name]);                      \
  packers[CLIKA_GGUF_##name] = registry.program("pack", "CLIKA_FORM=Tiled" #name, "pack_rows");    \
  unpackers[CLIKA_GGUF_##name] = registry.program("pack", "CLIKA_FORM=Tiled" #name, "unpack_rows");
  CLIKA_TILED(CLIKA_X)
#undef CLIKA_X
  add_programs(registry, "Plain<float>", &plain[CLIKA_FLOAT32]);
  add_programs(registry, "Plain<bf16>", &plain[CLIKA_BFLOAT16]);
  add_programs(registry, "Plain<f16>", &plain[CLIKA_FLOAT16]);

  registry.entry("dequantize", run_dequantize, {kFloats3}, kFloats4, 0).input_schemes[0] = kWeightSchemes;
  registry.entry("embedding", run_embedding, {kFloats3, kIndex}, kFloats4, 0).input_schemes[0] = kPackedSchemes;
}

}  // namespace clika_cuda
