// A flat program made from a graph: calls bound to kernels, memory planned by lifetime. One run is one
// crossing from Python. A program counter walks the instructions, so branches and loops are instructions too.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph.hpp"
#include "tensor.hpp"

namespace clika {

enum class OpCode : uint8_t {
  kCall = 0,    // a C kernel
  kPython = 1,  // a Python callable
  kJump = 2,    // to `target`
  kBranch = 3,  // to `target` when the bool operand 0 is false
};

struct Instruction {
  OpCode code = OpCode::kCall;
  const clika_kernel* kernel = nullptr;
  void* python_kernel = nullptr;
  std::string op;
  int32_t node = -1;
  int32_t target = 0;
  std::vector<int32_t> input_values;   // flattened sequences
  std::vector<int32_t> groups;         // see Node::groups
  std::vector<int32_t> output_values;
  std::shared_ptr<Attrs> attrs;
  std::vector<Node::Patch> patches;
  std::vector<ScalarRef> scalars;
  // Operands as the kernel sees them; rebuilt when the symbols change, data patched per run.
  std::vector<clika_value> inputs, items, outputs;
  std::vector<clika_scalar> scalar_values;
};

struct PlanCounters {
  uint64_t runs = 0;
  uint64_t resizes = 0;  // runs whose symbols differed from the run before
  uint64_t instructions = 0;
};

class Plan {
 public:
  // `outputs` are values of the graph. Null and `error` when a node has no kernel.
  static std::unique_ptr<Plan> compile(std::shared_ptr<Graph> graph, const std::vector<int32_t>& outputs,
                                       ErrorPtr* error);
  ~Plan();

  // Checks and binds inputs (in graph order), allocates outputs, runs. The caller has released the GIL.
  // `results` gets one record per output with a storage reference of its own.
  ErrorPtr run(const TensorRecord* const* inputs, size_t n_inputs, const clika_scalar* scalars,
               size_t n_scalars, std::vector<TensorRecord>* results);

  const Graph& graph() const { return *graph_; }
  size_t instruction_count() const { return program_.size(); }
  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t lower_bound_bytes() const { return lower_bound_; }
  PlanCounters counters() const { return counters_; }

  // Set once by the Python side: calls a Python kernel (takes the GIL); looks for signals (true: stop).
  static ErrorPtr (*python_call)(void* callable, const clika_call* call, const char* op);
  static bool (*poll_signals)();

 private:
  Plan() = default;
  ErrorPtr bind(const TensorRecord* const* inputs, size_t n_inputs, std::vector<int64_t>* symbols) const;
  void plan_memory();
  ErrorPtr find_live();
  ErrorPtr check_sizes(const TensorRecord* const* inputs) const;
  ErrorPtr resize(const std::vector<int64_t>& symbols);
  void place(int32_t value, clika_value* out) const;
  ErrorPtr execute(const clika_scalar* scalars);
  int32_t root(int32_t value) const;

  std::shared_ptr<Graph> graph_;
  std::vector<Instruction> program_;
  std::vector<int32_t> outputs_;
  std::vector<int64_t> offsets_;      // per value: arena offset of a planned root, else -1
  std::vector<uint8_t> live_;         // per value: a run reads, writes or returns it
  std::vector<uint8_t> escapes_;      // per value: a root that leaves as (part of) an output
  struct Layout {
    int64_t shape[CLIKA_MAX_RANK];
    int64_t strides[CLIKA_MAX_RANK];
    int64_t offset;  // bytes from the root's data
    int64_t nbytes;
  };
  std::vector<Layout> layouts_;       // per value, for the current symbols
  std::vector<int64_t> symbols_;
  std::vector<char*> bases_;          // per value that is a root: its data in this run
  std::vector<Access> accesses_;      // captured storages
  int64_t arena_bytes_ = 0;
  int64_t lower_bound_ = 0;
  Storage* arena_ = nullptr;
  std::mutex mutex_;                  // one run at a time: the arena is one
  PlanCounters counters_;
};

}  // namespace clika
