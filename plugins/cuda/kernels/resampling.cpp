// interpolate, resize, grid_sample and affine_grid. Tables of taps are made on the device, an axis at a time.
#include <cmath>

#include "general.hpp"
#include "window_arguments.cuh"

namespace clika_cuda {

namespace {

using clika_device::AxisOfTaps;
using clika_device::Resampling;
using clika_device::Taps;

Program *fill_taps, *nearest_elements, *put_outside, *weigh_axis, *sample_grids, *affine_grids;

enum Mode { kNearest = 0, kNearestExact, kLinear, kBilinear, kBicubic, kTrilinear, kArea };
enum { kCrop = 5 };  // of resize's transforms

// How many elements are weighed for a result.
int64_t taps_of(const AxisOfTaps& a) {
  if (a.onnx) {
    const double wide = a.mode == 2 ? 2.0 : 1.0, narrow = a.antialias ? std::min(1.0, a.factor) : 1.0;
    return a.mode == 0 ? 1 : 2 - 2 * (static_cast<int64_t>(std::floor(-wide / narrow)) + 1);
  }
  if (a.mode == kNearest || a.mode == kNearestExact) return 1;
  if (a.mode == kArea) return (a.in + a.out - 1) / a.out + 1;
  if (!a.antialias) return a.mode == kBicubic ? 4 : 2;
  const double in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  const double ratio = a.align ? (a.out > 1 ? (in - 1.0) / (out - 1.0) : 0.0) : a.factor > 0.0 ? 1.0 / a.factor : in / out;
  const double wide = a.mode == kBicubic ? 2.0 : 1.0;
  return std::min<int64_t>(a.in, static_cast<int64_t>(std::ceil(wide * std::max(1.0, ratio))) * 2 + 1);
}
int32_t make_table(const clika_call* call, const char* op, AxisOfTaps a, Taps* table) {
  a.table.size = a.out;
  a.table.taps = taps_of(a);
  const int64_t n = a.table.size * a.table.taps;
  char* memory = room_for<char>(call, n * 16 + a.table.size);
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  a.table.index = reinterpret_cast<clika_device::i64*>(memory);
  a.table.weight = reinterpret_cast<double*>(memory + n * 8);
  a.table.outside = reinterpret_cast<clika_device::u8*>(memory + n * 16);
  *table = a.table;
  return launch(call, op, fill_taps, {blocks_for(call, a.out, 128)}, 128, &a);
}

// `bytes`: the image is one of bytes after each axis, the last axis first, as PyTorch resamples bytes; else the results
// between two axes keep the compute type.
int32_t weigh(const clika_call* call, const char* op, Resampling r, bool wide, bool bytes) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  int axes[CLIKA_MAX_RANK], n = 0;
  int64_t shape[CLIKA_MAX_RANK];
  for (int32_t d = 0; d < in.rank; ++d) {
    shape[d] = in.shape[d];
    if (r.tables[d].size > 0) axes[n++] = d;
  }
  r.wide = wide;
  r.image = bytes;
  r.from = in.data;
  r.from_dtype = in.dtype;
  for (int i = 0; i < n; ++i) {
    r.axis = axes[bytes ? n - 1 - i : i];
    r.in = shape[r.axis];
    r.outer = r.inner = 1;
    for (int e = 0; e < r.axis; ++e) r.outer *= shape[e];
    for (int e = r.axis + 1; e < in.rank; ++e) r.inner *= shape[e];
    shape[r.axis] = r.tables[r.axis].size;
    r.n = r.outer * shape[r.axis] * r.inner;
    r.to = out.data;
    r.to_dtype = out.dtype;
    if (i < n - 1) {
      if (!bytes) r.to_dtype = wide ? CLIKA_FLOAT64 : CLIKA_FLOAT32;
      r.to = room_for<char>(call, r.n * size_of(r.to_dtype));
      if (r.to == nullptr) return CLIKA_UNAVAILABLE;
    }
    if (const int32_t status = launch(call, op, weigh_axis, {blocks_for(call, r.n, 256)}, 256, &r)) return status;
    r.from = r.to;
    r.from_dtype = r.to_dtype;
  }
  return CLIKA_OK;
}

// Resamples along the axes that have tables; of no axis at all the input is copied.
int32_t resample(const clika_call* call, const char* op, Resampling r, bool nearest, bool image) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  r.rank = in.rank;
  r.bytes = static_cast<int>(size_of(in.dtype));
  bool any = false;
  for (int32_t d = 0; d < in.rank; ++d) {
    r.from_shape[d] = in.shape[d];
    r.to_shape[d] = out.shape[d];
    any = any || r.tables[d].size > 0;
  }
  r.from = in.data;
  r.to = out.data;
  r.n = elements(out);
  if (nearest || !any) return launch(call, op, nearest_elements, {blocks_for(call, r.n, 256)}, 256, &r);
  const bool byte = r.bytes == 1;
  const bool narrow = compute_of(in.dtype) == kFloat || byte;
  return weigh(call, op, r, !narrow, image && byte && narrow);
}

