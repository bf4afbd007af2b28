// cast, copy, copy_: every pair of the dtypes that have whole bytes, over any strides.
#include "level.hpp"
#include "elementwise.hpp"

// float8 decodes through a table that is built at compile time from the format's exponent and mantissa.
struct Narrow8 {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;   // all exponent bits set: infinity and NaN as in IEEE
  bool unsigned_zero;  // the "fnuz" forms: 0x80 is NaN, there is no negative zero
};
inline Narrow8 narrow8_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_FLOAT8_E4M3:
      return {4, 3, 7, false, false};
    case CLIKA_FLOAT8_E5M2:
      return {5, 2, 15, true, false};
    case CLIKA_FLOAT8_E4M3FNUZ:
      return {4, 3, 8, false, true};
    default:
      return {5, 2, 16, false, true};
  }
}
inline float decode8(uint8_t x, const Narrow8& f) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.unsigned_zero && x == 0x80) return nan;
  const int exponent = (x & 0x7f) >> f.mantissa_bits;
  const int mantissa = x & ((1 << f.mantissa_bits) - 1);
  const int top = (1 << f.exponent_bits) - 1;
  const float sign = (x & 0x80) ? -1.0f : 1.0f;
  if (f.has_infinity && exponent == top) return mantissa ? nan : sign * std::numeric_limits<float>::infinity();
  if (!f.has_infinity && !f.unsigned_zero && (x & 0x7f) == 0x7f) return nan;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)), exponent - f.bias - f.mantissa_bits);
}
// Nearest, ties to even; what is too large becomes infinity where the format has one, else NaN.
inline uint8_t encode8(float value, const Narrow8& f) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const uint8_t nan = f.unsigned_zero ? 0x80 : static_cast<uint8_t>(sign | 0x7f);
  if (std::isnan(value)) return nan;
  const float magnitude = std::fabs(value);
  const uint8_t too_large =
      f.has_infinity ? static_cast<uint8_t>(sign | (((1 << f.exponent_bits) - 1) << f.mantissa_bits)) : nan;
  if (std::isinf(value)) return too_large;
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
  const int lowest = 1 - f.bias;
  const int scale = std::max(exponent - 1, lowest) - f.mantissa_bits;
  const float steps = std::nearbyint(std::ldexp(magnitude, -scale));  // exact scaling, ties to even
  if (steps == 0) return f.unsigned_zero ? 0 : sign;
  // steps counts units of 2^scale from 0; with the exponent field it reads as one integer.
  const int field = std::max(exponent - 1, lowest) - lowest;
  const int code = static_cast<int>(steps) + (field << f.mantissa_bits);
  int largest = 0x7f;  // fnuz: every code is finite
  if (f.has_infinity) largest = (((1 << f.exponent_bits) - 1) << f.mantissa_bits) - 1;
  else if (!f.unsigned_zero) largest = 0x7e;
  if (code > largest) return too_large;
  return static_cast<uint8_t>(sign | code);
}

bool is_float8(int32_t dtype) { return dtype >= CLIKA_FLOAT8_E4M3 && dtype <= CLIKA_FLOAT8_E5M2FNUZ; }

// Loads and stores a tile of `C` (float, double, int64_t or uint64_t) from or to any dtype.
template <class C>
void load_any(C* to, const void* data, int32_t dtype, int64_t offset, int64_t step, int64_t n) {
  const auto each = [&](auto tag) {
    const auto* p = static_cast<const decltype(tag)*>(data) + offset;
    for (int64_t i = 0; i < n; ++i) to[i] = widen<C>(p[i * step]);
  };
  const auto half = [&](auto tag) {
    const auto* p = static_cast<const decltype(tag)*>(data) + offset;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(to_float(p[i * step]));
  };
  switch (dtype) {
    case CLIKA_BOOL: return each(boolean{});
    case CLIKA_INT8: return each(int8_t{});
    case CLIKA_INT16: return each(int16_t{});
    case CLIKA_INT32: return each(int32_t{});
    case CLIKA_INT64: return each(int64_t{});
    case CLIKA_UINT8: return each(uint8_t{});
    case CLIKA_UINT16: return each(uint16_t{});
    case CLIKA_UINT32: return each(uint32_t{});
    case CLIKA_UINT64: return each(uint64_t{});
    case CLIKA_FLOAT16: return half(f16{});
    case CLIKA_BFLOAT16: return half(bf16{});
    case CLIKA_FLOAT32: return each(float{});
    case CLIKA_FLOAT64: return each(double{});
    default: {
      const Narrow8 format = narrow8_of(dtype);
      const uint8_t* p = static_cast<const uint8_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(decode8(p[i * step], format));
    }
  }
}

// A float outside an integer's range is undefined in C++: bring it to a defined, unspecified value first.
template <class I, class C>
I to_integer(C x) {
  if constexpr (std::is_floating_point<C>::value) {
    const C low = static_cast<C>(std::numeric_limits<int64_t>::min());
    if (!(x >= low && x < -low)) {
      if (std::is_same<I, uint64_t>::value && x >= -low && x < static_cast<C>(18446744073709551616.0)) {
        return static_cast<I>(static_cast<uint64_t>(x));
      }
      return static_cast<I>(std::numeric_limits<int64_t>::min());
    }
    return static_cast<I>(static_cast<int64_t>(x));
  } else {
    return static_cast<I>(x);
  }
}

template <class C>
float round_to_float(C x) {
  return static_cast<float>(x);
}

