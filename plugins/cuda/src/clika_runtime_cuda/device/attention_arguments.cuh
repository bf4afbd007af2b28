// Arguments of the kernels of attention and of caches.
#pragma once

#include "arguments.cuh"

namespace clika_device {

// Shapes of the blocks on tensor cores, by the elements of a row that a program is for.
constexpr int decode_warps(int size) { return size > 128 ? 4 : 8; }
constexpr int kDecodePositions = 16;  // of a warp at a time
constexpr int prefill_warps(int size) { return size > 128 ? 4 : 8; }
constexpr int prefill_rows(int size) { return 16 * prefill_warps(size); }
constexpr int prefill_positions(int size) { return size > 128 ? 32 : 64; }  // at a time

constexpr int kMostUnits = 16384;  // tokens times sets of heads, whose splits that are done can be counted

// Attention of tokens over positions that lie in blocks of pools. Without a table each sequence is one block: the operands
// of scaled_dot_product_attention. Strides are in elements, of pools of Q8_0 in bytes.
struct Attention {
  const void* query;
  const void* keys;
  const void* values;
  const void* sinks;
  void* out;
  const int* table;       // null: block b is sequence b
  const int* cu_seqlens;  // null: every sequence has `length` tokens
  const int* kv_lens;     // null: every sequence has `page` positions
  float* parts;           // results of splits: rows of `part_row` sums, then pairs of maximum and sum
  float* part_states;
  i64 query_sequence, query_token, query_head, query_step;
  i64 out_sequence, out_token, out_head, out_step;
  i64 key_block, key_position, key_head, key_step;
  i64 value_block, value_position, value_head, value_step;
  i64 table_row, table_step, cu_step, length_step, sink_step;
  i64 blocks, tokens;
  Reporter reporter;
  int page, pages;  // positions of a block, blocks of a row of the table
  int sequences, length;
  int kv_heads, group;
  int size, value_size;
  int window, causal;
  int joins;         // the block that comes last joins the splits of a unit; else a kernel of its own does
  int aligned_ends;  // the last token stands at the last position; else the first at the first
  int span_log2;     // of the positions of a split
  int most_splits, part_row;
  int rows, row_groups;  // query heads that go together, and how many times that takes for one group
  int tile;              // positions that are in shared memory at a time, where the launch says it
  int query_dtype, key_dtype, value_dtype, sink_dtype;
  float scale;            // of scores, or of what tanh is taken of
  float softcap;          // 0: none
};

// pool[slots[t]] = value[t]. Strides are in elements of each side, of a pool of Q8_0 in bytes.
struct KvAppend {
  void* pool;
  const void* value;
  const int* slots;
  i64 pool_block, pool_position, pool_head, pool_step;
  i64 value_token, value_head, value_step;
  i64 slot_step;
  i64 n;  // elements, or pieces of 16 bytes or of 32 elements
  i64 capacity;
  Reporter reporter;
  int page, heads, size;  // size: pieces of a head
  int pool_dtype, value_dtype;
};

// Rows [T, H, D] and pools [blocks, block_size, H, D], by strides in elements.
struct HeadRows {
  const void* data;
  i64 token, head, step;
};
struct HeadPool {
  void* data;
  i64 block, position, head, step;
  i64 capacity;  // slots
  int page, dtype;
};
// Queries and keys are turned; keys and values go to their slots of the pools.
struct RotaryAppend {
  HeadRows query, key, value;
  HeadPool keys, values;
  void* out;  // the turned queries, in one piece
  const void* positions;
  const float* frequencies;
  const int* slots;
  i64 position_axis, position_step, frequency_axis, frequency_step, slot_step;
  i64 tokens;
  Reporter reporter;
  int axes, heads, kv_heads, size, value_size, half;
  int dtype, position_dtype, interleaved;
  float scale;
};

// scaled_dot_product_attention over any strides, with a mask: a block per row.
struct Scores {
  const void* query;
  const void* key;
  const void* value;
  const void* mask;
  void* out;
  i64 shape[kMaxRank];  // of the leading dims
  i64 query_strides[kMaxRank], key_strides[kMaxRank], value_strides[kMaxRank], mask_strides[kMaxRank];
  i64 query_row, key_row, value_row, mask_row, query_step, key_step, value_step, mask_step;
  i64 length, positions, size, value_size;
  double scale, softcap;
  int rank, group, causal;
  int dtype, mask_dtype;
};

}  // namespace clika_device
