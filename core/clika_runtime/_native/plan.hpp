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
  kMove = 2,    // input 0 on the device of output 0
  kIf = 3,      // body 0 where the bool in input 0 is true, else body 1; the other inputs are the bodies' inputs
  kLoop = 4,    // see Loop
  kScan = 5,    // see Scan
};

class Plan;

// What an instruction with bodies needs to know beside its operands.
//
// Loop: inputs are trip count (int64, may be absent), condition (bool, may be absent), `carried` values, then values from
// outside. The body takes (iteration int64, condition bool, carried..., outside...) and gives (condition, carried...,
// scanned...). Outputs are the carried values and the scanned ones, stacked over iterations along a new dim 0.
//
// Scan: inputs are `carried` states, `scanned` tensors, then values from outside. The body takes (states..., one slice of
// each scanned tensor along dim 0..., outside...) and gives (states..., slices...); outputs are the states and the slices,
// stacked along a new dim 0.
struct Control {
  OpCode code;
  std::vector<std::shared_ptr<Plan>> bodies;
  int32_t carried = 0;
  int32_t scanned = 0;
};

struct Instruction {
  OpCode code = OpCode::kCall;
  const clika_kernel* kernel = nullptr;
  void* python_kernel = nullptr;
  std::string op;
  int32_t node = -1;
  int32_t device = kHostDevice;        // that a kernel runs on
  std::vector<int32_t> input_values;   // flattened sequences
  std::vector<int32_t> groups;         // see Node::groups
  std::vector<int32_t> output_values;
  std::shared_ptr<Attrs> attrs;
  std::vector<Node::Patch> patches;
  std::vector<ScalarRef> scalars;
  std::vector<clika_scalar> scalar_values;
  bool given_scalars = false;          // one of them arrives with a run
  std::shared_ptr<const Control> control;
};

// How a program's calls are issued.
struct Issue {
  clika_stream stream = nullptr;  // instead of the device's default stream: the calls are recorded
  ScratchPool* scratch = nullptr;
  bool synchronous = false;       // each call has completed before the next one
};

struct PlanCounters {
  uint64_t runs = 0;
  uint64_t resizes = 0;    // runs whose symbols had no class yet
  uint64_t evictions = 0;  // classes dropped for newer ones
  uint64_t instructions = 0;
  uint64_t recordings = 0;  // graphs made
  uint64_t replays = 0;     // runs that launched one
};

class Plan {
 public:
  // Classes of symbol values that a plan keeps ready.
  static constexpr size_t kMaxClasses = 16;

  // `outputs` are values of the graph. Null and `error` when a node has no kernel.
  static std::unique_ptr<Plan> compile(std::shared_ptr<Graph> graph, const std::vector<int32_t>& outputs,
                                       ErrorPtr* error);
  ~Plan();

  // Checks and binds inputs (in graph order), allocates outputs, runs. The caller has released the GIL.
  // `results` gets one record per output with a storage reference of its own. With `synchronous` each call has
  // completed before the next one, also on a device.
  ErrorPtr run(const TensorRecord* const* inputs, size_t n_inputs, const clika_scalar* scalars,
               size_t n_scalars, bool synchronous, std::vector<TensorRecord>* results);

  const Graph& graph() const { return *graph_; }
  size_t instruction_count() const { return program_.size(); }
  const Instruction& instruction(size_t i) const { return program_[i]; }
  // Of the class that ran last, or of the upper bounds where memory is planned once; on all devices.
  int64_t arena_bytes() const { return total(arena_bytes_); }
  int64_t lower_bound_bytes() const { return lower_bound_; }
  PlanCounters counters() const { return counters_; }
  // Nanoseconds of each instruction are added up while this is on.
  void profile(bool on);
  const std::vector<int64_t>& profiled() const { return nanoseconds_; }
  // How often the program was run since then.
  int64_t profiled_runs() const { return profiled_runs_; }
  // Values of the symbols in the run before; empty before the first.
  const std::vector<int64_t>& symbols() const { return symbols_; }

  // Set once by the Python side: calls a Python kernel (takes the GIL); looks for signals (true: stop).
  static ErrorPtr (*python_call)(void* callable, const clika_call* call, const char* op);
  static bool (*poll_signals)();
  // "dtype float32 on cpu", for messages.
  static std::string (*kind_text)(int32_t dtype, int32_t device);

