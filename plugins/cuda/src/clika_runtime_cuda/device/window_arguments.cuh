// Arguments of operators over windows of images, channels last. Plain C++ for host and device.
#pragma once

#include "arguments.cuh"

namespace clika_device {

// Absent spatial dims have size 1.
struct Windows {
  const void* in;
  const void* weight;
  const void* bias;
  void* out;
  i64* indices;
  void* items;
  i64 n, batch, channels;  // n: results
  i64 in_size[3], out_size[3], kernel[3], stride[3], pad[3], dilation[3];
  double power;
  i64 divisor;
  // Of a convolution.
  i64 made, group_channels, group_made;
  i64 weight_made, weight_place, weight_channel, weight_group;
  Reporter reporter;
  int adaptive, inside, transposed;
  int dtype, weight_dtype, bias_dtype, index_dtype;
};

// Resampling along the axes of a tensor: result i of an axis is the sum of `taps` weighted elements.
struct Taps {
  i64* index;
  double* weight;
  u8* outside;
  i64 size, taps;
};
struct AxisOfTaps {  // what a table is made of
  Taps table;
  i64 in, out, mode, transform, nearest_mode;
  double factor, start, end, a;
  int align, antialias, exclude, onnx;
};
struct Resampling {
  const void* from;
  void* to;
  Taps tables[kMaxRank];  // of size 0: the axis is left as it is
  i64 from_shape[kMaxRank], to_shape[kMaxRank];
  i64 n, outer, in, inner;
  i64 value;  // the bits of what stands outside
  int axis, rank, bytes;
  int from_dtype, to_dtype, wide, image;
};

}  // namespace clika_device
