// Classes of a plan as graphs of their device. The first runs of a class issue its calls: they compile kernels and find out
// how much scratch there is to hold. Once the inputs have stayed where they are, the calls are recorded; from then on a run
// is one launch, as long as nothing that the graph addresses has moved.
#include <algorithm>
#include <cstddef>

#include "dispatch.hpp"
#include "plan.hpp"

namespace clika {

namespace {
// Runs over the same inputs before the one that records: one that warms up, one that measures the scratch.
constexpr int kRunsBefore = 2;
// A caller that changes between sets of inputs would have every third run recorded.
constexpr int kMostRecordings = 8;
}  // namespace

// ---------------------------------------------------------------- scratch
ScratchPool::~ScratchPool() {
  for (const Block& block : blocks_) device_allocator(device_).release(block.data, block.bytes);
}

void* ScratchPool::take(size_t bytes) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (!block.taken && block.bytes >= bytes && (best == nullptr || block.bytes < best->bytes)) best = &block;
  }
  if (best == nullptr) {
    void* data = closed_ ? nullptr : device_allocator(device_).allocate(bytes);
    if (data == nullptr) return nullptr;
    blocks_.push_back({data, bytes, false});
    best = &blocks_.back();
  }
  best->taken = true;
  return best->data;
}

void ScratchPool::settle() {
  for (Block& block : blocks_) block.taken = false;
}

// ---------------------------------------------------------------- graphs
Plan::Replay::~Replay() {
  if (graph != nullptr) table->graph_destroy(graph);
  for (Storage* storage : results) storage->drop();
}

// Where every instruction is a kernel of one device that records, and no number arrives with a run.
void Plan::find_graph_device() {
  for (int32_t id : root_list_) {
    const Value& value = graph_->values[id];
    if (value.kind == ValueKind::kResult && value.storage == nullptr && escapes_[id]) result_roots_.push_back(id);
  }
  if (program_.empty()) return;
  const int32_t device = program_[0].device;
  if (graph_backend_of(device) == nullptr) return;
  for (const Instruction& instruction : program_) {
    if (instruction.code != OpCode::kCall || instruction.device != device || instruction.given_scalars) return;
  }
  graph_device_ = device;
}

ErrorPtr Plan::launch(const Replay& replay) {
  ErrorPtr error;
  clika_stream stream = device_stream(graph_device_, &error);
  if (stream == nullptr) return error;
  const int32_t status = replay.table->graph_launch(stream, replay.graph);
  if (status != CLIKA_OK) return device_backend_of(graph_device_)->failure(status, "run");
  ++counters_.replays;
  return nullptr;
}

// A run as the launch of its class's graph; false where it has none, or where something is in another place now.
bool Plan::replay(const TensorRecord* const* inputs, size_t n_inputs, std::vector<TensorRecord>* results,
                  ErrorPtr* error) {
  if (graph_device_ == kMetaDevice || profiling_) return false;
  std::vector<int64_t> symbols;
  if (bind(inputs, n_inputs, &symbols)) return false;  // said by the run that follows
  Shape* shape = known_shape(symbols);
  if (shape == nullptr || shape->replay == nullptr) return false;
  const Replay& known = *shape->replay;
  for (size_t i = 0; i < n_inputs; ++i) {
    if (inputs[i]->data() != known.inputs[i]) return false;
  }
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const Arena& arena = arenas_[i];
    if (known.arenas[i] != (arena.storage == nullptr ? nullptr : arena.storage->data())) return false;
  }
  // What somebody still holds of the run before must not change.
  for (const Storage* storage : known.results) {
    if (!storage->unique()) return false;
  }
  if (check_sizes(inputs, *shape)) return false;
  *error = first_poison(accesses_.data(), accesses_.size());
  for (size_t i = 0; i < n_inputs && !*error; ++i) *error = inputs[i]->storage->poison();
  if (!*error) *error = launch(known);
  poison_written(*error);
  ++counters_.runs;
  if (*error) return true;
  symbols_ = shape->symbols;
  for (size_t i = 0; i < n_inputs; ++i) {
    bases_[graph_->inputs[i]] = inputs[i]->data();
    holders_[graph_->inputs[i]] = inputs[i]->storage;
  }
  for (size_t i = 0; i < result_roots_.size(); ++i) {
    bases_[result_roots_[i]] = static_cast<char*>(known.results[i]->data());
    holders_[result_roots_[i]] = known.results[i];
  }
  collect(*shape, results);
  return true;
}

// The calls of a run, issued; or recorded and launched, once the class is warm and its inputs rest.
ErrorPtr Plan::issue_or_record(Shape& shape, const TensorRecord* const* inputs, size_t n_inputs,
                               const std::vector<Storage*>& fresh, const clika_scalar* scalars, bool synchronous) {
  Issue issue;
  issue.synchronous = synchronous;
  if (graph_device_ == kMetaDevice || synchronous || profiling_ || shape.refused) return execute(shape, scalars, issue);
  std::vector<const char*> given;
  for (size_t i = 0; i < n_inputs; ++i) given.push_back(inputs[i]->data());
  const std::vector<const char*> arenas = arena_places();
  if (shape.replay != nullptr && shape.replay->arenas != arenas) shape.replay.reset();
  // Only its results are in use: another graph would find them so too.
  if (shape.replay != nullptr && shape.replay->inputs == given) return execute(shape, scalars, issue);
  if (given != shape.given) {
    shape.given = std::move(given);
    shape.steady = 0;
  }
  if (++shape.steady < kRunsBefore) return execute(shape, scalars, issue);
  if (shape.steady == kRunsBefore) {
    if (scratch_ == nullptr) scratch_ = std::make_unique<ScratchPool>(graph_device_);
    issue.scratch = scratch_.get();
    return execute(shape, scalars, issue);
  }
  if (shape.recordings == kMostRecordings) return execute(shape, scalars, issue);
  if (record(shape, fresh)) return launch(*shape.replay);
  shape.refused = true;
  return execute(shape, scalars, issue);
}

bool Plan::record(Shape& shape, const std::vector<Storage*>& fresh) {
  const clika_backend* table = graph_backend_of(graph_device_)->table;
  Issue issue;
  issue.scratch = scratch_.get();
  issue.stream = table->capture_begin(device_index(graph_device_));
  if (issue.stream == nullptr) return false;
  scratch_->close(true);
  const ErrorPtr error = execute(shape, nullptr, issue);
  scratch_->close(false);
  auto made = std::make_unique<Replay>();
  made->table = table;
  made->graph = table->capture_end(issue.stream);
  if (error || made->graph == nullptr) {
    const ErrorPtr reason = error ? error : device_backend_of(graph_device_)->failure(CLIKA_INTERNAL, "graph");
    core_table()->log(1, ("a plan is issued call by call, it cannot be recorded: " + reason->message).c_str());
    return false;
  }
  made->inputs = shape.given;
  made->arenas = arena_places();
  made->results = fresh;
  for (Storage* storage : made->results) storage->retain();
  shape.replay = std::move(made);
  ++shape.recordings;
  ++counters_.recordings;
  return true;
}

}  // namespace clika
