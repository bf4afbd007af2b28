// box_iou, nms, bilinear, packed_slots.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program *pairs_of_boxes, *suppress_boxes, *bilinear, *slots_of_tokens, *make_items;

int32_t run_box_iou(const clika_call* call) {
  General g = general_of(call, "box_iou");
  g.i[0] = call->outputs[0].shape[1];
  return launch_each(call, "box_iou", pairs_of_boxes, g);
}

// Inputs boxes, scores; scalar iou_threshold.
int32_t run_nms(const clika_call* call) {
  General g = general_of(call, "nms");
  int64_t kept = 0;
  const int64_t n = call->inputs[1].shape[0];
  g.n = n;
  if (n > 0) {
    Item* items = room_for<Item>(call, n);
    g.room[1] = room_for<int64_t>(call, n + 1);
    g.room[2] = room_for<uint8_t>(call, n);
    if (items == nullptr || g.room[1] == nullptr || g.room[2] == nullptr) return CLIKA_UNAVAILABLE;
    General scores = g;
    scores.in[0] = g.in[1];
    scores.i[0] = n;
    scores.i[1] = 1;  // falling
    scores.room[0] = items;
    if (const int32_t status = launch_each(call, "nms", make_items, scores)) return status;
    if (const int32_t status = sort_items(call, "nms", &items, 1, n)) return status;
    g.room[0] = items;
    if (const int32_t status = launch(call, "nms", suppress_boxes, {1}, n <= 256 ? 64 : 512, &g)) return status;
    if (const int32_t status = read_back(call, g.room[1], &kept, 8)) return status;
  }
  if (const int32_t status = call->core->allocate_output(call, 0, 1, &kept)) return status;
  if (kept == 0) return CLIKA_OK;
  clika_value from = call->outputs[0];
  from.data = static_cast<int64_t*>(g.room[1]) + 1;
  return move(call, "nms", call->outputs[0], from);
}

// x, y, weight [made, a, b], bias?.
int32_t run_bilinear(const clika_call* call) {
  General g = general_of(call, "bilinear");
  for (int d = 0; d < 3; ++d) g.i[d] = call->inputs[2].shape[d];
  return launch_each(call, "bilinear", bilinear, g);
}

// cu_seqlens_q, cu_seqlens_k, block_table; attrs length, block_size; outputs positions, slots.
int32_t run_packed_slots(const clika_call* call) {
  General g = general_of(call, "packed_slots");
  g.i[0] = call->inputs[2].shape[0];
  g.i[1] = call->inputs[2].shape[1];
  g.i[2] = attr_int(call, 1, 1);
  return g.i[0] == 0 ? static_cast<int32_t>(CLIKA_OK) : launch_each(call, "packed_slots", slots_of_tokens, g);
}

}  // namespace

void add_boxes(Registry& registry) {
  pairs_of_boxes = registry.program("boxes", "", "pairs_of_boxes");
  suppress_boxes = registry.program("boxes", "", "suppress_boxes");
  bilinear = registry.program("boxes", "", "bilinear");
  slots_of_tokens = registry.program("boxes", "", "slots_of_tokens");
  make_items = registry.program("sort", "", "make_items");
  constexpr uint64_t i32 = bit(CLIKA_INT32);
  registry.entry("box_iou", run_box_iou, {kFloats4}, kFloats4, 0);
  registry.entry("nms", run_nms, {kFloats4}, bit(CLIKA_INT64), 0);
  registry.entry("bilinear", run_bilinear, {kFloats4 | kInts}, kFloats4 | kInts, 0);
  registry.entry("packed_slots", run_packed_slots, {i32}, i32, 0);
}

}  // namespace clika_cuda
