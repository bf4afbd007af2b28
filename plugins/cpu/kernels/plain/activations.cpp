// Activations over float64, and those that take integers.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"
#include "math.hpp"
#include "activations.hpp"

struct IntHardtanh {
  template <class T>
  static T apply(T x, const Numbers& k) {
    const T low = static_cast<T>(k.i[0]);
    const T high = static_cast<T>(k.i[1]);
    return x < low ? low : x > high ? high : x;
  }
};
struct IntRelu6 {
  template <class T>
  static T apply(T x, const Numbers&) {
    return x < T{0} ? T{0} : x > T{6} ? T{6} : x;
  }
};
struct IntThreshold {
  template <class T>
  static T apply(T x, const Numbers& k) {
    return x <= static_cast<T>(k.i[0]) ? static_cast<T>(k.i[1]) : x;
  }
};
int32_t run_int_hardtanh(const clika_call* call) {
  const int32_t status = check_hardtanh(call);
  return status == CLIKA_OK ? run_integers<IntHardtanh, 1>(call) : status;
}

constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(F64).out(F64).inplace();
}
constexpr Entry over_ints(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(INTS).out(INTS).inplace();
}

CLIKA_KERNELS(activations,
              CLIKA_ACTIVATION_ENTRIES(over, double),
              over_ints("hardtanh", run_int_hardtanh),
              over_ints("relu6", run_integers<IntRelu6, 1>),
              over_ints("threshold", run_integers<IntThreshold, 1>))
#include "level_end.hpp"