// attrs: size, scale_factor, mode, align_corners, recompute_scale_factor, antialias.
int32_t run_interpolate(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const clika_attr& factors = call->attrs[1];
  const bool given = factors.kind == CLIKA_ATTR_FLOATS && attr_int(call, 4, 0) == 0;
  Resampling r{};
  AxisOfTaps a{};
  a.mode = attr_int(call, 2, kNearest);
  a.align = attr_int(call, 3, 0) != 0;
  a.antialias = attr_int(call, 5, 0) != 0;
  for (int32_t d = 1; d < in.rank - 1; ++d) {
    a.factor = given ? factors.v.floats[factors.n == 1 ? 0 : d - 1] : 0.0;
    a.in = in.shape[d];
    a.out = out.shape[d];
    if (const int32_t status = make_table(call, "interpolate", a, &r.tables[d])) return status;
  }
  return resample(call, "interpolate", r, a.mode == kNearest || a.mode == kNearestExact, true);
}

// The bits of a number in a dtype; integers are rounded to the nearest and kept within the range.
int64_t bits_of(double x, int32_t dtype) {
  int64_t bits = 0;
  const float narrow = static_cast<float>(x);
  switch (dtype) {
    case CLIKA_FLOAT64: std::memcpy(&bits, &x, 8); return bits;
    case CLIKA_FLOAT32: std::memcpy(&bits, &narrow, 4); return bits;
    case CLIKA_FLOAT16: return half_of(narrow);
    case CLIKA_BFLOAT16: return bfloat_of(narrow);
    default: break;
  }
  const int size = static_cast<int>(8 * size_of(dtype));
  const bool positive = dtype >= CLIKA_UINT8 && dtype <= CLIKA_UINT64;
  const double top = std::ldexp(1.0, positive ? size : size - 1), whole = std::nearbyint(x);
  if (whole >= top - (size < 64 ? 1.0 : 0.0)) return static_cast<int64_t>(positive ? ~uint64_t{0} : (uint64_t{1} << (size - 1)) - 1);
  if (whole <= (positive ? 0.0 : -top)) return positive ? 0 : static_cast<int64_t>(uint64_t{1} << (size - 1));
  return dtype == CLIKA_UINT64 ? static_cast<int64_t>(static_cast<uint64_t>(whole)) : static_cast<int64_t>(whole);
}