 private:
  struct Layout {
    int64_t shape[CLIKA_MAX_RANK];
    int64_t strides[CLIKA_MAX_RANK];
    int64_t offset;  // bytes from the root's data
    int64_t nbytes;
  };
  // A class as a graph of its device, over the addresses that it was recorded with (plan_graph.cpp).
  struct Replay {
    Replay() = default;
    ~Replay();
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;
    const clika_backend* table = nullptr;
    void* graph = nullptr;
    std::vector<const char*> inputs, arenas;
    std::vector<Storage*> results;  // of `result_roots_`; held, so that they stay where they are
  };
  // One class of symbol values: layouts, operands as kernels see them, places in the arena.
  struct Shape {
    std::vector<int64_t> symbols;
    std::vector<Layout> layouts;   // per value
    std::vector<int64_t> offsets;  // per value: arena offset of a planned root, else -1
    std::vector<int64_t> arena_bytes;  // per device
    struct Operands {
      std::vector<clika_value> inputs, items, outputs;
    };
    std::vector<Operands> operands;  // per instruction
    std::vector<int64_t> patched;    // values of all patches
    struct Moving {
      clika_value* value;
      int32_t root;
      int64_t offset;
    };
    std::vector<Moving> moving;      // operands that lie elsewhere in each run
    std::vector<Moving> resting;     // operands in the arena or in captured storages
    std::vector<const char*> rested; // the arenas that `resting` points into, once `placed`
    bool placed = false;
    uint64_t used = 0;
    std::vector<const char*> given;  // the addresses of the inputs in the run before
    int steady = 0;                  // runs in a row over them
    int recordings = 0;
    bool refused = false;            // cannot be recorded: calls are issued anew each time
    std::unique_ptr<Replay> replay;
  };

  Plan() = default;
  ErrorPtr bind(const TensorRecord* const* inputs, size_t n_inputs, std::vector<int64_t>* symbols) const;
  struct Buffer {
    int32_t value;
    int64_t bytes;
  };
  int64_t place_buffers(const std::vector<Buffer>& order, bool tight, std::vector<int64_t>* offsets) const;
  void plan_memory(const std::vector<int64_t>& bytes, std::vector<int64_t>* offsets, std::vector<int64_t>* totals);
  void plan_device(int32_t device, const std::vector<int64_t>& bytes, std::vector<int64_t>* offsets, int64_t* total);
  static int64_t total(const std::vector<int64_t>& bytes);
  size_t arena_of(int32_t device) const;
  std::vector<int64_t> upper_sizes() const;
  ErrorPtr find_live();
  ErrorPtr check_sizes(const TensorRecord* const* inputs, const Shape& shape) const;
  ErrorPtr shape_for(const std::vector<int64_t>& symbols, Shape** out);
  ErrorPtr prepare(const TensorRecord* const* inputs, size_t n_inputs, Shape** shape, std::vector<Storage*>* fresh);
  void describe(int32_t value, const Shape& shape, clika_value* out) const;
  ErrorPtr execute(Shape& shape, const clika_scalar* scalars, const Issue& issue);
  Shape* known_shape(const std::vector<int64_t>& symbols);
  std::vector<const char*> arena_places() const;
  void find_graph_device();
  bool replay(const TensorRecord* const* inputs, size_t n_inputs, std::vector<TensorRecord>* results, ErrorPtr* error);
  ErrorPtr issue_or_record(Shape& shape, const TensorRecord* const* inputs, size_t n_inputs,
                           const std::vector<Storage*>& fresh, const clika_scalar* scalars, bool synchronous);
  bool record(Shape& shape, const std::vector<Storage*>& fresh);
  ErrorPtr launch(const Replay& replay);
  void poison_written(const ErrorPtr& error);
  ErrorPtr run_inside(const TensorRecord* const* inputs, size_t n_inputs, std::vector<TensorRecord>* results);
  ErrorPtr run_control(Instruction& instruction, Shape& shape, size_t at);
  TensorRecord record_of(int32_t value, const Shape& shape) const;
  void collect(const Shape& shape, std::vector<TensorRecord>* results) const;
  int32_t root(int32_t value) const { return roots_[value]; }

  std::shared_ptr<Graph> graph_;
  std::vector<Instruction> program_;
  std::vector<int32_t> outputs_;
  std::vector<int32_t> roots_;        // per value: the value whose bytes it shares in the end
  std::vector<int32_t> root_list_;    // live values that are roots
  std::vector<uint8_t> live_;         // per value: a run reads, writes or returns it
  std::vector<uint8_t> escapes_;      // per value: a root that leaves as (part of) an output
  std::vector<int32_t> first_, last_; // per root: instructions of its first and last use
  std::vector<std::unique_ptr<Shape>> shapes_;
  bool fixed_memory_ = false;         // places are those of the upper bounds
  std::vector<int64_t> fixed_offsets_;
  std::vector<char*> bases_;          // per value that is a root: its data in this run
  std::vector<Storage*> holders_;     // per root: the storage of `bases_`, for bodies; borrowed
  std::vector<Access> accesses_;      // captured storages
  std::vector<int32_t> devices_;      // that values of runs lie on; each has an arena
  std::vector<int64_t> arena_bytes_;
  int64_t lower_bound_ = 0;
  struct Arena {
    Storage* storage = nullptr;
    int64_t size = 0;
  };
  std::vector<Arena> arenas_;
  int32_t graph_device_ = kMetaDevice;   // whose backend records graphs, where all instructions run on it
  std::vector<int32_t> result_roots_;    // that get a fresh storage in each run
  std::unique_ptr<ScratchPool> scratch_; // of all classes: their graphs run one after the other
  std::mutex mutex_;                  // one run at a time: its arenas are the only ones
  PlanCounters counters_;
  bool profiling_ = false;
  std::vector<int64_t> nanoseconds_;
  int64_t profiled_runs_ = 0;
  std::vector<int64_t> symbols_;
};

}  // namespace clika
