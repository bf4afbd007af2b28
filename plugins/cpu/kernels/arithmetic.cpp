// Arithmetic of two operands with broadcasting. float32, bfloat16 and float16 are computed in float32;
// integers wrap around.
#include "level.hpp"
#include "elementwise.hpp"
#include "arithmetic.hpp"

template <class Op>
constexpr Functions<BinaryTile> everywhere() {
  Functions<BinaryTile> f;
  f.on_float = binary_tile<Op, float>;
  f.on_double = binary_tile<Op, double>;
  f.on_int = binary_tile<Op, int64_t>;
  f.on_uint = binary_tile<Op, uint64_t>;
  return f;
}
template <int kSign>
constexpr Functions<BinaryTile> scaled() {
  Functions<BinaryTile> f;
  f.on_float = scaled_tile<kSign, float>;
  f.on_double = scaled_tile<kSign, double>;
  f.on_int = scaled_tile<kSign, int64_t>;
  f.on_uint = scaled_tile<kSign, uint64_t>;
  return f;
}

template <class Op>
int32_t run_plain(const clika_call* call) {
  if (plain_floats(call)) {
    binary_tile<Op, float>(data_of<float>(call->inputs[0]), data_of<float>(call->inputs[1]),
                           data_of<float>(call->outputs[0]), elements(call->outputs[0]), Params());
    return CLIKA_OK;
  }
  static constexpr Functions<BinaryTile> functions = everywhere<Op>();
  return binary(call, functions, Params());
}

template <class Op, int kSign>
int32_t run_sum(const clika_call* call) {
  static constexpr Functions<BinaryTile> functions = scaled<kSign>();
  Params params;
  params.f = scalar_float(call, 0, 1.0);
  if (params.f == 1.0) return run_plain<Op>(call);
  params.i = scalar_int(call, 0, 1);
  return binary(call, functions, params);
}

// Remainders and whole quotients of floats, by double: a quotient below 2^28 of two numbers of 24 bits is
// truncated rightly, and the remainder is exact. Beyond, and for what is not finite, the scalar forms.
enum Modulo { kRemainderTrunc, kRemainderFloor, kQuotientFloor };
template <class Op, Modulo kWhat>
void modulo_tile(const float* a, const float* b, float* out, int64_t n, const Params& params) {
  float result[kTile];
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = std::min(kTile, n - begin);
    int32_t beyond = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double x = a[begin + i];
      const double y = b[begin + i];
      const double exact = x / y;
      const bool near = std::fabs(exact) < 268435456.0;
      const double quotient = near ? exact : 0.0;
      beyond |= !near;
      double whole = static_cast<double>(static_cast<int32_t>(quotient));
      double rest = x - whole * y;
      if (kWhat != kRemainderTrunc) {
        const bool turned = rest != 0.0 && (rest < 0.0) != (y < 0.0);
        whole = turned ? whole - 1.0 : whole;
        rest = turned ? rest + y : rest;
      }
      // A zero has the sign of the dividend, or that of the quotient.
      const float zero = kWhat == kQuotientFloor ? static_cast<float>(quotient) : a[begin + i];
      const float value = static_cast<float>(kWhat == kQuotientFloor ? whole : rest);
      result[i] = value == 0.0f ? std::copysign(0.0f, zero) : value;
    }
    if (beyond != 0) {
      binary_tile<Op, float>(a + begin, b + begin, out + begin, count, params);
    } else {
      std::memcpy(out + begin, result, static_cast<size_t>(count) * sizeof(float));
    }
  }
}
template <class Op, Modulo kWhat>
int32_t run_modulo(const clika_call* call) {
  static constexpr Functions<BinaryTile> functions = [] {
    Functions<BinaryTile> f = everywhere<Op>();
    f.on_float = modulo_tile<Op, kWhat>;
    return f;
  }();
  return binary(call, functions, Params());
}

// A number as the exponent: the powers that are a few operations.
template <class C, int kPower>
void power_tile(const C* x, C* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const C a = x[i];
    out[i] = kPower == 2 ? a * a : kPower == 3 ? a * a * a : kPower == 1 ? a : C{1} / a;
  }
}
template <class C>
int32_t run_power_of(const clika_call* call) {
  const clika_value& exponent = call->inputs[1];
  if (elements(exponent) == 1) {
    C power;
    Tiles<C>::loader(exponent.dtype)(&power, exponent.data, 0, 1, 1);
    UnaryTile<C> fn = power == C(2)    ? power_tile<C, 2>
                      : power == C(3)  ? power_tile<C, 3>
                      : power == C(1)  ? power_tile<C, 1>
                      : power == C(-1) ? power_tile<C, -1>
                                       : nullptr;
    const clika_value& base = call->inputs[0];
    if (fn != nullptr && base.rank == call->outputs[0].rank) return drive_unary<C>(call, fn);
  }
  return drive_binary<C>(call, binary_tile<Power, C>, Params());
}
int32_t run_power(const clika_call* call) {
  switch (compute_of(call->outputs[0].dtype)) {
    case kFloat:
      return run_power_of<float>(call);
    case kDouble:
      return run_power_of<double>(call);
    default:
      return run_plain<Power>(call);
  }
}

