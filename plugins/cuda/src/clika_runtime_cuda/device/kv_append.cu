// kv_append: rows of new keys or values are written to their slots of a pool.
#include "attention_arguments.cuh"
#include "cached_rows.cuh"

struct Target {
  i64 to, from;  // offsets of the head's row; to -1: the slot is outside
  int piece;
};
CLIKA_INLINE Target target_of(const KvAppend& k, i64 at) {
  const i64 row = at / k.size;
  const i64 token = row / k.heads;
  const int head = static_cast<int>(row - token * k.heads);
  const i64 slot = k.slots[token * k.slot_step];
  Target t = {-1, token * k.value_token + head * k.value_head, static_cast<int>(at - row * k.size)};
  if (slot < 0 || slot >= k.capacity) {
    report(k.reporter.to, kIndexOutside, k.reporter.op, slot, k.capacity);
    return t;
  }
  t.to = slot / k.page * k.pool_block + slot % k.page * k.pool_position + head * k.pool_head;
  return t;
}

struct alignas(16) Bytes16 {
  u32 x[4];
};
// Of one dtype: 16 bytes at a time.
extern "C" __global__ void append_bytes(const __grid_constant__ KvAppend k) {
  begin_early();
  const int bytes = bytes_of(k.pool_dtype);
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < k.n;
       at += static_cast<i64>(gridDim.x) * blockDim.x) {
    const Target t = target_of(k, at);
    if (t.to < 0) continue;
    const char* from = static_cast<const char*>(k.value) + t.from * bytes;
    reinterpret_cast<Bytes16*>(static_cast<char*>(k.pool) + t.to * bytes)[t.piece] =
        reinterpret_cast<const Bytes16*>(from)[t.piece];
  }
}
// Converted, element by element.
extern "C" __global__ void append_elements(const __grid_constant__ KvAppend k) {
  begin_early();
  const int bytes = k.pool_dtype == kFloat8 ? 1 : bytes_of(k.pool_dtype), value_bytes = bytes_of(k.value_dtype);
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < k.n;
       at += static_cast<i64>(gridDim.x) * blockDim.x) {
    const Target t = target_of(k, at);
    if (t.to < 0) continue;
    const char* from = static_cast<const char*>(k.value) + (t.from + t.piece * k.value_step) * value_bytes;
    char* to = static_cast<char*>(k.pool) + (t.to + t.piece * k.pool_step) * bytes;
    const float x = load<float>(from, k.value_dtype);
    if (k.pool_dtype == kFloat8) {
      *reinterpret_cast<u8*>(to) = to_e4m3(x);
    } else {
      store(to, k.pool_dtype, x);
    }
  }
}
// As blocks of Q8_0, each by a warp: d = max |x| / 127, at most the largest float16; codes to the nearest, halves away
// from zero. A block with a number that is not finite holds NaN.
extern "C" __global__ void append_q8_0(const __grid_constant__ KvAppend k) {
  begin_early();
  const int lane = threadIdx.x & 31, value_bytes = bytes_of(k.value_dtype);
  for (i64 at = static_cast<i64>(blockIdx.x) * (blockDim.x / 32) + (threadIdx.x >> 5); at < k.n;
       at += static_cast<i64>(gridDim.x) * (blockDim.x / 32)) {
    const Target t = target_of(k, at);
    if (t.to < 0) continue;
    const i64 from = t.from + (t.piece * kCodes + lane) * k.value_step;
    const float x = load<float>(static_cast<const char*>(k.value) + from * value_bytes, k.value_dtype);
    u32 most = __float_as_uint(x) & 0x7fffffffu;
    for (int step = 16; step > 0; step >>= 1) {
      const u32 other = shuffle_xor(most, step);
      most = other > most ? other : most;
    }
    const bool finite = most < 0x7f800000u;
    const float d = finite ? fminf(__uint_as_float(most) / 127.0f, 65504.0f) : 0.0f;
    const float inverse = d >= 1.17549435e-38f ? 1.0f / d : 0.0f;
    const float scaled = finite ? x * inverse : 0.0f;
    const float magnitude = fminf(fabsf(scaled), 127.0f);
    const int down = static_cast<int>(magnitude);
    const int code = down + (magnitude - static_cast<float>(down) >= 0.5f ? 1 : 0);
    u8* block = static_cast<u8*>(k.pool) + t.to + t.piece * kCodeBytes;
    block[2 + lane] = static_cast<u8>(scaled < 0.0f ? -code : code);
    const u16 scale = finite ? float_to_half(d) : u16{0x7e00};
    if (lane < 2) block[lane] = static_cast<u8>(scale >> (8 * lane));
  }
}
