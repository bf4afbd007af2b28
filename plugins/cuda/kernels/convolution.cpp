// Convolutions, also transposed, over 1 to 3 spatial dims.
#include "windows.hpp"

namespace clika_cuda {

namespace {

using clika_device::Windows;

Program* programs[4];
constexpr int64_t kTile = 64;  // of convolution.cu

// attrs: stride, padding, dilation, groups; of a transposed one stride, padding, output_padding, groups, dilation.
template <int N, bool kTransposed>
int32_t run(const clika_call* call) {
  const clika_value& weight = call->inputs[1];
  const clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  Windows w = windows_of(call->inputs[0], N);
  const int64_t groups = attr_int(call, 3, 1);
  int64_t places = 1;
  for (int i = 0; i < N; ++i) {
    const int d = 3 - N + i;
    w.out_size[d] = out.shape[out.rank - 1 - N + i];
    w.kernel[d] = weight.shape[1 + i];
    w.stride[d] = number_at(call->attrs[0], i);
    w.pad[d] = number_at(call->attrs[1], i);
    w.dilation[d] = number_at(call->attrs[kTransposed ? 4 : 2], i);
    places *= w.kernel[d];
  }
  w.transposed = kTransposed;
  w.weight = weight.data;
  w.weight_dtype = weight.dtype;
  if (present(call, 2)) {
    w.bias = call->inputs[2].data;
    w.bias_dtype = call->inputs[2].dtype;
  }
  w.out = out.data;
  w.made = out.shape[out.rank - 1];
  w.group_channels = w.channels / groups;
  w.group_made = w.made / groups;
  // Weights: [made, places, channels of a group]; transposed [channels, places, made of a group].
  w.weight_place = kTransposed ? w.group_made : w.group_channels;
  w.weight_made = kTransposed ? 1 : places * w.group_channels;
  w.weight_channel = kTransposed ? places * w.group_made : 1;
  w.weight_group = places * w.group_channels * w.group_made;
  const int64_t pixels = elements(out) / w.made;
  const Grid grid{static_cast<unsigned>((pixels + kTile - 1) / kTile), static_cast<unsigned>((w.group_made + kTile - 1) / kTile),
                  static_cast<unsigned>(groups)};
  return launch(call, kTransposed ? "conv_transpose" : "conv", programs[compute_of(out.dtype)], grid, 256, &w);
}

}  // namespace

void add_convolution(Registry& registry) {
  for (int c = kFloat; c <= kInt; ++c) {
    programs[c] = registry.program("convolution", std::string("CLIKA_C=") + kComputeNames[c], "convolve");
  }
  programs[kUint] = programs[kInt];  // which wraps around alike
  const std::pair<const char*, clika_kernel_fn> entries[] = {
      {"conv1d", run<1, false>},          {"conv2d", run<2, false>},          {"conv3d", run<3, false>},
      {"conv_transpose1d", run<1, true>}, {"conv_transpose2d", run<2, true>}, {"conv_transpose3d", run<3, true>},
  };
  for (const auto& [name, function] : entries) registry.entry(name, function, {kFloats4 | kInts}, kFloats4 | kInts, 0);
}

}  // namespace clika_cuda