// An integer divisor of zero is found before anything is written.
bool divides_by_zero(const clika_call* call) {
  const clika_value& divisor = call->inputs[1];
  const Compute compute = compute_of(divisor.dtype);
  if (compute != kInt && compute != kUint) return false;
  if (elements(call->outputs[0]) == 0) return false;
  const Walk<1> walk({&divisor});
  bool found = false;
  int64_t tile[kTile];
  const LoadTile<int64_t> loader = Tiles<int64_t>::loader(divisor.dtype);
  walk.run(0, walk.outer * walk.length, kTile, [&](const int64_t* at, int64_t n) {
    loader(tile, divisor.data, at[0], walk.step[0], n);
    for (int64_t i = 0; i < n; ++i) found |= tile[i] == 0;
  });
  return found;
}

int32_t zero_divisor(const clika_call* call, const char* op) {
  return refuse(call,
                "%s: integer division by zero: the divisor holds a 0; convert the operands to a "
                "floating-point dtype or replace the zeros",
                op);
}

int32_t run_div(const clika_call* call) {
  if (divides_by_zero(call)) return zero_divisor(call, "div");
  switch (attr_int(call, 0, 0)) {
    case 1:
      return run_plain<DivideTrunc>(call);
    case 2:
      return run_modulo<DivideFloor, kQuotientFloor>(call);
    default:
      return run_plain<Divide>(call);
  }
}

int32_t run_remainder(const clika_call* call) {
  if (divides_by_zero(call)) return zero_divisor(call, "remainder");
  return run_modulo<Remainder, kRemainderFloor>(call);
}

int32_t run_floor_divide(const clika_call* call) {
  if (divides_by_zero(call)) return zero_divisor(call, "floor_divide");
  return run_modulo<DivideFloor, kQuotientFloor>(call);
}

int32_t run_fmod(const clika_call* call) {
  if (divides_by_zero(call)) return zero_divisor(call, "fmod");
  return run_modulo<Fmod, kRemainderTrunc>(call);
}

int32_t run_copysign(const clika_call* call) {
  if (call->inputs[0].dtype == CLIKA_FLOAT64) {
    return drive_binary<double>(call, binary_tile<Copysign, double>, Params());
  }
  return drive_binary<float>(call, binary_tile<Copysign, float>, Params());
}

// Of absolute values; those of the smallest integer wrap around.
uint64_t divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}
template <class T>
uint64_t magnitude(T x) {
  return x < T{0} ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}
struct Gcd {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(divisor(magnitude(a), magnitude(b)));
  }
};
struct Lcm {
  template <class T>
  static T apply(T a, T b) {
    const uint64_t x = magnitude(a);
    const uint64_t y = magnitude(b);
    return x == 0 || y == 0 ? T{0} : static_cast<T>(x / divisor(x, y) * y);
  }
};
template <class Op>
int32_t run_integers(const clika_call* call) {
  Functions<BinaryTile> f;
  f.on_int = binary_tile<Op, int64_t>;
  f.on_uint = binary_tile<Op, uint64_t>;
  return binary(call, f, Params());
}

constexpr uint64_t kNumbers = FLOATS | F64 | INTS;
constexpr uint64_t kAll = kNumbers | BOOL;

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(arithmetic,
              over("add", run_sum<Add, 1>, kAll),
              over("sub", run_sum<Sub, -1>, kNumbers),
              over("mul", run_plain<Mul>, kAll),
              over("div", run_div, kNumbers),
              over("pow", run_power, kNumbers),
              over("maximum", run_plain<Maximum>, kAll),
              over("minimum", run_plain<Minimum>, kAll),
              over("remainder", run_remainder, kNumbers),
              over("floor_divide", run_floor_divide, kNumbers),
              over("fmod", run_fmod, kNumbers),
              over("fmax", run_plain<Fmax>, kAll),
              over("fmin", run_plain<Fmin>, kAll),
              over("heaviside", run_plain<Heaviside>, kAll),
              over("copysign", run_copysign, FLOATS | F64),
              over("gcd", run_integers<Gcd>, INTS),
              over("lcm", run_integers<Lcm>, INTS))
#include "level_end.hpp"
