// Affine quantization: codes and real numbers with one scale and zero point, those of a place on an axis, or
// those of a block. Scales come in the compute type, zero points as int64.
#include "level.hpp"
#include "elementwise.hpp"

// The scale of element [outer][place][inner] is number (outer * places + place / block) * inner_scales +
// inner, each with its step of 0 or 1.
struct Scales {
  int64_t outer = 1;
  int64_t size = 1;    // places along the axis
  int64_t inner = 1;   // elements that follow a place
  int64_t block = 1;   // places that share a scale
  int64_t places = 0;  // scales along the axis; 0: one for all
  bool blocked = false;

  Scales(const clika_value& x, const clika_value& scale, int64_t axis, int64_t block_size) {
    if (block_size == 0 && elements(scale) == 1) {
      inner = elements(x);
      return;
    }
    const int32_t at = static_cast<int32_t>(axis < 0 ? axis + x.rank : axis);
    for (int32_t d = 0; d < x.rank; ++d) (d < at ? outer : d == at ? size : inner) *= x.shape[d];
    blocked = block_size > 0;
    block = blocked ? block_size : 1;
    places = (size + block - 1) / block;
  }
  // Calls body(first element, elements, first scale, step of the scales).
  template <class Body>
  void each(const clika_call* call, const Body& body) const {
    const int64_t rows = outer * size;
    const int64_t piece = std::max<int64_t>(1, std::min(inner, kTile));
    const int64_t pieces = (inner + piece - 1) / piece;
    parallel(call, rows * pieces, std::max<int64_t>(1, kParallelFrom / piece),
             [&](int64_t begin, int64_t end, int32_t) {
               for (int64_t i = begin; i < end; ++i) {
                 const int64_t row = i / pieces;
                 const int64_t from = i % pieces * piece;
                 const int64_t place = row % size / block;
                 const int64_t scale = blocked ? (row / size * places + place) * inner + from
                                               : places == 0 ? 0 : place;
                 body(row * inner + from, std::min(piece, inner - from), scale, blocked ? 1 : 0);
               }
             });
  }
};

struct Range {
  double low;
  double high;
};
Range range_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_INT8:
      return {-128.0, 127.0};
    case CLIKA_UINT8:
      return {0.0, 255.0};
    case CLIKA_INT16:
      return {-32768.0, 32767.0};
    case CLIKA_UINT16:
      return {0.0, 65535.0};
    default:
      return {-2147483648.0, 2147483647.0};
  }
}

// The code of x before zero point and range; 0 for NaN.
template <class C>
double rounded(C x, C scale, bool inverse) {
  const C q = std::nearbyint(inverse ? x * (C{1} / scale) : x / scale);
  return q == q ? static_cast<double>(q) : 0.0;
}
double limited(double x, const Range& range) { return std::min(range.high, std::max(range.low, x)); }

template <class C>
struct Operands {
  const C* scale;
  const int64_t* zero;  // or null
  C at(int64_t i) const { return scale[i]; }
  double zero_at(int64_t i) const { return zero == nullptr ? 0.0 : static_cast<double>(zero[i]); }
};
template <class C>
Operands<C> operands(const clika_call* call) {
  return {data_of<C>(call->inputs[1]), present(call, 2) ? data_of<int64_t>(call->inputs[2]) : nullptr};
}

// `inverse`: by a product with the reciprocal of the scale, as PyTorch's operators do.
template <class C>
int32_t quantize(const clika_call* call, const Scales& scales, const Operands<C>& given, bool inverse) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const LoadTile<C> load = Tiles<C>::loader(in.dtype);
  const StoreTile<int64_t> store = Tiles<int64_t>::storer(out.dtype);
  const Range range = range_of(out.dtype);
  scales.each(call, [&](int64_t from, int64_t n, int64_t scale, int64_t step) {
    C x[kTile];
    int64_t code[kTile];
    load(x, in.data, from, 1, n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = scale + i * step;
      code[i] = static_cast<int64_t>(limited(rounded(x[i], given.at(k), inverse) + given.zero_at(k), range));
    }
    store(code, out.data, from, 1, n);
  });
  return CLIKA_OK;
}

int32_t choose_quantize(const clika_call* call, int64_t axis, int64_t block, bool inverse) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const Scales scales(call->inputs[0], call->inputs[1], axis, block);
  return call->inputs[0].dtype == CLIKA_FLOAT64
             ? quantize<double>(call, scales, operands<double>(call), inverse)
             : quantize<float>(call, scales, operands<float>(call), inverse);
}

