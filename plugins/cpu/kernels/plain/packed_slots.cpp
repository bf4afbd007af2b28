// packed_slots: positions of packed tokens and their slots in a paged cache.
#include "level.hpp"

// cu_seqlens_q, cu_seqlens_k, block_table; attrs length, block_size; outputs positions, slots.
int32_t run(const clika_call* call) {
  const int32_t* q = data_of<int32_t>(call->inputs[0]);
  const int32_t* k = data_of<int32_t>(call->inputs[1]);
  const clika_value& table = call->inputs[2];
  const int32_t* blocks = data_of<int32_t>(table);
  const int64_t batch = table.shape[0];
  const int64_t width = table.shape[1];
  const int64_t length = call->outputs[0].shape[0];
  const int64_t page = attr_int(call, 1, 1);
  int32_t* positions = data_of<int32_t>(call->outputs[0]);
  int32_t* slots = data_of<int32_t>(call->outputs[1]);
  if (q[0] != 0 || k[0] != 0 || q[batch] != length) {
    return refuse(call,
                  "packed_slots: cu_seqlens_q must go from 0 to the %lld tokens and cu_seqlens_k from 0 "
                  "on; they start at %d and %d, and cu_seqlens_q ends at %d",
                  static_cast<long long>(length), q[0], k[0], q[batch]);
  }
  // All of it is checked before anything is written: the tokens may end before a bad entry does.
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t fresh = int64_t{q[b + 1]} - q[b];
    const int64_t total = int64_t{k[b + 1]} - k[b];
    if (fresh < 0 || total < fresh || total > width * page) {
      return refuse(call, "packed_slots: sequence %lld has %lld tokens, %lld of them new, and room for %lld",
                    static_cast<long long>(b), static_cast<long long>(total), static_cast<long long>(fresh),
                    static_cast<long long>(width * page));
    }
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t past = int64_t{k[b + 1]} - k[b] - (int64_t{q[b + 1]} - q[b]);
    for (int64_t t = q[b]; t < q[b + 1]; ++t) {
      const int64_t position = past + t - q[b];
      const int64_t block = blocks[b * width + position / page];
      const int64_t slot = block * page + position % page;
      if (block < 0 || slot > std::numeric_limits<int32_t>::max()) {
        return refuse(call, "packed_slots: block_table[%lld, %lld] is %lld, which is no block",
                      static_cast<long long>(b), static_cast<long long>(position / page),
                      static_cast<long long>(block));
      }
      positions[t] = static_cast<int32_t>(position);
      slots[t] = static_cast<int32_t>(slot);
    }
  }
  return CLIKA_OK;
}

CLIKA_KERNELS(packed_slots, Entry("packed_slots", run).in(I32).out(I32).contiguous())
#include "level_end.hpp"
