// embedding over dense tables.
#include "launch.hpp"

namespace clika_cuda {

namespace {

Program* rows;

int32_t run(const clika_call* call) {
  const clika_value& table = call->inputs[0];
  const clika_value& ids = call->inputs[1];
  if (table.rank != 2) {
    return refuse(call, "embedding: the table must be [rows, columns], got " + std::to_string(table.rank) + " dimensions");
  }
  clika_device::Embedding e{};
  e.table = table.data;
  e.ids = ids.data;
  e.out = call->outputs[0].data;
  e.rows = table.shape[0];
  e.columns = table.shape[1];
  e.count = elements(ids);
  e.table_dtype = table.dtype;
  e.id_dtype = ids.dtype;
  e.out_dtype = call->outputs[0].dtype;
  e.reporter = reporter_of(call, "embedding");
  if (e.count == 0) return CLIKA_OK;
  const int64_t pieces = (e.columns * size_of(e.out_dtype) + 15) / 16;
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>((pieces + 31) / 32 * 32, 32, 512));
  return launch(call, "embedding", rows, {static_cast<unsigned>(e.count)}, threads, &e);
}

}  // namespace

void add_embedding(Registry& registry) {
  rows = registry.program("embedding", "", "embedding_rows")->begins_early();
  registry.entry("embedding", run, {kFloats3, kIndex}, kFloats3, 0);
}

}  // namespace clika_cuda
