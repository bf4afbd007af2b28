// What a convolution and a transposed convolution over 1 to 3 spatial dimensions have in common, channels
// last. Included after level.hpp.
//
// A place of the result is cut into three coordinates (absent dimensions have size 1), and the results whose
// kernels hit the input in the same way form a phase: a convolution has one, a transposed one has one for
// each combination of the strides. Within a phase, result q of an axis reads the input at q * in_step + off +
// j * off_step for its taps j, with the kernel's place kernel + j * kernel_step.

struct Axis {
  int64_t count;  // results of the phase
  int64_t in_step;
  int64_t out_step;
  int64_t out_base;
  int64_t taps;
  int64_t kernel;
  int64_t kernel_step;
  int64_t off;
  int64_t off_step;
};

inline int64_t number_at(const clika_attr& attr, int32_t i) { return attr.v.ints[attr.n == 1 ? 0 : i]; }

struct Convolution {
  const clika_value* input;
  const clika_value* weight;
  const clika_value* bias = nullptr;
  clika_value* out;
  bool transposed;
  int64_t batch = 1;
  int64_t groups;
  int64_t channels;        // of the input
  int64_t group_channels;  // of the input, in a group
  int64_t made;            // channels of the result
  int64_t group_made;
  int64_t in_size[3] = {1, 1, 1};
  int64_t out_size[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t pad[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};

  // attrs: stride, padding, dilation, groups; of a transposed one stride, padding, output_padding, groups,
  // dilation.
  Convolution(const clika_call* call, int32_t n, bool transposed_)
      : input(&call->inputs[0]), weight(&call->inputs[1]), out(&call->outputs[0]), transposed(transposed_) {
    if (present(call, 2)) bias = &call->inputs[2];
    const clika_attr& dilations = call->attrs[transposed ? 4 : 2];
    groups = attr_int(call, 3, 1);
    channels = input->shape[input->rank - 1];
    made = out->shape[out->rank - 1];
    group_channels = channels / groups;
    group_made = made / groups;
    if (input->rank == n + 2) batch = input->shape[0];
    for (int32_t i = 0; i < n; ++i) {
      const int32_t d = 3 - n + i;
      in_size[d] = input->shape[input->rank - 1 - n + i];
      out_size[d] = out->shape[out->rank - 1 - n + i];
      kernel[d] = weight->shape[1 + i];
      stride[d] = number_at(call->attrs[0], i);
      pad[d] = number_at(call->attrs[1], i);
      dilation[d] = number_at(dilations, i);
    }
  }

  int64_t places() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t steps(int d) const { return transposed ? std::min(stride[d], out_size[d]) : 1; }
  int64_t phases() const { return steps(0) * steps(1) * steps(2); }

  // The axes of a phase.
  void phase(int64_t index, Axis* axes) const {
    for (int32_t d = 2; d >= 0; --d) {
      Axis& a = axes[d];
      if (!transposed) {
        a = {out_size[d], stride[d], 1, 0, kernel[d], 0, 1, -pad[d], dilation[d]};
        continue;
      }
      const int64_t s = stride[d];
      const int64_t base = index % steps(d);
      index /= steps(d);
      a = {(out_size[d] - base + s - 1) / s, 1, s, base, 0, 0, 1, 0, 0};
      // The places k of the kernel with base + pad - k * dilation divisible by the stride: the first, and
      // then every s / gcd(s, dilation)-th.
      a.kernel_step = s / std::gcd(s, dilation[d]);
      for (int64_t k = 0; k < std::min(kernel[d], a.kernel_step); ++k) {
        const int64_t over = base + pad[d] - k * dilation[d];
        if (over % s != 0) continue;
        a.kernel = k;
        a.off = over / s;
        a.taps = (kernel[d] - k + a.kernel_step - 1) / a.kernel_step;
        a.off_step = -(dilation[d] * a.kernel_step / s);
        break;
      }
    }
  }
  // Offset of the kernel's place of a tap, counted in places.
  int64_t place(const Axis* axes, int64_t j0, int64_t j1, int64_t j2) const {
    const int64_t k0 = axes[0].kernel + j0 * axes[0].kernel_step;
    const int64_t k1 = axes[1].kernel + j1 * axes[1].kernel_step;
    const int64_t k2 = axes[2].kernel + j2 * axes[2].kernel_step;
    return (k0 * kernel[1] + k1) * kernel[2] + k2;
  }
  // The input's pixel of an image that tap j reads for result q along axis d; outside of [0, in_size) it is
  // 0.
  static int64_t reads(const Axis& a, int64_t q, int64_t j) { return q * a.in_step + a.off + j * a.off_step; }
};
