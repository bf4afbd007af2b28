// Operations on the bits of integers, and the logical operations on bool.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"

struct And {
  template <class T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
struct Invert {
  template <class T>
  static T apply(T a) {
    return ~a;
  }
};
struct InvertTruth {
  template <class T>
  static T apply(T a) {
    return a == 0;
  }
};
// Over truth values as bytes, of which any but 0 is true.
struct BothTrue {
  static uint8_t apply(uint8_t a, uint8_t b, const Numbers&) { return (a != 0) & (b != 0); }
};
struct EitherTrue {
  static uint8_t apply(uint8_t a, uint8_t b, const Numbers&) { return (a | b) != 0; }
};
struct OneTrue {
  static uint8_t apply(uint8_t a, uint8_t b, const Numbers&) { return (a != 0) != (b != 0); }
};
struct Bytes {
  static LoadTile<uint8_t> loader(int32_t) { return load_wide<uint8_t, uint8_t>; }
  static StoreTile<uint8_t> storer(int32_t) { return store_wide<uint8_t, uint8_t>; }
  static bool direct(int32_t) { return true; }
};
template <class Op>
int32_t run_truth(const clika_call* call) {
  return drive_each<uint8_t, Bytes>(call, {&call->inputs[0], &call->inputs[1]}, each_tile<Op, uint8_t, 2>,
                                    Numbers());
}

template <class Op>
int32_t run_binary(const clika_call* call) {
  Functions<BinaryTile> f;
  f.on_int = binary_tile<Op, int64_t>;
  f.on_uint = binary_tile<Op, uint64_t>;
  return binary(call, f, Params());
}
int32_t run_not(const clika_call* call) {
  Functions<UnaryTile> f;
  const bool truth = call->inputs[0].dtype == CLIKA_BOOL;
  f.on_int = truth ? unary_tile<InvertTruth, int64_t> : unary_tile<Invert, int64_t>;
  f.on_uint = unary_tile<Invert, uint64_t>;
  return unary(call, f);
}

// Shifts by a negative number or by all bits and more shift everything out.
struct ShiftLeft {
  template <class T>
  static T apply(T a, T b, const Numbers& k) {
    return static_cast<uint64_t>(b) >= static_cast<uint64_t>(k.i[0])
               ? T{0}
               : static_cast<T>(static_cast<uint64_t>(a) << static_cast<uint64_t>(b));
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, T b, const Numbers& k) {
    const bool out = static_cast<uint64_t>(b) >= static_cast<uint64_t>(k.i[0]);
    if (out) return a < T{0} ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> b);
  }
};
template <class Op>
int32_t run_shift(const clika_call* call) {
  Numbers numbers;
  numbers.i[0] = 8 * bytes_of(call->inputs[0].dtype);
  if (call->inputs[0].dtype == CLIKA_UINT64) {
    return drive_each<uint64_t, Own<uint64_t>>(call, {&call->inputs[0], &call->inputs[1]},
                                               each_tile<Op, uint64_t, 2>, numbers);
  }
  return drive_each<int64_t, Own<int64_t>>(call, {&call->inputs[0], &call->inputs[1]},
                                           each_tile<Op, int64_t, 2>, numbers);
}

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(bitwise,
              over("bitwise_not", run_not, INTS | BOOL),
              over("bitwise_and", run_binary<And>, INTS | BOOL),
              over("bitwise_or", run_binary<Or>, INTS | BOOL),
              over("bitwise_xor", run_binary<Xor>, INTS | BOOL),
              over("bitwise_left_shift", run_shift<ShiftLeft>, INTS),
              over("bitwise_right_shift", run_shift<ShiftRight>, INTS),
              over("logical_and", run_truth<BothTrue>, BOOL),
              over("logical_or", run_truth<EitherTrue>, BOOL),
              over("logical_xor", run_truth<OneTrue>, BOOL))
#include "level_end.hpp"