// attrs: sizes, scales, axes, mode, coordinate_transformation_mode, nearest_mode, keep_aspect_ratio_policy,
// cubic_coeff_a, exclude_outside, antialias, roi, extrapolation_value.
int32_t run_resize(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const clika_attr& sizes = call->attrs[0];
  const clika_attr& scales = call->attrs[1];
  const clika_attr& axes = call->attrs[2];
  const clika_attr& roi = call->attrs[10];
  const int64_t policy = attr_int(call, 6, 0);
  const int32_t n = axes.kind == CLIKA_ATTR_INTS ? axes.n : in.rank;
  const auto axis_at = [&](int32_t i) {
    return axes.kind == CLIKA_ATTR_INTS ? from_front(axes.v.ints[i], in.rank) : i;
  };
  double common = 0.0;
  for (int32_t i = 0; sizes.kind == CLIKA_ATTR_INTS && policy != 0 && i < n; ++i) {
    const double ratio = static_cast<double>(sizes.v.ints[i]) / static_cast<double>(in.shape[axis_at(i)]);
    common = i == 0 ? ratio : policy == 1 ? std::min(common, ratio) : std::max(common, ratio);
  }
  Resampling r{};
  AxisOfTaps a{};
  a.onnx = 1;
  a.end = 1.0;
  a.mode = attr_int(call, 3, 0);
  a.transform = attr_int(call, 4, 0);
  a.nearest_mode = attr_int(call, 5, 0);
  a.a = call->attrs[7].v.f;
  a.exclude = attr_int(call, 8, 0) != 0;
  a.antialias = attr_int(call, 9, 0) != 0;
  for (int32_t i = 0; i < n; ++i) {
    const int32_t d = axis_at(i);
    a.in = in.shape[d];
    a.out = out.shape[d];
    a.factor = scales.kind == CLIKA_ATTR_FLOATS ? scales.v.floats[i]
               : common > 0.0 ? common
                              : static_cast<double>(a.out) / static_cast<double>(a.in);
    if (a.transform == kCrop) {
      a.start = roi.v.floats[i];
      a.end = roi.v.floats[n + i];
    }
    if (a.factor == 1.0 && a.in == a.out && a.transform != kCrop) continue;
    if (const int32_t status = make_table(call, "resize", a, &r.tables[d])) return status;
  }
  const int32_t status = resample(call, "resize", r, a.mode == 0, false);
  if (status != CLIKA_OK || a.transform != kCrop) return status;
  r.value = bits_of(call->attrs[11].v.f, out.dtype);
  r.rank = out.rank;
  r.bytes = static_cast<int>(size_of(out.dtype));
  for (int32_t d = 0; d < out.rank; ++d) r.to_shape[d] = out.shape[d];
  r.to = out.data;
  r.n = elements(out);
  return launch(call, "resize", put_outside, {blocks_for(call, r.n, 256)}, 256, &r);
}

// Inputs image, grid; attrs mode, padding_mode, align_corners. In one piece.
int32_t run_grid_sample(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  General g = general_of(call, "grid_sample");
  if (g.n == 0) return CLIKA_OK;
  g.i[0] = input.rank - 2;
  for (uint32_t k = 0; k < 3; ++k) g.i[1 + k] = attr_int(call, k, 0);
  g.i[4] = input.shape[input.rank - 1];
  g.i[5] = g.n / g.i[4] / input.shape[0];
  for (int32_t d = 0; d < input.rank - 2; ++d) g.i[8 + d] = input.shape[1 + d];
  return launch_each(call, "grid_sample", sample_grids, g);
}
// attrs: size, align_corners. The result is [N, sizes..., n].
int32_t run_affine_grid(const clika_call* call) {
  General g = general_of(call, "affine_grid");
  if (g.n == 0) return CLIKA_OK;
  g.i[0] = call->outputs[0].rank - 2;
  g.i[1] = attr_int(call, 1, 0);
  g.i[2] = g.n / g.i[0] / call->outputs[0].shape[0];
  return launch_each(call, "affine_grid", affine_grids, g);
}

}  // namespace

void add_resampling(Registry& registry) {
  const std::pair<Program**, const char*> programs[] = {
      {&fill_taps, "fill_taps"},   {&nearest_elements, "nearest_elements"}, {&put_outside, "put_outside"},
      {&weigh_axis, "weigh_axis"}, {&sample_grids, "sample_grids"},         {&affine_grids, "affine_grids"},
  };
  for (const auto& [program, name] : programs) *program = registry.program("resampling", "", name);
  registry.entry("interpolate", run_interpolate, {kFloats4 | kInts}, kFloats4 | kInts, 0);
  registry.entry("resize", run_resize, {kFloats4 | kInts}, kFloats4 | kInts, 0);
  registry.entry("grid_sample", run_grid_sample, {kFloats4}, kFloats4, 0);
  registry.entry("affine_grid", run_affine_grid, {kFloats4}, kFloats4, 0);
}

}  // namespace clika_cuda
