// cast between all dtypes of whole bytes. A value goes through the widest type of its kind: float64 for
// floating-point numbers, int64 (uint64 from uint64) for integers and bool; it is rounded once on the way
// out.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"

// ------------------------------------------------------------------ 8-bit floats
struct Format8 {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool fnuz;      // no negative zero: 0x80 is the only NaN
  bool infinity;  // the highest exponent holds infinity and NaN (E5M2)
};

Format8 format_of(int32_t dtype) {
  switch (dtype) {
    case CLIKA_FLOAT8_E4M3:
      return {4, 3, 7, false, false};
    case CLIKA_FLOAT8_E5M2:
      return {5, 2, 15, false, true};
    case CLIKA_FLOAT8_E4M3FNUZ:
      return {4, 3, 8, true, false};
    default:
      return {5, 2, 16, true, false};
  }
}

double decode8(uint8_t bits, const Format8& f) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int rest = bits & 0x7f;
  if (f.fnuz && bits == 0x80) return nan;
  if (!f.fnuz && !f.infinity && rest == 0x7f) return nan;
  const int exponent = rest >> f.mantissa_bits;
  const int mantissa = rest & ((1 << f.mantissa_bits) - 1);
  double x;
  if (f.infinity && exponent == (1 << f.exponent_bits) - 1) {
    x = mantissa == 0 ? std::numeric_limits<double>::infinity() : nan;
  } else if (exponent == 0) {
    x = std::ldexp(static_cast<double>(mantissa), 1 - f.bias - f.mantissa_bits);
  } else {
    x = std::ldexp(static_cast<double>(mantissa + (1 << f.mantissa_bits)),
                   exponent - f.bias - f.mantissa_bits);
  }
  return bits & 0x80 ? -x : x;
}

// To the nearest, ties to even. Past the largest finite value: infinity where the format has it, else NaN.
uint8_t encode8(double value, const Format8& f) {
  const bool negative = std::signbit(value);
  const uint8_t sign = negative ? 0x80 : 0;
  const int top = (1 << f.exponent_bits) - 1;
  uint8_t nan;
  if (f.fnuz) {
    nan = 0x80;
  } else if (f.infinity) {
    nan = static_cast<uint8_t>(sign | 0x7f);
  } else {
    nan = static_cast<uint8_t>(sign | 0x7f);
  }
  if (value != value) return nan;
  const uint8_t overflow = f.infinity ? static_cast<uint8_t>(sign | (top << f.mantissa_bits)) : nan;
  const double x = std::fabs(value);
  if (x > 1e30) return overflow;
  int exponent = 0;
  std::frexp(x, &exponent);  // x = m * 2^exponent with m in [0.5, 1)
  const int lowest = 1 - f.bias;
  const int scale = std::max(exponent - 1, lowest) - f.mantissa_bits;  // of a unit in the last place
  const double units = std::nearbyint(std::ldexp(x, -scale));
  if (units == 0) return f.fnuz ? 0 : sign;
  int64_t whole = static_cast<int64_t>(units);
  int field = std::max(exponent - 1, lowest) + f.bias;
  if (whole < (1 << f.mantissa_bits)) {
    field = 0;
  } else if (whole >= (2 << f.mantissa_bits)) {
    whole >>= 1;
    ++field;
  }
  const int64_t mantissa = whole & ((1 << f.mantissa_bits) - 1);
  const int64_t code = (static_cast<int64_t>(field) << f.mantissa_bits) | mantissa;
  const int64_t largest = f.fnuz ? 0x7f : f.infinity ? (top << f.mantissa_bits) - 1 : 0x7e;
  return code > largest ? overflow : static_cast<uint8_t>(sign | code);
}

// ------------------------------------------------------------------ tiles
void load_double(double* to, const clika_value& v, int64_t offset, int64_t step, int64_t n) {
  switch (v.dtype) {
    case CLIKA_FLOAT64:
      load_wide<double, double>(to, v.data, offset, step, n);
      return;
    case CLIKA_FLOAT32:
    case CLIKA_BFLOAT16:
    case CLIKA_FLOAT16: {
      float x[kTile];
      Tiles<float>::loader(v.dtype)(x, v.data, offset, step, n);
      for (int64_t i = 0; i < n; ++i) to[i] = x[i];
      return;
    }
    case CLIKA_FLOAT8_E8M0: {
      const uint8_t* p = data_of<uint8_t>(v) + offset;
      for (int64_t i = 0; i < n; ++i) {
        const uint8_t code = p[i * step];
        to[i] = code == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
      }
      return;
    }
    default: {
      const Format8 f = format_of(v.dtype);
      const uint8_t* p = data_of<uint8_t>(v) + offset;
      for (int64_t i = 0; i < n; ++i) to[i] = decode8(p[i * step], f);
      return;
    }
  }
}

