// What looks into floating-point numbers: frexp and nextafter.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"

// x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1; 0, infinities and NaN have exponent 0.
int32_t run_frexp(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& mantissa = call->outputs[0];
  clika_value& exponent = call->outputs[1];
  const Walk<3> walk({&mantissa, &exponent, &in});
  const LoadTile<double> loader = Doubles::loader(in.dtype);
  const StoreTile<double> storer = Doubles::storer(in.dtype);
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) double x[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      loader(x, in.data, at[2], walk.step[2], n);
      for (int64_t i = 0; i < n; ++i) {
        int power = 0;
        if (std::isfinite(x[i])) x[i] = std::frexp(x[i], &power);
        data_of<int32_t>(exponent)[at[1] + i * walk.step[1]] = power;
      }
      storer(x, mantissa.data, at[0], walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

// The neighbour of a in the direction of b. Bits count up with the magnitude, in every dtype.
template <class U>
U next_bits(U a, bool a_negative, bool up, bool zero) {
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  if (zero) return up ? U{1} : static_cast<U>(kSign | 1);
  return static_cast<U>(a_negative == up ? a - 1 : a + 1);
}
template <class T, class U>
void next(const void* from, int64_t a_step, const void* towards, int64_t b_step, void* to, int64_t step,
          int64_t n) {
  const T* a = static_cast<const T*>(from);
  const T* b = static_cast<const T*>(towards);
  for (int64_t i = 0; i < n; ++i) {
    const double x = widen<double>(a[i * a_step]);
    const double y = widen<double>(b[i * b_step]);
    T result = x == y ? b[i * b_step] : x != x ? a[i * a_step] : b[i * b_step];
    if (x < y || x > y) {
      U bits;
      std::memcpy(&bits, &a[i * a_step], sizeof(U));
      bits = next_bits<U>(bits, x < 0, y > x, x == 0);
      std::memcpy(&result, &bits, sizeof(U));
    }
    static_cast<T*>(to)[i * step] = result;
  }
}
int32_t run_nextafter(const clika_call* call) {
  const clika_value& a = call->inputs[0];
  const clika_value& b = call->inputs[1];
  clika_value& out = call->outputs[0];
  const Walk<3> walk({&out, &a, &b});
  const auto fn = out.dtype == CLIKA_FLOAT32    ? next<float, uint32_t>
                  : out.dtype == CLIKA_FLOAT64  ? next<double, uint64_t>
                  : out.dtype == CLIKA_BFLOAT16 ? next<bf16, uint16_t>
                                                : next<f16, uint16_t>;
  const int64_t size = bytes_of(out.dtype);
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    walk.run(begin, end, 4096, [&](const int64_t* at, int64_t n) {
      fn(data_of<char>(a) + at[1] * size, walk.step[1], data_of<char>(b) + at[2] * size, walk.step[2],
         data_of<char>(out) + at[0] * size, walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

constexpr uint64_t kFloats = FLOATS | F64;

CLIKA_KERNELS(float_parts,
              Entry("frexp", run_frexp).in(kFloats).out(kFloats | I32),
              Entry("nextafter", run_nextafter).in(kFloats).out(kFloats).inplace())
#include "level_end.hpp"
