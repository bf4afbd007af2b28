// Rows of a dense table by ids: a block per row.
#include "prelude.cuh"

extern "C" __global__ void embedding_rows(const __grid_constant__ Embedding e) {
  begin_early();
  i64 id = load<i64>(static_cast<const char*>(e.ids) + static_cast<i64>(blockIdx.x) * bytes_of(e.id_dtype), e.id_dtype);
  if (id < 0 || id >= e.rows) {
    if (threadIdx.x == 0) report(e.reporter.to, kIndexOutside, e.reporter.op, id, e.rows);
    id = 0;
    if (e.rows == 0) return;
  }
  const int from_bytes = bytes_of(e.table_dtype), to_bytes = bytes_of(e.out_dtype);
  const char* from = static_cast<const char*>(e.table) + id * e.columns * from_bytes;
  char* to = static_cast<char*>(e.out) + static_cast<i64>(blockIdx.x) * e.columns * to_bytes;
  const i64 bytes = e.columns * to_bytes;
  if (e.table_dtype == e.out_dtype && bytes % 16 == 0 && reinterpret_cast<u64>(from) % 16 == 0 &&
      reinterpret_cast<u64>(to) % 16 == 0) {
    struct alignas(16) Sixteen {
      u64 words[2];
    };
    for (i64 i = threadIdx.x; i < bytes / 16; i += blockDim.x) {
      reinterpret_cast<Sixteen*>(to)[i] = reinterpret_cast<const Sixteen*>(from)[i];
    }
    return;
  }
  for (i64 i = threadIdx.x; i < e.columns; i += blockDim.x) {
    store(to + i * to_bytes, e.out_dtype, load<float>(from + i * from_bytes, e.table_dtype));
  }
}