uint8_t encode_e8m0(double x) {
  if (x != x) return 0xff;
  x = std::fabs(x);
  int exponent = 0;
  const double m = std::frexp(x, &exponent);
  const double nearest = exponent - 1 + (m * 2 > 1.5 || (m * 2 == 1.5 && (exponent & 1) == 0) ? 1 : 0);
  return static_cast<uint8_t>(x == 0 ? 0 : std::min(254.0, std::max(0.0, nearest + 127)));
}

void store_double(const double* from, clika_value& v, int64_t offset, int64_t step, int64_t n) {
  switch (v.dtype) {
    case CLIKA_FLOAT64:
      store_wide<double, double>(from, v.data, offset, step, n);
      return;
    case CLIKA_FLOAT32:
    case CLIKA_BFLOAT16:
    case CLIKA_FLOAT16: {
      float x[kTile];
      for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(from[i]);
      Tiles<float>::storer(v.dtype)(x, v.data, offset, step, n);
      return;
    }
    case CLIKA_BOOL: {
      store_wide<double, boolean>(from, v.data, offset, step, n);
      return;
    }
    case CLIKA_UINT64: {
      uint64_t* p = data_of<uint64_t>(v) + offset;
      for (int64_t i = 0; i < n; ++i) {
        const double x = from[i];
        p[i * step] =
            x >= 9.2233720368547758e18 && x < 1.8446744073709552e19
                ? static_cast<uint64_t>(x - 9.2233720368547758e18) + (uint64_t{1} << 63)
                : (std::fabs(x) < 9.2233720368547758e18 ? static_cast<uint64_t>(static_cast<int64_t>(x)) : 0);
      }
      return;
    }
    case CLIKA_FLOAT8_E8M0: {
      uint8_t* p = data_of<uint8_t>(v) + offset;
      for (int64_t i = 0; i < n; ++i) p[i * step] = encode_e8m0(from[i]);
      return;
    }
    case CLIKA_FLOAT8_E4M3:
    case CLIKA_FLOAT8_E5M2:
    case CLIKA_FLOAT8_E4M3FNUZ:
    case CLIKA_FLOAT8_E5M2FNUZ: {
      const Format8 f = format_of(v.dtype);
      uint8_t* p = data_of<uint8_t>(v) + offset;
      for (int64_t i = 0; i < n; ++i) p[i * step] = encode8(from[i], f);
      return;
    }
    default: {  // integers, towards zero; what does not fit gives the low bits of int64's extreme or 0
      int64_t x[kTile];
      for (int64_t i = 0; i < n; ++i) {
        const double y = from[i];
        x[i] = std::fabs(y) < 9.2233720368547758e18 ? static_cast<int64_t>(y)
                                                    : std::numeric_limits<int64_t>::min();
      }
      Tiles<int64_t>::storer(v.dtype)(x, v.data, offset, step, n);
      return;
    }
  }
}

template <class C>
void store_integer(const C* from, clika_value& v, int64_t offset, int64_t step, int64_t n) {
  const Compute compute = compute_of(v.dtype);
  if (compute == kInt || compute == kUint) {
    int64_t x[kTile];
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<int64_t>(from[i]);
    Tiles<int64_t>::storer(v.dtype)(x, v.data, offset, step, n);
    return;
  }
  if (compute == kFloat) {  // straight to float32: by way of float64 it would be rounded twice
    float x[kTile];
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(from[i]);
    Tiles<float>::storer(v.dtype)(x, v.data, offset, step, n);
    return;
  }
  double x[kTile];
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<double>(from[i]);
  store_double(x, v, offset, step, n);
}

int32_t run(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (in.dtype == out.dtype) {
    copy_tensor(call, out, in);
    return CLIKA_OK;
  }
  const Walk<2> walk({&out, &in});
  const Compute compute = compute_of(in.dtype);
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) double wide[kTile];
    alignas(64) int64_t whole[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      if (compute == kInt) {
        Tiles<int64_t>::loader(in.dtype)(whole, in.data, at[1], walk.step[1], n);
        store_integer(whole, out, at[0], walk.step[0], n);
      } else if (compute == kUint) {
        uint64_t* natural = reinterpret_cast<uint64_t*>(whole);
        load_wide<uint64_t, uint64_t>(natural, in.data, at[1], walk.step[1], n);
        store_integer(natural, out, at[0], walk.step[0], n);
      } else {
        load_double(wide, in, at[1], walk.step[1], n);
        store_double(wide, out, at[0], walk.step[0], n);
      }
    });
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(cast, Entry("cast", run).in(kWholeBytes).out(kWholeBytes))
#include "level_end.hpp"