// attrs axis, block_size, dtype.
int32_t run_quantize(const clika_call* call) {
  return choose_quantize(call, attr_int(call, 0, 1), attr_int(call, 1, 0), false);
}
// attrs axis, dtype.
int32_t run_per_channel(const clika_call* call) {
  return choose_quantize(call, attr_int(call, 0, 0), 0, true);
}
// scalars scale, zero_point; attr dtype.
template <class C>
int32_t quantize_whole(const clika_call* call) {
  const C scale = static_cast<C>(scalar_float(call, 0, 1.0));
  const int64_t zero = scalar_int(call, 1, 0);
  clika_value one = call->inputs[0];
  one.rank = 0;
  return quantize<C>(call, Scales(call->inputs[0], one, 0, 0), {&scale, &zero}, true);
}
int32_t run_per_tensor(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? quantize_whole<double>(call) : quantize_whole<float>(call);
}

// attrs axis, block_size, dtype.
template <class C>
int32_t dequantize(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Scales scales(in, call->inputs[1], attr_int(call, 0, 1), attr_int(call, 1, 0));
  const Operands<C> given = operands<C>(call);
  const LoadTile<int64_t> load = Tiles<int64_t>::loader(in.dtype);
  const bool wide = compute_of(out.dtype) == kDouble;
  scales.each(call, [&](int64_t from, int64_t n, int64_t scale, int64_t step) {
    int64_t code[kTile];
    C x[kTile];
    load(code, in.data, from, 1, n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = scale + i * step;
      const int64_t zero = given.zero == nullptr ? 0 : given.zero[k];
      x[i] = static_cast<C>(code[i] - zero) * given.at(k);
    }
    if (wide) {
      double y[kTile];
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<double>(x[i]);
      Tiles<double>::storer(out.dtype)(y, out.data, from, 1, n);
    } else {
      float y[kTile];
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
      Tiles<float>::storer(out.dtype)(y, out.data, from, 1, n);
    }
  });
  return CLIKA_OK;
}
int32_t run_dequantize(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  return call->inputs[1].dtype == CLIKA_FLOAT64 ? dequantize<double>(call) : dequantize<float>(call);
}

int32_t run_dynamic(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t n = elements(in);
  const float* x = data_of<float>(in);
  float low = 0.0f;
  float high = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  const Range range = range_of(CLIKA_UINT8);
  const int64_t zero = static_cast<int64_t>(limited(rounded(-low, scale, false), range));
  *data_of<float>(call->outputs[1]) = scale;
  *data_of<uint8_t>(call->outputs[2]) = static_cast<uint8_t>(zero);
  if (n == 0) return CLIKA_OK;
  clika_value one = in;
  one.rank = 0;
  return quantize<float>(call, Scales(in, one, 0, 0), {&scale, &zero}, false);
}

// attrs quant_min, quant_max from `first` on.
template <class C>
int32_t fake(const clika_call* call, int64_t axis, uint32_t first) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Scales scales(in, call->inputs[1], axis, 0);
  const Operands<C> given = operands<C>(call);
  const LoadTile<C> load = Tiles<C>::loader(in.dtype);
  const StoreTile<C> store = Tiles<C>::storer(out.dtype);
  const Range range{static_cast<double>(attr_int(call, first, 0)),
                    static_cast<double>(attr_int(call, first + 1, 0))};
  scales.each(call, [&](int64_t from, int64_t n, int64_t scale, int64_t step) {
    C x[kTile];
    load(x, in.data, from, 1, n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = scale + i * step;
      const double zero = given.zero_at(k);
      const double code = limited(rounded(x[i], given.at(k), true) + zero, range);
      x[i] = static_cast<C>(code - zero) * given.at(k);
    }
    store(x, out.data, from, 1, n);
  });
  return CLIKA_OK;
}
int32_t run_fake_tensor(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? fake<double>(call, 0, 0) : fake<float>(call, 0, 0);
}
int32_t run_fake_channel(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const int64_t axis = attr_int(call, 0, 0);
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? fake<double>(call, axis, 1) : fake<float>(call, axis, 1);
}

constexpr uint64_t kReal = FLOATS | F64;
constexpr uint64_t kCodes = CLIKA_BIT(CLIKA_INT8) | CLIKA_BIT(CLIKA_UINT8) | CLIKA_BIT(CLIKA_INT16) |
                            CLIKA_BIT(CLIKA_UINT16) | I32;

CLIKA_KERNELS(quantization,
              Entry("quantize_linear", run_quantize).in(kReal, F32 | F64, I64).out(kCodes).contiguous(),
              Entry("quantize_per_channel", run_per_channel).in(kReal, F32 | F64, I64).out(kCodes)
                  .contiguous(),
              Entry("quantize_per_tensor", run_per_tensor).in(kReal).out(kCodes).contiguous(),
              Entry("dequantize_linear", run_dequantize).in(kCodes, F32 | F64, I64).out(kReal).contiguous(),
              Entry("dynamic_quantize_linear", run_dynamic).in(F32).out(kCodes | F32).contiguous(),
              Entry("fake_quantize_per_tensor_affine", run_fake_tensor).in(kReal, F32 | F64, I64).out(kReal)
                  .contiguous(),
              Entry("fake_quantize_per_channel_affine", run_fake_channel).in(kReal, F32 | F64, I64).out(kReal)
                  .contiguous())
#include "level_end.hpp"
