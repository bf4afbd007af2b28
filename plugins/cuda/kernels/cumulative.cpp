// cumsum, cumprod, logcumsumexp, cummax, cummin.
#include <utility>

#include "general.hpp"

namespace clika_cuda {

namespace {

struct Declared {
  const char* name;
  uint64_t in, out;
};
constexpr Declared kOperators[] = {
    {"cumsum", kEvery, kFloats4 | kInts},          {"cumprod", kEvery, kFloats4 | kInts},
    {"logcumsumexp", kFloats4, kFloats4},          {"cummax", kEvery, kEvery},
    {"cummin", kEvery, kEvery},
};
constexpr size_t kCount = sizeof(kOperators) / sizeof(kOperators[0]);
Program* programs[kCount][4];

// attr dim.
template <size_t I>
int32_t run(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  General g = general_of(call, kOperators[I].name);
  if (g.n == 0) return CLIKA_OK;
  const int32_t dim = in.rank == 0 ? 0 : from_front(attr_int(call, 0, 0), in.rank);
  g.in[0] = lines_of(in, dim);
  for (uint32_t i = 0; i < call->n_outputs; ++i) g.out[i] = lines_of(call->outputs[i], dim);
  g.i[0] = in.rank == 0 ? 1 : in.shape[dim];
  const Compute compute = compute_of(in.dtype);
  const unsigned threads = g.i[0] <= 32 ? 32 : g.i[0] <= 512 ? 128 : 256;
  return launch(call, kOperators[I].name, programs[I][compute == kFloat ? kDouble : compute],
                {static_cast<unsigned>(g.n / g.i[0])}, threads, &g);
}

template <size_t I>
void add_one(Registry& registry) {
  constexpr Declared op = kOperators[I];
  for (int c = kDouble; c <= kUint; ++c) {
    if (c != kDouble && (op.in & kInts) == 0) continue;
    programs[I][c] = registry.program(
        "cumulative", std::string("CLIKA_OP=op_") + op.name + " CLIKA_C=" + kComputeNames[c], "scan_lines");
  }
  registry.entry(op.name, run<I>, {op.in}, op.out);
}
template <size_t... I>
void add_all(Registry& registry, std::index_sequence<I...>) {
  (add_one<I>(registry), ...);
}

}  // namespace

void add_cumulative(Registry& registry) { add_all(registry, std::make_index_sequence<kCount>()); }

}  // namespace clika_cuda
