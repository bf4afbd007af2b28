// Operations on the bits of integers, and the logical operations on bool.
#include "level.hpp"
#include "elementwise.hpp"

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

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes) {
  return Entry(name, run).in(dtypes).out(dtypes).inplace();
}

CLIKA_KERNELS(bitwise,
              over("bitwise_not", run_not, INTS | BOOL),
              over("bitwise_and", run_binary<And>, INTS | BOOL),
              over("bitwise_or", run_binary<Or>, INTS | BOOL),
              over("bitwise_xor", run_binary<Xor>, INTS | BOOL),
              over("logical_and", run_binary<And>, BOOL),
              over("logical_or", run_binary<Or>, BOOL),
              over("logical_xor", run_binary<Xor>, BOOL))
#include "level_end.hpp"
