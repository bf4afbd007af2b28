// linear, linears and gated_linear: products of an input with weights of any form.
//
// Few tokens: one launch on tensor cores that reads every weight once (linear.cu), for all weights of one form together.
// Many: cuBLASLt; a weight that it does not take becomes a dense one of the input's dtype in scratch, some rows at a time.
// What neither takes (odd columns, float32 weights, schemes without a layout): eight tokens at a time, one number of the
// weight after the other (weights.cu).
#include "blas.hpp"
#include "weights.hpp"

namespace clika_cuda {

namespace {

using clika_device::Factor;
using clika_device::kMostFactors;
using clika_device::kTileRows;
using clika_device::Linear;

constexpr int kSchemeCount = 64, kWidths = 3;  // 8, 16 or 32 columns of the right operand
constexpr size_t kScratch = size_t{32} << 20;  // of a dense form: it stays in the second cache
constexpr int kDepth = 2;  // steps of 16 rows that a warp has on their way to shared memory
// Kernels of linear.cu: [scheme][bfloat16, float16, float32 input][width][plain, gated][inputs where they are, in shared
// memory].
Program* tile_programs[kSchemeCount][3][kWidths][2][2];
Program* gate_values;

struct Job {
  const clika_value* weight;
  const clika_value* bias;  // null: none
  void* out;
  int64_t rows() const { return weight->shape[0]; }
};
struct Input {
  const clika_value* value;
  int64_t tokens, columns;
  int32_t dtype() const { return value->dtype; }
  const char* at(int64_t token) const {
    return static_cast<const char*>(value->data) + token * columns * size_of(value->dtype);
  }
};

bool at_sixteen(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
bool rows_aligned(const Input& x) {
  return at_sixteen(x.value->data) && x.columns * size_of(x.dtype()) % 16 == 0;
}
int input_index(int32_t dtype) { return dtype == CLIKA_BFLOAT16 ? 0 : dtype == CLIKA_FLOAT16 ? 1 : 2; }

// ---------------------------------------------------------------- few tokens
// Whether linear.cu takes the weight: packed in tiles, or dense in the operand's type.
bool takes_tiles(const Input& x, const clika_value& weight) {
  // Places within an input are counted in 32 bits, and sums of its blocks lie in shared memory.
  if (x.columns == 0 || x.columns % 8 != 0 || x.columns > 1 << 17 || !rows_aligned(x) || !at_sixteen(weight.data)) return false;
  if (weight.scheme != CLIKA_DENSE) return weight.layout == kTiledLayout;
  const int32_t operand = x.dtype() == CLIKA_FLOAT16 ? CLIKA_FLOAT16 : CLIKA_BFLOAT16;
  return weight.dtype == operand;
}
int64_t parts_of(const Input& x) { return x.dtype() == CLIKA_FLOAT32 ? 3 : 1; }
// Tokens that are multiplied by the tensor cores' kernel, several launches together. Beyond them a dense product costs less:
// for a packed weight writing and reading its dense form is the price of some eight launches, for float32 of more.
int64_t most_few(const Input& x, const clika_value& weight) {
  const bool wide = x.dtype() == CLIKA_FLOAT32;
  if (weight.scheme == CLIKA_DENSE) return wide ? 20 : 16;
  return wide ? 60 : 64;
}
// Columns of one launch, as an exponent over 8: what registers suffice for.
int most_width(int32_t dtype, bool gated, int32_t scheme) {
  const int width = (dtype == CLIKA_FLOAT32 ? 1 : 2) - (gated ? 1 : 0);
  return scheme == CLIKA_DENSE ? std::min(width, 1) : width;
}
// How a product is launched. Results do not depend on it but for the warps.
struct Tactic {
  const clika_value& weight;
  bool gated;
  int warps;
  bool staged;  // inputs in shared memory

  bool dense() const { return weight.scheme == CLIKA_DENSE; }
  // A dense weight whose inputs are not staged goes through registers.
  int depth() const { return dense() && !staged ? 0 : kDepth; }
  int rows() const { return dense() && gated && staged ? kTileRows / 2 : kTileRows; }
  int step_columns() const { return !dense() && clika_block_of(weight.scheme).columns == 256 ? 256 : 128; }
  int64_t steps() const { return (weight.shape[1] + step_columns() - 1) / step_columns(); }
  int tiles(int64_t of) const { return static_cast<int>((of + rows() - 1) / rows()); }
  // Shared memory: sums of two tiles, the rings of the warps, sums of blocks, inputs.
  int64_t shared(int64_t columns) const {
    const auto all = static_cast<int>(weight.shape[1]);
    const int width = clika_device::columns_of(static_cast<int>(columns));
    int64_t bytes = int64_t{2} * warps * rows() * (gated ? 2 : 1) * width * static_cast<int64_t>(sizeof(float));
    if (dense()) {
      bytes += warps * depth() * kTileRows * step_columns() * 2;
    } else {
      const clika_block block = clika_block_of(weight.scheme);
      bytes += warps * kDepth * kTileRows * (step_columns() / block.columns) * block.bytes;
      bytes += clika_device::bytes_of_sums(all, width);
    }
    return bytes + (staged ? columns * clika_device::staged_stride(all) : 0);
  }
};
// The warps depend on the device and the weight's columns alone, so that a row's sum is the same in every arrangement of
// weights and tokens. Of packed weights: as few rounds of them as `most` warps need, and no more warps than take part in all
// of these. Steps of 256 columns are long, and more than three warps for each of a multiprocessor's four schedulers wait for
// each other: 12 of them read a weight of 14,336 columns 20 % faster than 14.
Tactic tactic_of(const Device& device, const Input& x, const clika_value& weight, bool gated) {
  Tactic tactic{weight, true, 0, false};
  const int64_t steps = tactic.steps();
  if (tactic.dense()) {
    tactic.warps = steps > 32 ? 16 : steps > 4 ? 8 : 4;
  } else {
    for (int64_t most = tactic.step_columns() == 256 ? 12 : 16;; most /= 2) {
      const int64_t rounds = (steps + most - 1) / most;
      tactic.warps = static_cast<int>((steps + rounds - 1) / rounds);
      if (most == 1 || tactic.shared(parts_of(x)) <= device.shared_memory()) break;
    }
  }
  tactic.gated = gated;
  return tactic;
}
// Whether inputs are copied into shared memory: where kernels that overlap leave room for them, and, of dense weights, which
// cost little work, where they are few enough to be worth it.
bool stages(const Device& device, Tactic tactic, int64_t columns) {
  if (columns > 8) return false;
  if (tactic.dense() && columns * tactic.weight.shape[1] * 2 > (tactic.gated ? 16 << 10 : 8 << 10)) return false;
  tactic.staged = true;
  return tactic.shared(columns) <= std::min<int64_t>(device.shared_memory(), (kSharedKib - 1) << 10);
}

Factor factor_of(const Job& job, int64_t token, int32_t dtype) {
  Factor f{};
  f.weight = job.weight->data;
  f.rows = job.rows();
  f.out = static_cast<char*>(job.out) + token * f.rows * size_of(dtype);
  if (job.bias != nullptr) {
    f.bias = job.bias->data;
    f.bias_dtype = job.bias->dtype;
  }
  return f;
}

// Jobs of one form, together; of a gated product the two weights.
int32_t run_tiles(const clika_call* call, const char* op, const Input& x, const Job* jobs, int count, int activation) {
  const bool gated = activation >= 0;
  const clika_value& weight = *jobs[0].weight;
  Device& device = device_of(call);
  Tactic tactic = tactic_of(device, x, weight, gated);
  const int64_t parts = parts_of(x);
  int64_t at_once = (8 << most_width(x.dtype(), gated, weight.scheme)) / parts;
  while (at_once > 1 && tactic.shared(at_once * parts) > device.shared_memory()) at_once /= 2;
  for (int64_t token = 0; token < x.tokens; token += at_once) {
    Linear p{};
    p.input = x.at(token);
    p.columns = x.columns;
    p.tokens = std::min(at_once, x.tokens - token);
    p.count = count;
    p.dtype = x.dtype();
    p.activation = activation;
    const int64_t columns = p.tokens * parts;
    const int width = columns <= 8 ? 0 : columns <= 16 ? 1 : 2;
    tactic.staged = stages(device, tactic, columns);
    int64_t tiles = 0;
    for (int i = 0; i < count; ++i) {
      p.factors[i] = factor_of(jobs[i], token, x.dtype());
      p.factors[i].tiles = tactic.tiles(jobs[i].rows());
      if (!gated || i == 0) tiles += p.factors[i].tiles;
    }
    // Sixteen warps of a multiprocessor have enough on its way; with a ring fewer do.
    const int64_t shared = tactic.shared(columns);
    int64_t resident = std::max(1, (tactic.depth() == 0 ? 16 : 15) / tactic.warps);
    while (resident > 1 && resident * (shared + 1024) > device.shared_memory()) --resident;
    const int64_t blocks = std::min<int64_t>(tiles, device.multiprocessors() * resident);
    Program* program = tile_programs[weight.scheme][input_index(x.dtype())][width][gated][tactic.staged];
    if (const int32_t status = launch(call, op, program, {static_cast<unsigned>(blocks)},
                                      static_cast<unsigned>(32 * tactic.warps), &p, static_cast<unsigned>(shared))) {
      return status;
    }
  }
  return CLIKA_OK;
}

bool same_form(const clika_value& a, const clika_value& b) {
  return a.scheme == b.scheme && a.layout == b.layout && (a.scheme != CLIKA_DENSE || a.dtype == b.dtype);
}

// ---------------------------------------------------------------- any form
int32_t run_numbers(const clika_call* call, const char* op, const Input& x, const Job& job) {
  const WeightPrograms* programs = programs_of(call, *job.weight, op);
  if (programs == nullptr) return CLIKA_UNSUPPORTED;
  const bool dense = job.weight->scheme == CLIKA_DENSE;
  const bool aligned = rows_aligned(x) && (!dense || (at_sixteen(job.weight->data) &&
                                                      x.columns * size_of(job.weight->dtype) % 16 == 0));
  for (int64_t token = 0; token < x.tokens; token += 8) {
    Linear p{};
    p.input = x.at(token);
    p.columns = x.columns;
    p.tokens = std::min<int64_t>(8, x.tokens - token);
    p.count = 1;
    p.dtype = x.dtype();
    p.aligned = aligned;
    p.factors[0] = factor_of(job, token, x.dtype());
    const Grid grid{static_cast<unsigned>((job.rows() + 7) / 8)};
    if (const int32_t status = launch(call, op, p.tokens == 1 ? programs->one : programs->eight, grid, 256, &p)) return status;
  }
  return CLIKA_OK;
}

// ---------------------------------------------------------------- many tokens
void* scratch(size_t bytes, void* call) {
  const auto* known = static_cast<const clika_call*>(call);
  return known->core->device_scratch(known, bytes);
}

// The status of a product by the library; `served` is false where it has none.
int32_t run_library(const clika_call* call, const char* op, const Input& x, const Job& job, bool* served) {
  auto* queue = static_cast<Queue*>(call->stream);
  const int32_t dtype = x.dtype();
  const int64_t bytes = size_of(dtype), rows = job.rows();
  const bool as_it_is = job.weight->scheme == CLIKA_DENSE && job.weight->dtype == dtype;
  int64_t piece = rows;
  const char* weight = static_cast<const char*>(job.weight->data);
  *served = false;
  if (!blas_missing().empty() || x.columns == 0) return CLIKA_OK;
  char* dense = nullptr;
  if (!as_it_is) {
    piece = std::max<int64_t>(256, static_cast<int64_t>(kScratch) / (x.columns * bytes) / 256 * 256);
    piece = std::min(piece, rows);
    dense = static_cast<char*>(scratch(static_cast<size_t>(piece * x.columns * bytes), const_cast<clika_call*>(call)));
    if (dense == nullptr) return CLIKA_INTERNAL;
  }
  const char* bias = nullptr;
  if (job.bias != nullptr) {
    bias = static_cast<const char*>(job.bias->data);
    if (job.bias->dtype != dtype || !at_sixteen(bias)) {
      clika_value line = *job.bias;
      const int64_t shape[2] = {1, rows};
      line.rank = 2;
      line.shape = shape;
      auto* copy = static_cast<char*>(scratch(static_cast<size_t>(rows * bytes), const_cast<clika_call*>(call)));
      if (copy == nullptr) return CLIKA_INTERNAL;
      if (const int32_t status = decode(call, op, line, 0, 1, copy, dtype)) return status;
      bias = copy;
    }
  }
  for (int64_t row = 0; row < rows; row += piece) {
    const int64_t n = std::min(piece, rows - row);
    const char* right = weight + row * x.columns * bytes;
    if (!as_it_is) {
      if (const int32_t status = decode(call, op, *job.weight, row, n, dense, dtype)) return status;
      right = dense;
    }
    Product product{x.value->data, right, static_cast<char*>(job.out) + row * bytes, dtype, x.tokens, n, x.columns,
                    x.columns, 1, 1, x.columns, 1, 0, 0};
    product.out_row = rows;
    product.bias = bias == nullptr ? nullptr : bias + row * bytes;
    queue->device->note(op);
    const Blas result = multiply(*queue->device, queue->stream, product, scratch, const_cast<clika_call*>(call));
    if (result == Blas::kFailed) return pass_on(call, last_failure(nullptr, 0, nullptr, 0));
    if (result == Blas::kNotServed) return CLIKA_OK;
  }
  *served = true;
  return CLIKA_OK;
}

// ---------------------------------------------------------------- which way
bool few(const Input& x, const clika_value& weight) {
  return takes_tiles(x, weight) && x.tokens <= most_few(x, weight);
}

int32_t run_one(const clika_call* call, const char* op, const Input& x, const Job& job) {
  if (few(x, *job.weight)) return run_tiles(call, op, x, &job, 1, -1);
  if (x.tokens > 8) {
    bool served = false;
    const int32_t status = run_library(call, op, x, job, &served);
    if (status != CLIKA_OK || served) return status;
    static std::atomic<bool> said{false};
    if (!blas_missing().empty() && !said.exchange(true)) {
      call->core->log(2, (std::string(op) + " on CUDA is slow here: cuBLASLt is missing; install it with: pip install "
                          "'clika-runtime[cuda]' (" + blas_missing() + ")").c_str());
    }
    if (takes_tiles(x, *job.weight)) return run_tiles(call, op, x, &job, 1, -1);
  }
  return run_numbers(call, op, x, job);
}

int32_t read(const clika_call* call, const char* op, Input* x) {
  const clika_value& value = call->inputs[0];
  if (value.rank < 1) return refuse(call, std::string(op) + ": the input must be [..., columns], got a scalar");
  x->value = &value;
  x->columns = value.shape[value.rank - 1];
  x->tokens = 1;
  for (int32_t i = 0; i + 1 < value.rank; ++i) x->tokens *= value.shape[i];
  return CLIKA_OK;
}
int32_t check(const clika_call* call, const char* op, const Input& x, const Job& job) {
  if (const int32_t status = check_weight(call, *job.weight, op)) return status;
  if (job.weight->shape[1] == x.columns) return CLIKA_OK;
  return refuse(call, std::string(op) + ": the input has " + std::to_string(x.columns) + " columns, the weight " +
                          std::to_string(job.weight->shape[1]));
}

int32_t run_linear(const clika_call* call) {
  Input x;
  if (const int32_t status = read(call, "linear", &x)) return status;
  const Job job{&call->inputs[1], present(call, 2) ? &call->inputs[2] : nullptr, call->outputs[0].data};
  if (const int32_t status = check(call, "linear", x, job)) return status;
  if (x.tokens == 0 || job.rows() == 0) return CLIKA_OK;
  return run_one(call, "linear", x, job);
}

int32_t run_linears(const clika_call* call) {
  Input x;
  if (const int32_t status = read(call, "linears", &x)) return status;
  const clika_value& list = call->inputs[1];
  std::vector<Job> jobs;
  for (int32_t i = 0; i < list.n_items; ++i) {
    const Job job{&list.items[i], present(call, 2) ? &call->inputs[2].items[i] : nullptr, call->outputs[i].data};
    if (const int32_t status = check(call, "linears", x, job)) return status;
    if (x.tokens != 0 && job.rows() != 0) jobs.push_back(job);
  }
  // Neighbours of one form go together, where few tokens make a launch of each worth saving.
  for (size_t i = 0; i < jobs.size();) {
    size_t end = i + 1;
    if (few(x, *jobs[i].weight)) {
      while (end < jobs.size() && end - i < kMostFactors && few(x, *jobs[end].weight) &&
             same_form(*jobs[i].weight, *jobs[end].weight)) {
        ++end;
      }
      if (const int32_t status = run_tiles(call, "linears", x, &jobs[i], static_cast<int>(end - i), -1)) return status;
    } else if (const int32_t status = run_one(call, "linears", x, jobs[i])) {
      return status;
    }
    i = end;
  }
  return CLIKA_OK;
}

int32_t run_gated(const clika_call* call) {
  constexpr const char* op = "gated_linear";
  Input x;
  if (const int32_t status = read(call, op, &x)) return status;
  Job jobs[2] = {{&call->inputs[1], present(call, 3) ? &call->inputs[3] : nullptr, call->outputs[0].data},
                 {&call->inputs[2], present(call, 4) ? &call->inputs[4] : nullptr, nullptr}};
  for (const Job& job : jobs) {
    if (const int32_t status = check(call, op, x, job)) return status;
  }
  const int64_t rows = jobs[0].rows();
  if (rows != jobs[1].rows()) {
    return refuse(call, "gated_linear: gate and up must have the same rows, got " + std::to_string(rows) + " and " +
                            std::to_string(jobs[1].rows()));
  }
  if (x.tokens == 0 || rows == 0) return CLIKA_OK;
  const auto activation = static_cast<int>(attr_int(call, 0, 0));
  if (few(x, *jobs[0].weight) && few(x, *jobs[1].weight) && same_form(*jobs[0].weight, *jobs[1].weight)) {
    return run_tiles(call, op, x, jobs, 2, activation);
  }
  jobs[1].out = scratch(static_cast<size_t>(x.tokens * rows * size_of(x.dtype())), const_cast<clika_call*>(call));
  if (jobs[1].out == nullptr) return CLIKA_INTERNAL;
  for (const Job& job : jobs) {
    if (const int32_t status = run_one(call, op, x, job)) return status;
  }
  const clika_device::Gated p{jobs[0].out, jobs[1].out, x.tokens * rows, x.dtype(), activation};
  return launch(call, op, gate_values, {blocks_for(call, p.n, 2048)}, 256, &p);
}

void add_tiles(Registry& registry, const std::string& form, int scheme) {
  static const std::pair<const char*, int32_t> inputs[] = {
      {"bf16", CLIKA_BFLOAT16}, {"f16", CLIKA_FLOAT16}, {"float", CLIKA_FLOAT32}};
  for (const auto& [name, dtype] : inputs) {
    for (const bool gated : {false, true}) {
      for (int width = 0; width <= most_width(dtype, gated, scheme); ++width) {
        for (const bool staged : {false, true}) {
          if (staged && width > 0) continue;
          clika_value weight{};
          weight.scheme = scheme;
          const Tactic tactic{weight, gated, 0, staged};
          const std::string defines = "CLIKA_FORM=" + form + " CLIKA_X=" + name + " CLIKA_TILES=" + std::to_string(1 << width) +
                                      " CLIKA_WEIGHTS=" + (gated ? "2" : "1") + " CLIKA_ROWS=" + std::to_string(tactic.rows()) +
                                      " CLIKA_DEPTH=" + std::to_string(tactic.depth()) + " CLIKA_STAGED=" + (staged ? "1" : "0");
          tile_programs[scheme][input_index(dtype)][width][gated][staged] =
              registry.program("linear", defines, "linear_rows")->begins_early();
        }
      }
    }
  }
}

}  // namespace

void add_linear(Registry& registry) {
  add_tiles(registry, "Dense", CLIKA_DENSE);
#define CLIKA_X(name) add_tiles(registry, "Tiled" #name, CLIKA_GGUF_##name);
  CLIKA_TILED(CLIKA_X)
#undef CLIKA_X
  gate_values = registry.program("gated", "", "gate_values")->begins_early();
  registry.entry("linear", run_linear, {kFloats3}, kFloats3, 0).input_schemes[1] = kWeightSchemes;
  registry.entry("linears", run_linears, {kFloats3}, kFloats3, 0).input_schemes[1] = kWeightSchemes;
  clika_kernel& gated = registry.entry("gated_linear", run_gated, {kFloats3}, kFloats3, 0);
  gated.input_schemes[1] = kWeightSchemes;
  gated.input_schemes[2] = kWeightSchemes;
}

}  // namespace clika_cuda
