// Functions of one and two operands: the table of kernels out of the tables that the device's code is made of.
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "arithmetic.cuh"
#include "elementwise.cuh"
#include "launch.hpp"
#include "special.cuh"

namespace clika_cuda {

namespace {

using clika_device::Elementwise;

constexpr uint64_t ALL = kEvery, NUMBERS = kFloats4 | kInts, FLOATS = kFloats4, INTEGERS = kInts, BITS = kInts | kBools,
                   BOOLS = kBools;
enum ResultKind { SAME, TRUTH };
enum Arity { kOne, kTwo, kThree, kGate, kWide, kWideOfTwo };

struct Declared {
  const char* name;
  uint64_t dtypes;
  ResultKind result;
  Arity arity;
};
constexpr Declared kOperators[] = {
#define CLIKA_X(name, dtypes, result, ...) {#name, dtypes, result, kOne},
    CLIKA_UNARY(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, dtypes, result, ...) {#name, dtypes, result, kTwo},
    CLIKA_ARITHMETIC(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, dtypes, result, ...) {#name, dtypes, result, kGate},
    CLIKA_GATED(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, ...) {#name, FLOATS, SAME, kWide},
    CLIKA_SPECIAL(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, ...) {#name, FLOATS, SAME, kWideOfTwo},
    CLIKA_SPECIAL_OF_TWO(CLIKA_X)
#undef CLIKA_X
    {"lerp", FLOATS, SAME, kThree},
    {"addcmul", NUMBERS, SAME, kThree},
    {"addcdiv", FLOATS, SAME, kThree},
    {"prelu", FLOATS, SAME, kTwo},
    {"isclose", ALL, TRUTH, kTwo},
    {"clamp", ALL, SAME, kTwo},
};
constexpr size_t kCount = sizeof(kOperators) / sizeof(kOperators[0]);

// The programs of an operator, per compute type that its dtypes need.
struct Programs {
  Program* strided[4] = {};
  Program* flat[3] = {};  // float32, bfloat16, float16
};
Programs all_programs[kCount];

bool is(const Declared& op, const char* name) { return std::strcmp(op.name, name) == 0; }

// What attributes and scalars mean to the function on the device (Numbers of functions.cuh).
int32_t set_numbers(const clika_call* call, const Declared& op, Elementwise* e) {
  for (uint32_t k = 0; k < call->n_scalars && k < 5; ++k) {
    e->f[k] = scalar_float(call, k, 0.0);
    e->i[k] = scalar_int(call, k, 0);
  }
  const int32_t dtype = call->inputs[0].dtype;
  if (is(op, "add") || is(op, "sub")) {
    e->f[0] = scalar_float(call, 0, 1.0);
    e->i[0] = scalar_int(call, 0, 1);
    e->i[5] = e->f[0] == 1.0;
  } else if (is(op, "addcmul") || is(op, "addcdiv")) {
    e->f[0] = scalar_float(call, 0, 1.0);
    e->i[0] = scalar_int(call, 0, 1);
  } else if (is(op, "logit")) {
    e->f[0] = scalar_float(call, 0, -1.0);
  } else if (is(op, "polygamma") || is(op, "mvlgamma")) {
    e->i[0] = attr_int(call, 0, 0);
  } else if (is(op, "div") || is(op, "gelu") || is(op, "geglu")) {
    e->i[0] = attr_int(call, 0, 0);
  } else if (is(op, "round")) {
    e->i[0] = attr_int(call, 0, 0);
    e->f[0] = std::pow(10.0, std::fabs(static_cast<double>(e->i[0])));
  } else if (is(op, "isclose")) {
    e->i[2] = attr_int(call, 0, 0);
    if (!(e->f[0] >= 0.0 && e->f[1] >= 0.0)) return refuse(call, "isclose: rtol and atol must be >= 0");
  } else if (is(op, "bitwise_left_shift") || is(op, "bitwise_right_shift")) {
    e->i[0] = 8 * size_of(dtype);
  } else if (is(op, "bitwise_not")) {
    e->i[0] = dtype == CLIKA_BOOL;
  } else if (is(op, "nan_to_num")) {
    const double largest = dtype == CLIKA_FLOAT16    ? 65504.0
                           : dtype == CLIKA_BFLOAT16 ? 3.38953138925153547590e38
                           : dtype == CLIKA_FLOAT32  ? std::numeric_limits<float>::max()
                                                     : std::numeric_limits<double>::max();
    e->f[0] = scalar_float(call, 0, 0.0);
    e->f[1] = scalar_float(call, 1, largest);
    e->f[2] = scalar_float(call, 2, -largest);
  } else if (is(op, "hardtanh") && !(e->f[0] <= e->f[1])) {
    return refuse(call, "hardtanh: min_val must not be above max_val");
  } else if (is(op, "celu") && e->f[0] == 0.0) {
    return refuse(call, "celu: alpha must not be 0");
  } else if (is(op, "softshrink") && !(e->f[0] >= 0.0)) {
    return refuse(call, "softshrink: lambd must be >= 0");
  } else if (is(op, "clamp")) {
    e->i[0] = present(call, 1);
    e->i[1] = present(call, 2);
  }
  return CLIKA_OK;
}

// Operands in one piece and of one dtype, or numbers: the quick kernel serves them.
int flat_kernel(const Elementwise& e, int operands) {
  const int index = e.out_dtype == CLIKA_FLOAT32    ? 0
                    : e.out_dtype == CLIKA_BFLOAT16 ? 1
                    : e.out_dtype == CLIKA_FLOAT16  ? 2
                                                    : -1;
  if (index < 0 || e.rank > 1 || (e.rank == 1 && e.out_strides[0] != 1)) return -1;
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  if (!aligned(e.out)) return -1;
  for (int k = 0; k < operands; ++k) {
    if (e.in[k].is_number != 0 || e.in[k].data == nullptr) continue;
    if (e.in[k].dtype != e.out_dtype || !aligned(e.in[k].data)) return -1;
    if (e.rank == 1 && e.in[k].strides[0] != 1) return -1;
  }
  return index;
}

// The two halves of a tensor along a dim.
struct Half {
  clika_value value;
  int64_t shape[CLIKA_MAX_RANK];
  Half(const clika_value& whole, int32_t dim, bool second) : value(whole) {
    std::copy_n(whole.shape, whole.rank, shape);
    shape[dim] /= 2;
    value.shape = shape;
    if (second) value.data = static_cast<char*>(whole.data) + shape[dim] * whole.strides[dim] * size_of(whole.dtype);
  }
};
// A weight [channels], or of one element, as it lies along dim 1 of the input.
struct Channels {
  clika_value value;
  int64_t shape[CLIKA_MAX_RANK], strides[CLIKA_MAX_RANK];
  Channels(const clika_value& input, const clika_value& weight) : value(weight) {
    for (int32_t d = 0; d < input.rank; ++d) {
      const bool channel = d == 1 && weight.rank == 1;
      shape[d] = channel ? weight.shape[0] : 1;
      strides[d] = channel ? weight.strides[0] : 0;
    }
    value.rank = input.rank;
    value.shape = shape;
    value.strides = strides;
  }
};

// The kernel counts in 32 bits: more elements are halves of the largest dim.
int32_t launch_strided(const clika_call* call, const char* op, Program* program, const Elementwise& e) {
  if (e.n < INT64_C(1) << 31) return launch(call, op, program, {blocks_for(call, e.n, 256)}, 256, &e);
  const auto largest = std::max_element(e.shape, e.shape + e.rank) - e.shape;
  const int64_t first = e.shape[largest] / 2;
  Elementwise half = e;
  half.shape[largest] = first;
  half.n = e.n / e.shape[largest] * first;
  if (const int32_t status = launch_strided(call, op, program, half)) return status;
  half.shape[largest] = e.shape[largest] - first;
  half.n = e.n - half.n;
  half.out = static_cast<char*>(e.out) + first * e.out_strides[largest] * size_of(e.out_dtype);
  for (clika_device::Operand& in : half.in) {
    if (in.is_number != 0 || in.data == nullptr) continue;
    in.data = static_cast<const char*>(in.data) + first * in.strides[largest] * size_of(in.dtype);
  }
  return launch_strided(call, op, program, half);
}

int32_t launch_over(const clika_call* call, size_t index, const clika_value* const* operands, int count) {
  const Declared& op = kOperators[index];
  Elementwise e = elementwise_of(operands, count, call->outputs[0]);
  if (const int32_t status = set_numbers(call, op, &e)) return status;
  if (e.n == 0) return CLIKA_OK;
  e.reporter = reporter_of(call, op.name);
  const Programs& programs = all_programs[index];
  if (op.arity == kWide || op.arity == kWideOfTwo) return launch_strided(call, op.name, programs.strided[kDouble], e);
  const int flat = flat_kernel(e, count);
  if (flat >= 0) return launch(call, op.name, programs.flat[flat], {blocks_for(call, e.n, 1024)}, 256, &e);
  return launch_strided(call, op.name, programs.strided[compute_of(operands[0]->dtype)], e);
}

template <size_t I>
int32_t run(const clika_call* call) {
  constexpr Declared op = kOperators[I];
  const clika_value& first = call->inputs[0];
  if constexpr (op.arity == kGate) {
    const bool glu = std::string_view(op.name) == "glu";
    if (!glu && present(call, 1)) {
      const clika_value* operands[] = {&first, &call->inputs[1]};
      return launch_over(call, I, operands, 2);
    }
    const int64_t given = glu ? attr_int(call, 0, -1) : -1;
    const auto dim = static_cast<int32_t>(given < 0 ? given + first.rank : given);
    const Half gate(first, dim, false), up(first, dim, true);
    const clika_value* operands[] = {&gate.value, &up.value};
    return launch_over(call, I, operands, 2);
  } else if constexpr (std::string_view(op.name) == "prelu") {
    const Channels weight(first, call->inputs[1]);
    const clika_value* operands[] = {&first, &weight.value};
    return launch_over(call, I, operands, 2);
  } else if constexpr (std::string_view(op.name) == "clamp") {
    // An absent bound is not looked at.
    const clika_value* operands[] = {&first, present(call, 1) ? &call->inputs[1] : &first,
                                     present(call, 2) ? &call->inputs[2] : &first};
    return launch_over(call, I, operands, 3);
  } else {
    constexpr int count = op.arity == kThree ? 3 : op.arity == kTwo || op.arity == kWideOfTwo ? 2 : 1;
    const clika_value* operands[] = {&first, count > 1 ? &call->inputs[1] : nullptr, count > 2 ? &call->inputs[2] : nullptr};
    return launch_over(call, I, operands, count);
  }
}

template <size_t I>
void add_one(Registry& registry) {
  constexpr Declared op = kOperators[I];
  const uint64_t groups[4] = {kFloats3, bit(CLIKA_FLOAT64), (kInts | kBools) & ~bit(CLIKA_UINT64), bit(CLIKA_UINT64)};
  constexpr bool wide = op.arity == kWide || op.arity == kWideOfTwo;
  for (int c = 0; c < 4; ++c) {
    if ((op.dtypes & groups[c]) == 0 || (wide && c != kDouble)) continue;
    const bool flat = c == kFloat && op.result == SAME;
    const std::string defines = std::string("CLIKA_OP=op_") + op.name + " CLIKA_C=" + kComputeNames[c] +
                                (flat ? " CLIKA_FLAT=1" : "") + (wide ? " CLIKA_WIDE=1" : "");
    all_programs[I].strided[c] = registry.program("elementwise", defines, "strided")->begins_early();
    if (!flat) continue;
    all_programs[I].flat[0] = registry.program("elementwise", defines, "flat_float32")->begins_early();
    all_programs[I].flat[1] = registry.program("elementwise", defines, "flat_bfloat16")->begins_early();
    all_programs[I].flat[2] = registry.program("elementwise", defines, "flat_float16")->begins_early();
  }
  registry.entry(op.name, run<I>, {op.dtypes}, op.result == TRUTH ? kBools : op.dtypes,
                 op.result == TRUTH ? CLIKA_STRIDED : CLIKA_STRIDED | CLIKA_INPLACE);
}
template <size_t... I>
void add_all(Registry& registry, std::index_sequence<I...>) {
  (add_one<I>(registry), ...);
}

}  // namespace

void add_elementwise(Registry& registry) { add_all(registry, std::make_index_sequence<kCount>()); }

}  // namespace clika_cuda