// A double goes to 16 bits in one rounding: when the float nearest to it is a tie of the narrow format, the part that
// the float lost decides, so it is put back as a sticky bit.
template <class C>
float sticky_float(C x) {
  if constexpr (sizeof(C) < 8) {
    return static_cast<float>(x);
  } else {
    float rounded = static_cast<float>(x);
    if (static_cast<C>(rounded) == x || !std::isfinite(rounded)) return rounded;
    const bool grew = (x < 0) ? static_cast<double>(rounded) < static_cast<double>(x)
                              : static_cast<double>(rounded) > static_cast<double>(x);
    uint32_t bits = bits_of(rounded);
    if (grew) --bits;  // towards zero, then odd: "round to odd"
    return float_of(bits | 1u);
  }
}

template <class C>
void store_any(const C* from, void* data, int32_t dtype, int64_t offset, int64_t step, int64_t n) {
  const auto whole = [&](auto tag) {
    using I = decltype(tag);
    I* p = static_cast<I*>(data) + offset;
    for (int64_t i = 0; i < n; ++i) p[i * step] = to_integer<I>(from[i]);
  };
  switch (dtype) {
    case CLIKA_BOOL: {
      uint8_t* p = static_cast<uint8_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) p[i * step] = from[i] != C{0};
      return;
    }
    case CLIKA_INT8: return whole(int8_t{});
    case CLIKA_INT16: return whole(int16_t{});
    case CLIKA_INT32: return whole(int32_t{});
    case CLIKA_INT64: return whole(int64_t{});
    case CLIKA_UINT8: return whole(uint8_t{});
    case CLIKA_UINT16: return whole(uint16_t{});
    case CLIKA_UINT32: return whole(uint32_t{});
    case CLIKA_UINT64: return whole(uint64_t{});
    case CLIKA_FLOAT16: {
      f16* p = static_cast<f16*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) from_float(sticky_float(from[i]), p + i * step);
      return;
    }
    case CLIKA_BFLOAT16: {
      bf16* p = static_cast<bf16*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) from_float(sticky_float(from[i]), p + i * step);
      return;
    }
    case CLIKA_FLOAT32: {
      float* p = static_cast<float*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) p[i * step] = static_cast<float>(from[i]);
      return;
    }
    case CLIKA_FLOAT64: {
      double* p = static_cast<double*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) p[i * step] = static_cast<double>(from[i]);
      return;
    }
    default: {
      const Narrow8 format = narrow8_of(dtype);
      uint8_t* p = static_cast<uint8_t*>(data) + offset;
      for (int64_t i = 0; i < n; ++i) p[i * step] = encode8(sticky_float(from[i]), format);
    }
  }
}

template <class C>
int32_t convert(const clika_call* call, const clika_value& in, clika_value& out) {
  const Walk<2> walk({&out, &in});
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C tile[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      load_any(tile, in.data, in.dtype, at[1], walk.step[1], n);
      store_any(tile, out.data, out.dtype, at[0], walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

// Same dtype: bytes move as they are.
template <class T>
void move_elements(const clika_call* call, const clika_value& in, clika_value& out) {
  const Walk<2> walk({&out, &in});
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    walk.run(begin, end, std::numeric_limits<int64_t>::max() / 2, [&](const int64_t* at, int64_t n) {
      const T* from = static_cast<const T*>(in.data) + at[1];
      T* to = static_cast<T*>(out.data) + at[0];
      if (walk.step[0] == 1 && walk.step[1] == 1) {
        std::memmove(to, from, static_cast<size_t>(n) * sizeof(T));
        return;
      }
      for (int64_t i = 0; i < n; ++i) to[i * walk.step[0]] = from[i * walk.step[1]];
    });
  });
}

int32_t transfer(const clika_call* call, const clika_value& in, clika_value& out) {
  if (elements(out) == 0) return CLIKA_OK;
  if (in.dtype == out.dtype) {
    switch (bytes_of(in.dtype)) {
      case 1: move_elements<uint8_t>(call, in, out); return CLIKA_OK;
      case 2: move_elements<uint16_t>(call, in, out); return CLIKA_OK;
      case 4: move_elements<uint32_t>(call, in, out); return CLIKA_OK;
      default: move_elements<uint64_t>(call, in, out); return CLIKA_OK;
    }
  }
  switch (in.dtype) {
    case CLIKA_FLOAT64: return convert<double>(call, in, out);
    case CLIKA_UINT64: return convert<uint64_t>(call, in, out);
    case CLIKA_BOOL:
    case CLIKA_INT8:
    case CLIKA_INT16:
    case CLIKA_INT32:
    case CLIKA_INT64:
    case CLIKA_UINT8:
    case CLIKA_UINT16:
    case CLIKA_UINT32: return convert<int64_t>(call, in, out);
    default: return convert<float>(call, in, out);
  }
}

int32_t run(const clika_call* call) { return transfer(call, call->inputs[0], call->outputs[0]); }
// input (written, also output 0), source.
int32_t run_into(const clika_call* call) { return transfer(call, call->inputs[1], call->outputs[0]); }

constexpr uint64_t kWhole = F64 | FLOATS | FLOATS8 | INTS | BOOL;

CLIKA_KERNELS(cast,
              Entry("cast", run).in(kWhole).out(kWhole),
              Entry("copy", run).in(kWhole).out(kWhole),
              Entry("copy_", run_into).in(kWhole).out(kWhole))
#include "level_end.hpp"
