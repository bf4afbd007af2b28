// Pooling, its inverse, and windows as rows: im2col and col2im.
#include "general.hpp"
#include "windows.hpp"

namespace clika_cuda {

namespace {

using clika_device::Windows;

Program *max_pool, *average_pool, *power_pool, *unpool_items, *windows_to_rows, *add_windows, *replace_places;

int32_t run_windows(const clika_call* call, const char* op, Program* program, const Windows& w) {
  return w.n == 0 ? static_cast<int32_t>(CLIKA_OK) : launch(call, op, program, {blocks_for(call, w.n, 256)}, 256, &w);
}

// The sizes of input 0 and output 0, [N, spatial..., C] or [spatial..., C].
Windows open(const clika_call* call, int n) {
  const clika_value& out = call->outputs[0];
  Windows w = windows_of(call->inputs[0], n);
  w.out = out.data;
  w.n = elements(out);
  for (int i = 0; i < n; ++i) w.out_size[3 - n + i] = out.shape[out.rank - 1 - n + i];
  return w;
}
// Sliding windows. An absent or empty stride is the kernel's size.
void slide(Windows* w, int n, const clika_attr& kernels, const clika_attr& strides, const clika_attr* pads,
           const clika_attr* dilations) {
  for (int i = 0; i < n; ++i) {
    const int d = 3 - n + i;
    w->kernel[d] = number_at(kernels, i);
    w->stride[d] = strides.kind == CLIKA_ATTR_INTS && strides.n > 0 ? number_at(strides, i) : w->kernel[d];
    w->pad[d] = pads == nullptr ? 0 : number_at(*pads, i);
    w->dilation[d] = dilations == nullptr ? 1 : number_at(*dilations, i);
  }
}

template <int N>
struct Pool {
  static int32_t largest(const clika_call* call) {
    Windows w = open(call, N);
    if (call->n_outputs > 1) w.indices = static_cast<clika_device::i64*>(call->outputs[1].data);
    slide(&w, N, call->attrs[0], call->attrs[1], &call->attrs[2], &call->attrs[3]);
    return run_windows(call, "max_pool", max_pool, w);
  }
  static int32_t adaptive_largest(const clika_call* call) {
    Windows w = open(call, N);
    if (call->n_outputs > 1) w.indices = static_cast<clika_device::i64*>(call->outputs[1].data);
    w.adaptive = 1;
    return run_windows(call, "adaptive_max_pool", max_pool, w);
  }
  // attrs: kernel, stride, padding, ceil_mode, count_include_pad, divisor_override.
  static int32_t average(const clika_call* call) {
    Windows w = open(call, N);
    slide(&w, N, call->attrs[0], call->attrs[1], &call->attrs[2], nullptr);
    w.divisor = attr_int(call, 5, 0);
    w.inside = attr_int(call, 4, 1) == 0;
    return run_windows(call, "avg_pool", average_pool, w);
  }
  static int32_t adaptive_average(const clika_call* call) {
    Windows w = open(call, N);
    w.adaptive = 1;
    return run_windows(call, "adaptive_avg_pool", average_pool, w);
  }
  // attrs: kernel, stride, ceil_mode; scalar norm_type.
  static int32_t power(const clika_call* call) {
    Windows w = open(call, N);
    w.power = scalar_float(call, 0, 2.0);
    if (w.power == 0.0) return refuse(call, "lp_pool: norm_type must not be 0");
    slide(&w, N, call->attrs[0], call->attrs[1], nullptr, nullptr);
    return run_windows(call, "lp_pool", power_pool, w);
  }
  // input, indices.
  static int32_t inverse(const clika_call* call) {
    const clika_value& out = call->outputs[0];
    if (elements(out) == 0) return CLIKA_OK;
    if (const int32_t status = clear(call, "max_unpool", out.data, elements(out) * size_of(out.dtype))) return status;
    Windows w = open(call, N);
    w.n = elements(call->inputs[0]);
    w.indices = static_cast<clika_device::i64*>(call->inputs[1].data);
    w.index_dtype = call->inputs[1].dtype;
    w.reporter = reporter_of(call, "max_unpool");
    Item* items = room_for<Item>(call, w.n);
    if (items == nullptr) return CLIKA_UNAVAILABLE;
    w.items = items;
    if (const int32_t status = run_windows(call, "max_unpool", unpool_items, w)) return status;
    if (const int32_t status = sort_items(call, "max_unpool", &items, 1, w.n)) return status;
    General g = general_of(call, "max_unpool");
    g.in[2] = g.in[0];
    g.room[0] = items;
    g.n = w.n;
    return launch_each(call, "max_unpool", replace_places, g);
  }
};

// `image` is the tensor of pixels; attrs from `first` on: kernel, dilation, padding, stride.
Windows columns(const clika_call* call, const clika_value& image, int n, uint32_t first) {
  Windows w = windows_of(image, n);
  slide(&w, n, call->attrs[first], call->attrs[first + 3], &call->attrs[first + 2], &call->attrs[first + 1]);
  for (int d = 3 - n; d < 3; ++d) {
    w.out_size[d] = (w.in_size[d] + 2 * w.pad[d] - w.dilation[d] * (w.kernel[d] - 1) - 1) / w.stride[d] + 1;
  }
  w.in = call->inputs[0].data;
  w.out = call->outputs[0].data;
  w.n = elements(call->outputs[0]);
  return w;
}
// attrs kernel_size, dilation, padding, stride.
int32_t run_im2col(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const int given = call->attrs[0].n;
  return run_windows(call, "im2col", windows_to_rows, columns(call, call->inputs[0], given == 1 ? 2 : given, 0));
}
// attrs output_size, kernel_size, dilation, padding, stride.
int32_t run_col2im(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const int given = call->attrs[0].n;
  return run_windows(call, "col2im", add_windows, columns(call, call->outputs[0], given == 1 ? 2 : given, 1));
}

template <int N>
void add_pools(Registry& registry) {
  static const std::string names[] = {
      "max_pool" + std::to_string(N) + "d",          "avg_pool" + std::to_string(N) + "d",
      "lp_pool" + std::to_string(N) + "d",           "adaptive_avg_pool" + std::to_string(N) + "d",
      "adaptive_max_pool" + std::to_string(N) + "d", "max_unpool" + std::to_string(N) + "d"};
  constexpr uint64_t any = kFloats4 | (kInts & ~bit(CLIKA_UINT64)), i64 = bit(CLIKA_INT64);
  registry.entry(names[0].c_str(), Pool<N>::largest, {any}, any | i64, 0);
  registry.entry(names[1].c_str(), Pool<N>::average, {any}, any, 0);
  registry.entry(names[2].c_str(), Pool<N>::power, {kFloats4}, kFloats4, 0);
  registry.entry(names[3].c_str(), Pool<N>::adaptive_average, {kFloats4}, kFloats4, 0);
  registry.entry(names[4].c_str(), Pool<N>::adaptive_largest, {any}, any | i64, 0);
  registry.entry(names[5].c_str(), Pool<N>::inverse, {kFloats4 | kInts, kIndex}, kFloats4 | kInts, 0);
}

}  // namespace

void add_pooling(Registry& registry) {
  const std::pair<Program**, const char*> programs[] = {
      {&max_pool, "max_pool"},         {&average_pool, "average_pool"},       {&power_pool, "power_pool"},
      {&unpool_items, "unpool_items"}, {&windows_to_rows, "windows_to_rows"}, {&add_windows, "add_windows"},
  };
  for (const auto& [program, name] : programs) *program = registry.program("pooling", "", name);
  replace_places = registry.program("scattering", "", "replace_places");
  add_pools<1>(registry);
  add_pools<2>(registry);
  add_pools<3>(registry);
  registry.entry("im2col", run_im2col, {kEvery}, kEvery, 0);
  registry.entry("col2im", run_col2im, {kEvery}, kEvery, 0);
}

}  // namespace clika_cuda
