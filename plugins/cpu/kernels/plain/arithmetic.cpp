// Arithmetic of two operands over float64, integers and bool. Integers wrap around.
#include "level.hpp"
#include "elementwise.hpp"
#include "arithmetic.hpp"

template <class Op>
constexpr Functions<BinaryTile> everywhere() {
  Functions<BinaryTile> f;
  f.on_double = binary_tile<Op, double>;
  f.on_int = binary_tile<Op, int64_t>;
  f.on_uint = binary_tile<Op, uint64_t>;
  return f;
}
template <int kSign>
constexpr Functions<BinaryTile> scaled() {
  Functions<BinaryTile> f;
  f.on_double = scaled_tile<kSign, double>;
  f.on_int = scaled_tile<kSign, int64_t>;
  f.on_uint = scaled_tile<kSign, uint64_t>;
  return f;
}

template <class Op>
int32_t run_plain(const clika_call* call) {
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

int32_t zero_divisor(const clika_call* call) {
  return fail(
      call, CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
      "integer division by zero: the divisor holds a 0; convert the operands to a floating-point dtype "
      "or replace the zeros");
}

int32_t run_div(const clika_call* call) {
  if (divides_by_zero(call)) return zero_divisor(call);
  switch (attr_int(call, 0, 0)) {
    case 1:
      return run_plain<DivideTrunc>(call);
    case 2:
      return run_plain<DivideFloor>(call);
    default:
      return run_plain<Divide>(call);
  }
}

int32_t run_remainder(const clika_call* call) {
  return divides_by_zero(call) ? zero_divisor(call) : run_plain<Remainder>(call);
}

int32_t run_floor_divide(const clika_call* call) {
  return divides_by_zero(call) ? zero_divisor(call) : run_plain<DivideFloor>(call);
}

int32_t run_fmod(const clika_call* call) {
  return divides_by_zero(call) ? zero_divisor(call) : run_plain<Fmod>(call);
}

int32_t run_copysign(const clika_call* call) {
  return drive_binary<double>(call, binary_tile<Copysign, double>, Params());
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

constexpr uint64_t kAll = F64 | INTS | BOOL;
constexpr uint64_t kNumbers = F64 | INTS;

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(arithmetic,
              over("add", run_sum<Add, 1>, kAll),
              over("sub", run_sum<Sub, -1>, kNumbers),
              over("mul", run_plain<Mul>, kAll),
              over("div", run_div, kNumbers),
              over("pow", run_plain<Power>, kNumbers),
              over("maximum", run_plain<Maximum>, kAll),
              over("minimum", run_plain<Minimum>, kAll),
              over("remainder", run_remainder, kNumbers),
              over("floor_divide", run_floor_divide, kNumbers),
              over("fmod", run_fmod, kNumbers),
              over("fmax", run_plain<Fmax>, kAll),
              over("fmin", run_plain<Fmin>, kAll),
              over("heaviside", run_plain<Heaviside>, kAll),
              over("copysign", run_copysign, F64),
              over("gcd", run_integers<Gcd>, INTS),
              over("lcm", run_integers<Lcm>, INTS))
#include "level_end.hpp"
