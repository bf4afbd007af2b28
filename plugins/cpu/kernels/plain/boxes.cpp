// box_iou and nms over boxes [N, 4] of two corners. Inputs lie in one piece.
#include "level.hpp"
#include "elementwise.hpp"

template <class C>
struct Box {
  C x1, y1, x2, y2;
  C area() const { return (x2 - x1) * (y2 - y1); }
};

// Boxes in the compute type, in scratch; null when it could not be had.
template <class C>
Box<C>* boxes_of(const clika_call* call, const clika_value& v) {
  const int64_t n = v.shape[0];
  Box<C>* boxes = static_cast<Box<C>*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(Box<C>) + 64));
  if (boxes != nullptr) Tiles<C>::loader(v.dtype)(reinterpret_cast<C*>(boxes), v.data, 0, 1, 4 * n);
  return boxes;
}

template <class C>
C overlap(const Box<C>& a, const Box<C>& b) {
  const C width = std::max(C{0}, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const C height = std::max(C{0}, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const C shared = width * height;
  return shared / (a.area() + b.area() - shared);
}

template <class C>
int32_t box_iou(const clika_call* call) {
  const Box<C>* a = boxes_of<C>(call, call->inputs[0]);
  const Box<C>* b = boxes_of<C>(call, call->inputs[1]);
  if (a == nullptr || b == nullptr) return CLIKA_UNAVAILABLE;
  clika_value& out = call->outputs[0];
  const int64_t m = out.shape[1];
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  parallel(call, out.shape[0], std::max<int64_t>(1, 8192 / std::max<int64_t>(1, m)),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t i = begin; i < end; ++i) {
               for (int64_t k = 0; k < m; ++k) {
                 const C iou = overlap(a[i], b[k]);
                 storer(&iou, out.data, i * m + k, 1, 1);
               }
             }
           });
  return CLIKA_OK;
}
int32_t run_box_iou(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? box_iou<double>(call) : box_iou<float>(call);
}

// Inputs boxes, scores; scalar iou_threshold.
template <class C>
int32_t nms(const clika_call* call) {
  const clika_value& score_value = call->inputs[1];
  const int64_t n = score_value.shape[0];
  const double threshold = scalar_float(call, 0, 0);
  const Box<C>* boxes = boxes_of<C>(call, call->inputs[0]);
  C* scores = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
  int64_t* order = static_cast<int64_t*>(call->core->scratch(call, static_cast<size_t>(n) * 8 + 64));
  uint8_t* gone = static_cast<uint8_t*>(call->core->scratch(call, static_cast<size_t>(n) + 64));
  if (boxes == nullptr || scores == nullptr || order == nullptr || gone == nullptr) return CLIKA_UNAVAILABLE;
  Tiles<C>::loader(score_value.dtype)(scores, score_value.data, 0, 1, n);
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order, order + n, [&](int64_t a, int64_t b) {
    const bool a_nan = scores[a] != scores[a];
    const bool b_nan = scores[b] != scores[b];
    if (a_nan != b_nan) return a_nan;  // NaN counts as the largest
    if (!a_nan && scores[a] != scores[b]) return scores[a] > scores[b];
    return a < b;
  });
  std::memset(gone, 0, static_cast<size_t>(n));
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (gone[i]) continue;
    const Box<C>& best = boxes[order[i]];
    for (int64_t k = i + 1; k < n; ++k) {
      if (!gone[k] && static_cast<double>(overlap(best, boxes[order[k]])) > threshold) gone[k] = 1;
    }
    order[kept++] = order[i];  // never past i
  }
  const int32_t status = call->core->allocate_output(call, 0, 1, &kept);
  if (status != CLIKA_OK) return status;
  std::copy_n(order, kept, data_of<int64_t>(call->outputs[0]));
  return CLIKA_OK;
}
int32_t run_nms(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? nms<double>(call) : nms<float>(call);
}

CLIKA_KERNELS(boxes,
              Entry("box_iou", run_box_iou).in(FLOATS | F64).out(FLOATS | F64).contiguous(),
              Entry("nms", run_nms).in(FLOATS | F64).out(I64).contiguous())
#include "level_end.hpp"
