// eye, linspace, logspace, tril_indices, triu_indices, and the operators that draw numbers.
#include "general.hpp"

namespace clika_cuda {

namespace {

Program *eye, *spaced, *triangle_indices, *rand_numbers, *randn_numbers, *randint_numbers, *randperm_items, *write_indices,
    *bernoulli, *dropout, *normal, *weigh_rows, *draw_categories;

// attrs n, m.
int32_t run_eye(const clika_call* call) {
  General g = general_of(call, "eye");
  if (g.n > 0) g.i[0] = call->outputs[0].shape[1];
  return launch_each(call, "eye", eye, g);
}

int64_t truncated(double x) {  // what does not fit gives the smallest integer
  return std::abs(x) < 9.2233720368547758e18 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}
// attrs start, end, steps; base.
template <bool kPowers>
int32_t run_spaced(const clika_call* call) {
  const char* op = kPowers ? "logspace" : "linspace";
  General g = general_of(call, op);
  g.f[0] = real_of(call->attrs[0]);
  g.f[1] = real_of(call->attrs[1]);
  if (kInts & bit(call->outputs[0].dtype)) {
    g.f[0] = static_cast<double>(truncated(g.f[0]));
    g.f[1] = static_cast<double>(truncated(g.f[1]));
  }
  g.f[2] = g.n > 1 ? (g.f[1] - g.f[0]) / static_cast<double>(g.n - 1) : 0.0;
  if (kPowers) g.f[3] = real_of(call->attrs[3]);
  g.i[0] = kPowers;
  return launch_each(call, op, spaced, g);
}

// attrs row, col, offset. Lower: columns up to i + offset, else from there on.
template <bool kLower>
int32_t run_triangle_indices(const clika_call* call) {
  const char* op = kLower ? "tril_indices" : "triu_indices";
  General g = general_of(call, op);
  g.n = call->outputs[0].shape[1];
  g.i[0] = attr_int(call, 0, 0);
  g.i[1] = attr_int(call, 1, 0);
  g.i[2] = std::max(-g.i[0], std::min(g.i[1], static_cast<clika_device::i64>(attr_int(call, 2, 0))));
  g.i[3] = kLower;
  return launch_each(call, op, triangle_indices, g);
}

// ---------------------------------------------------------------- random numbers
// The scalars seed and offset from `first` on.
General draws_of(const clika_call* call, const char* op, uint32_t first) {
  General g = general_of(call, op);
  g.i[0] = scalar_int(call, first, 0);
  g.i[1] = scalar_int(call, first + 1, 0);
  return g;
}
int32_t run_rand(const clika_call* call) { return launch_each(call, "rand", rand_numbers, draws_of(call, "rand", 0)); }
int32_t run_randn(const clika_call* call) { return launch_each(call, "randn", randn_numbers, draws_of(call, "randn", 0)); }

// Attributes low, high, shape, dtype, device, as the caller gave them.
int32_t run_randint(const clika_call* call) {
  const clika_attr* low = &call->attrs[0];
  const clika_attr* high = &call->attrs[1];
  if (call->attrs[2].kind == CLIKA_ATTR_NONE || high->kind == CLIKA_ATTR_NONE) {  // one bound, and the size
    high = low;
    low = nullptr;
  }
  const auto bound = [](const clika_attr* a) {
    return a == nullptr || a->kind == CLIKA_ATTR_NONE ? int64_t{0} : a->kind == CLIKA_ATTR_INTS ? a->v.ints[0] : a->v.i;
  };
  General g = draws_of(call, "randint", 0);
  g.i[2] = bound(low);
  g.i[3] = static_cast<int64_t>(static_cast<uint64_t>(bound(high)) - static_cast<uint64_t>(bound(low)));
  return launch_each(call, "randint", randint_numbers, g);
}

int32_t write_sorted(const clika_call* call, const char* op, Item* items, int64_t lines, int64_t n, int64_t k, General g) {
  if (const int32_t status = sort_items(call, op, &items, lines, n)) return status;
  g.room[0] = items;
  g.i[2] = k;
  g.i[3] = n;
  return launch_each(call, op, write_indices, g);
}
int32_t run_randperm(const clika_call* call) {
  General g = draws_of(call, "randperm", 0);
  if (g.n == 0) return CLIKA_OK;
  Item* items = room_for<Item>(call, g.n);
  if (items == nullptr) return CLIKA_UNAVAILABLE;
  g.room[0] = items;
  if (const int32_t status = launch_each(call, "randperm", randperm_items, g)) return status;
  return write_sorted(call, "randperm", items, 1, g.n, g.n, g);
}

// Scalars p, seed, offset.
int32_t run_bernoulli(const clika_call* call) {
  General g = draws_of(call, "bernoulli", 1);
  g.i[2] = !call->scalars[0].is_none;
  if (g.i[2] && !(g.f[0] >= 0 && g.f[0] <= 1)) {
    return refuse(call, "bernoulli: p must be between 0 and 1, got " + std::to_string(g.f[0]));
  }
  return launch_each(call, "bernoulli", bernoulli, g);
}
int32_t run_dropout(const clika_call* call) {
  General g = draws_of(call, "dropout", 1);
  g.f[0] = scalar_float(call, 0, 0.5);
  return launch_each(call, "dropout", dropout, g);
}

// A view with the shape of the result.
View broadcast(const clika_value& v, const clika_value& out) {
  View view = view_of(v);
  if (v.kind == CLIKA_NUMBER) return view;
  view.rank = out.rank;
  for (int32_t d = 0; d < out.rank; ++d) {
    const int32_t own = d - (out.rank - v.rank);
    view.shape[d] = out.shape[d];
    view.strides[d] = own >= 0 && v.shape[own] != 1 ? v.strides[own] : 0;
  }
  return view;
}
// Inputs mean, std?.
int32_t run_normal(const clika_call* call) {
  General g = draws_of(call, "normal", 0);
  g.in[0] = broadcast(call->inputs[0], call->outputs[0]);
  g.in[1] = present(call, 1) ? broadcast(call->inputs[1], call->outputs[0]) : View{};
  return launch_each(call, "normal", normal, g);
}

// Attributes num_samples, replacement. The input lies in one piece.
int32_t run_multinomial(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  General g = draws_of(call, "multinomial", 0);
  g.i[2] = in.shape[in.rank - 1];
  g.i[3] = attr_int(call, 0, 1);
  g.i[4] = attr_int(call, 1, 0) == 0;
  const int64_t rows = in.rank == 1 ? 1 : in.shape[0], n = rows * g.i[2];
  if (g.n == 0) return CLIKA_OK;
  Item* items = nullptr;
  if (g.i[4]) g.room[1] = items = room_for<Item>(call, n);
  else g.room[0] = room_for<double>(call, n);
  if (g.room[0] == nullptr && g.room[1] == nullptr) return CLIKA_UNAVAILABLE;
  const unsigned threads = g.i[2] <= 128 ? 32 : 256;
  if (const int32_t status = launch(call, "multinomial", weigh_rows, {static_cast<unsigned>(rows)}, threads, &g)) return status;
  if (g.i[4]) return write_sorted(call, "multinomial", items, rows, g.i[2], g.i[3], g);
  return launch_each(call, "multinomial", draw_categories, g);
}

}  // namespace

void add_creation(Registry& registry) {
  const std::pair<Program**, const char*> programs[] = {
      {&eye, "eye"},
      {&spaced, "spaced"},
      {&triangle_indices, "triangle_indices"},
      {&rand_numbers, "rand_numbers"},
      {&randn_numbers, "randn_numbers"},
      {&randint_numbers, "randint_numbers"},
      {&randperm_items, "randperm_items"},
      {&write_indices, "write_indices"},
      {&bernoulli, "bernoulli"},
      {&dropout, "dropout"},
      {&normal, "normal"},
      {&weigh_rows, "weigh_rows"},
      {&draw_categories, "draw_categories"},
  };
  for (const auto& [program, name] : programs) *program = registry.program("creation", "", name);
  registry.entry("eye", run_eye, {}, kEvery);
  registry.entry("linspace", run_spaced<false>, {}, kFloats4 | kInts);
  registry.entry("logspace", run_spaced<true>, {}, kFloats4 | kInts);
  registry.entry("tril_indices", run_triangle_indices<true>, {}, kIndex);
  registry.entry("triu_indices", run_triangle_indices<false>, {}, kIndex);
  registry.entry("rand", run_rand, {}, kFloats4);
  registry.entry("randn", run_randn, {}, kFloats4);
  registry.entry("randint", run_randint, {}, kFloats4 | kInts);
  registry.entry("randperm", run_randperm, {}, kInts);
  registry.entry("bernoulli", run_bernoulli, {kEvery}, kEvery);
  registry.entry("dropout", run_dropout, {kFloats4}, kFloats4);
  registry.entry("normal", run_normal, {kFloats4}, kFloats4);
  registry.entry("multinomial", run_multinomial, {kFloats4}, bit(CLIKA_INT64), 0);
}

}  // namespace clika_cuda
