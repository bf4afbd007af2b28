// box_iou and nms over boxes [N, 4] of two corners; bilinear; positions and slots of packed tokens.
#include "prelude.cuh"
#include "general.cuh"

template <class C>
struct Box {
  C x1, y1, x2, y2;
  CLIKA_INLINE C area() const { return (x2 - x1) * (y2 - y1); }
};
template <class C>
CLIKA_INLINE Box<C> box_at(const View& v, i64 i) {
  return {item_of<C>(v, 4 * i), item_of<C>(v, 4 * i + 1), item_of<C>(v, 4 * i + 2), item_of<C>(v, 4 * i + 3)};
}
template <class C>
CLIKA_INLINE C overlap(const Box<C>& a, const Box<C>& b) {
  const C right = b.x2 < a.x2 ? b.x2 : a.x2, left = a.x1 < b.x1 ? b.x1 : a.x1;
  const C bottom = b.y2 < a.y2 ? b.y2 : a.y2, top = a.y1 < b.y1 ? b.y1 : a.y1;
  const C width = right - left > C(0) ? right - left : C(0), height = bottom - top > C(0) ? bottom - top : C(0);
  const C shared = width * height;
  return shared / (a.area() + b.area() - shared);
}
// i[0]: boxes of in[1].
template <class C>
CLIKA_INLINE void all_pairs(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    put_item<C>(g.out[0], at, overlap(box_at<C>(g.in[0], at / g.i[0]), box_at<C>(g.in[1], at % g.i[0])));
  }
}
extern "C" __global__ void pairs_of_boxes(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) all_pairs<double>(g);
  else all_pairs<float>(g);
}
// Boxes from the best score to the least, n of them in the order of room[0]: each that is left takes away those it covers.
// room[1]: the kept ones, their number in front. One block.
template <class C>
CLIKA_INLINE void suppress(const General& g) {
  const Item* items = static_cast<const Item*>(g.room[0]);
  i64* kept = static_cast<i64*>(g.room[1]);
  u8* gone = static_cast<u8*>(g.room[2]);
  for (i64 i = threadIdx.x; i < g.n; i += blockDim.x) gone[i] = 0;
  __syncthreads();
  i64 count = 0;
  for (i64 i = 0; i < g.n; ++i) {
    const bool out = gone[i] != 0;
    __syncthreads();
    if (out) continue;
    const Box<C> best = box_at<C>(g.in[0], items[i].index);
    if (threadIdx.x == 0) kept[1 + count] = items[i].index;
    ++count;
    for (i64 k = i + 1 + threadIdx.x; k < g.n; k += blockDim.x) {
      const bool covered = static_cast<double>(overlap(best, box_at<C>(g.in[0], items[k].index))) > g.f[0];
      if (covered) gone[k] = 1;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) kept[0] = count;
}
extern "C" __global__ void __launch_bounds__(512) suppress_boxes(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) suppress<double>(g);
  else suppress<float>(g);
}

// in[2]: [i[0], i[1], i[2]] weights; in[3]: biases or none.
template <class C, class U>
CLIKA_INLINE void multiply(const General& g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 row = at / g.i[0], made = at % g.i[0];
    U sum = g.in[3].dtype != 0 ? static_cast<U>(item_of<C>(g.in[3], made)) : U(0);
    for (i64 a = 0; a < g.i[1]; ++a) {
      U part = U(0);
      for (i64 b = 0; b < g.i[2]; ++b) {
        part += static_cast<U>(item_of<C>(g.in[2], (made * g.i[1] + a) * g.i[2] + b)) *
                static_cast<U>(item_of<C>(g.in[1], row * g.i[2] + b));
      }
      sum += static_cast<U>(item_of<C>(g.in[0], row * g.i[1] + a)) * part;
    }
    put_item<C>(g.out[0], at, static_cast<C>(sum));
  }
}
extern "C" __global__ void bilinear(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) multiply<double, double>(g);
  else if (is_real(g.in[0].dtype)) multiply<float, float>(g);
  else multiply<i64, u64>(g);
}

// in[0], in[1]: where the new and all tokens of i[0] sequences end; in[2]: their blocks, i[1] each of i[2] tokens. A
// thread per token; n tokens.
extern "C" __global__ void slots_of_tokens(const __grid_constant__ General g) {
  const int* fresh = static_cast<const int*>(g.in[0].data);
  const int* all = static_cast<const int*>(g.in[1].data);
  for (i64 t = first_of_thread(); t < g.n; t += threads_of_grid()) {
    i64 low = 0, high = g.i[0] - 1;
    while (low < high) {  // the last sequence that begins at or before the token and is not empty
      const i64 middle = (low + high) / 2;
      if (fresh[middle + 1] > t) high = middle;
      else low = middle + 1;
    }
    const i64 position = static_cast<i64>(all[low + 1]) - all[low] - (fresh[low + 1] - fresh[low]) + t - fresh[low];
    const bool sound = fresh[low] <= t && t < fresh[low + 1] && position >= 0 && position < g.i[1] * g.i[2];
    const i64 block = sound ? static_cast<const int*>(g.in[2].data)[low * g.i[1] + position / g.i[2]] : -1;
    const i64 slot = block * g.i[2] + position % g.i[2];
    if (block < 0 || slot > 0x7fffffff) {
      report(g.reporter.to, kIndexOutside, g.reporter.op, position, g.i[1] * g.i[2]);
      continue;
    }
    put_item<i64>(g.out[0], t, position);
    put_item<i64>(g.out[1], t, slot);
  }
}
