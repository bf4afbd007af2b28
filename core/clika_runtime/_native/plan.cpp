#include "plan.hpp"

#include <algorithm>
#include <chrono>

namespace clika {

ErrorPtr (*Plan::python_call)(void*, const clika_call*, const char*) = nullptr;
bool (*Plan::poll_signals)() = nullptr;

namespace {

ErrorPtr invalid(const std::string& message) {
  return make_error(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT", message);
}

std::shared_ptr<Attrs> copy_attrs(const Attrs& from) {
  auto copy = std::make_shared<Attrs>();
  for (const clika_attr& item : from.items) {
    switch (item.kind) {
      case CLIKA_ATTR_INT: copy->add_int(item.v.i); break;
      case CLIKA_ATTR_FLOAT: copy->add_float(item.v.f); break;
      case CLIKA_ATTR_INTS: copy->add_ints({item.v.ints, item.v.ints + item.n}); break;
      case CLIKA_ATTR_FLOATS: copy->add_floats({item.v.floats, item.v.floats + item.n}); break;
      case CLIKA_ATTR_STRING: copy->add_text({item.v.text, static_cast<size_t>(item.n)}); break;
      default: copy->add_none();
    }
  }
  return copy;
}

std::string shape_text(int32_t rank, const int64_t* shape) {
  std::string text = "[";
  for (int32_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool contiguous_value(const Graph& graph, const Value& value) {
  if (value.scheme != CLIKA_DENSE) return true;
  Sizes& sizes = const_cast<Graph&>(graph).sizes;
  int64_t expected = 1;
  for (int32_t i = value.rank - 1; i >= 0; --i) {
    if (value.shape[i] == 1) continue;
    if (value.strides[i] != expected) return false;
    expected = sizes.multiply(expected, value.shape[i]);
  }
  return true;
}

int64_t upper_bytes(const Graph& graph, const Value& value) {
  int64_t elements = 1;
  for (int32_t i = 0; i < value.rank; ++i) {
    int64_t low, high;
    graph.sizes.bounds(value.shape[i], &low, &high);
    elements *= high;
  }
  return (elements * dtype_bits(value.dtype) + 7) / 8;
}

// A value as a kernel table's matcher wants it: only kind, dtype, scheme and rank count there.
clika_value outline(const Value& value) {
  clika_value out{};
  out.kind = CLIKA_TENSOR;
  out.rank = value.rank;
  out.dtype = value.dtype;
  out.scheme = value.scheme;
  out.layout = value.layout;
  return out;
}

struct Outline {
  std::vector<clika_value> inputs, items;
  std::vector<clika_value> outputs;

  Outline(const Graph& graph, const Node& node) {
    items.reserve(node.inputs.size());
    size_t next = 0;
    for (int32_t group : node.groups) {
      if (group < 0) {
        const int32_t id = node.inputs[next++];
        inputs.push_back(id < 0 ? clika_value{} : outline(graph.values[id]));
        continue;
      }
      clika_value sequence{};
      sequence.kind = CLIKA_SEQUENCE;
      sequence.n_items = group;
      sequence.items = items.data() + items.size();
      for (int32_t k = 0; k < group; ++k) items.push_back(outline(graph.values[node.inputs[next++]]));
      inputs.push_back(sequence);
    }
    for (int32_t id : node.outputs) outputs.push_back(outline(graph.values[id]));
  }
};

}  // namespace

Plan::~Plan() {
  for (const Access& access : accesses_) access.storage->drop();
  if (arena_ != nullptr) arena_->drop();
}

int32_t Plan::root(int32_t value) const {
  while (graph_->values[value].alias >= 0) value = graph_->values[value].alias;
  return value;
}

std::unique_ptr<Plan> Plan::compile(std::shared_ptr<Graph> graph, const std::vector<int32_t>& outputs,
                                    ErrorPtr* error) {
  std::unique_ptr<Plan> plan(new Plan());
  // A recording may go on, on another thread too; this program keeps what it was compiled from.
  graph = graph->snapshot();
  plan->graph_ = graph;
  plan->outputs_ = outputs;
  Graph& store = *graph;

  // What the outputs and the writes to captured states need, and nothing else.
  std::vector<uint8_t> live(store.nodes.size(), 0);
  std::vector<int32_t> work;
  const auto need = [&](int32_t value) {
    const int32_t node = store.values[value].node;
    if (node >= 0 && !live[node]) {
      live[node] = 1;
      work.push_back(node);
    }
  };
  for (int32_t value : outputs) need(value);
  for (size_t id = 0; id < store.values.size(); ++id) {
    const Value& value = store.values[id];
    if (value.write && store.values[plan->root(static_cast<int32_t>(id))].kind != ValueKind::kResult) {
      need(static_cast<int32_t>(id));
    }
  }
  while (!work.empty()) {
    const int32_t node = work.back();
    work.pop_back();
    for (int32_t input : store.nodes[node].inputs) {
      if (input >= 0) need(input);
    }
    for (int32_t output : store.nodes[node].outputs) {
      if (store.values[output].alias >= 0) need(store.values[output].alias);
    }
  }

  for (size_t id = 0; id < store.nodes.size(); ++id) {
    if (!live[id]) continue;
    const Node node = store.nodes[id];  // a copy: inserted copies add nodes' values below
    if (node.view) continue;
    Instruction instruction;
    instruction.op = node.op;
    instruction.node = static_cast<int32_t>(id);
    instruction.input_values = node.inputs;
    instruction.groups = node.groups;
    instruction.output_values = node.outputs;
    // A run writes patched values: two plans of one recording must not write the same ones.
    instruction.attrs = node.patches.empty() ? node.attrs : copy_attrs(*node.attrs);
    instruction.patches = node.patches;
    instruction.scalars = node.scalars;
    if (node.python_kernel != nullptr) {
      instruction.code = OpCode::kPython;
      instruction.python_kernel = node.python_kernel;
      plan->program_.push_back(std::move(instruction));
      continue;
    }
    const int32_t device = node.outputs.empty() ? kHostDevice : store.values[node.outputs[0]].device;
    const Backend* backend = backend_by_id(device_backend(device));
    if (backend == nullptr) {
      *error = make_error(CLIKA_INTERNAL, "BACKEND_NOT_LOADED",
                          "compile: no backend is loaded for the device of operator '" + node.op + "'");
      return nullptr;
    }
    std::string why;
    Outline shape(store, node);
    instruction.kernel = choose_kernel(*backend, node.op, shape.inputs.data(), shape.inputs.size(),
                                       shape.outputs.data(), shape.outputs.size(), &why);
    if (instruction.kernel == nullptr) {
      *error = make_error(CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED", node.op + ": " + why);
      return nullptr;
    }
    if (!(instruction.kernel->flags & CLIKA_STRIDED)) {
      for (int32_t& input : instruction.input_values) {
        if (input < 0 || contiguous_value(store, store.values[input])) continue;
        Value copy;
        copy.dtype = store.values[input].dtype;
        copy.device = store.values[input].device;
        copy.rank = store.values[input].rank;
        std::copy_n(store.values[input].shape, CLIKA_MAX_RANK, copy.shape);
        int64_t step = 1;
        for (int32_t i = copy.rank - 1; i >= 0; --i) {
          copy.strides[i] = step;
          step = store.sizes.multiply(step, copy.shape[i]);
        }
        Instruction move;
        move.op = "copy";
        move.node = static_cast<int32_t>(id);
        move.input_values = {input};
        move.groups = {-1};
        move.output_values = {store.add_value(copy)};
        move.attrs = std::make_shared<Attrs>();
        const clika_value from = outline(store.values[input]);
        const clika_value to = outline(copy);
        move.kernel = choose_kernel(*backend, "copy", &from, 1, &to, 1, &why);
        if (move.kernel == nullptr) {
          *error = make_error(CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED", "copy: " + why);
          return nullptr;
        }
        input = move.output_values[0];
        plan->program_.push_back(std::move(move));
      }
    }
    plan->program_.push_back(std::move(instruction));
  }

  *error = plan->find_live();
  if (*error) return nullptr;
  plan->plan_memory();
  // Captured storages: read always, updated where a write's root is one.
  std::vector<uint8_t> written(store.values.size(), 0);
  for (const Instruction& instruction : plan->program_) {
    for (int32_t output : instruction.output_values) {
      if (store.values[output].write) written[plan->root(output)] = 1;
    }
  }
  for (size_t id = 0; id < store.values.size(); ++id) {
    const Value& value = store.values[id];
    if (value.storage == nullptr) continue;
    const AccessKind kind = written[id] ? AccessKind::kUpdate : AccessKind::kRead;
    auto known = std::find_if(plan->accesses_.begin(), plan->accesses_.end(),
                              [&](const Access& access) { return access.storage == value.storage; });
    if (known != plan->accesses_.end()) {
      if (kind == AccessKind::kUpdate) known->kind = kind;
      continue;
    }
    if (written[id] && !value.storage->writable()) {
      *error = invalid("compile: the graph writes to read-only memory");
      return nullptr;
    }
    value.storage->retain();
    plan->accesses_.push_back({value.storage, kind});
  }
  return plan;
}

// Marks the values that a run touches. What was recorded and is needed by nothing has no say in a run; a symbol that
// the run needs must be a size of an input.
ErrorPtr Plan::find_live() {
  const Graph& store = *graph_;
  live_.assign(store.values.size(), 0);
  const auto touch = [&](int32_t value) {
    for (; value >= 0; value = store.values[value].alias) live_[value] = 1;
  };
  std::vector<uint8_t> used(store.sizes.symbol_count(), 0), given(store.sizes.symbol_count(), 0);
  for (int32_t input : store.inputs) {
    touch(input);
    for (int32_t d = 0; d < store.values[input].rank; ++d) {
      const int32_t symbol = store.sizes.as_symbol(store.values[input].shape[d]);
      if (symbol >= 0) given[symbol] = 1;
    }
  }
  for (int32_t output : outputs_) touch(output);
  for (const Instruction& instruction : program_) {
    for (int32_t input : instruction.input_values) touch(input);
    for (int32_t output : instruction.output_values) touch(output);
    for (const Node::Patch& patch : instruction.patches) store.sizes.mark_symbols(patch.size, &used);
  }
  for (size_t id = 0; id < store.values.size(); ++id) {
    if (!live_[id]) continue;
    const Value& value = store.values[id];
    for (int32_t d = 0; d < value.rank; ++d) {
      store.sizes.mark_symbols(value.shape[d], &used);
      store.sizes.mark_symbols(value.strides[d], &used);
    }
    store.sizes.mark_symbols(value.offset, &used);
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] && !given[i]) {
      return invalid("compile: the program needs the size '" + store.sizes.symbol_name(i) +
                     "', and no input gives it a value; record an input that has it as one of its sizes");
    }
  }
  return nullptr;
}

void Plan::plan_memory() {
  const size_t n = graph_->values.size();
  offsets_.assign(n, -1);
  escapes_.assign(n, 0);
  bases_.assign(n, nullptr);
  layouts_.resize(n);
  for (int32_t output : outputs_) escapes_[root(output)] = 1;

  std::vector<int32_t> first(n, -1), last(n, -1);
  const auto use = [&](int32_t value, int32_t at) {
    const int32_t id = root(value);
    if (first[id] < 0) first[id] = at;
    last[id] = at;
  };
  for (size_t at = 0; at < program_.size(); ++at) {
    for (int32_t input : program_[at].input_values) {
      if (input >= 0) use(input, static_cast<int32_t>(at));
    }
    for (int32_t output : program_[at].output_values) use(output, static_cast<int32_t>(at));
  }
  struct Buffer {
    int32_t value;
    int64_t bytes;
  };
  std::vector<Buffer> buffers;
  for (size_t id = 0; id < n; ++id) {
    const Value& value = graph_->values[id];
    if (first[id] < 0 || escapes_[id] || value.kind != ValueKind::kResult || value.alias >= 0) continue;
    const int64_t bytes = (upper_bytes(*graph_, value) + 63) / 64 * 64;
    buffers.push_back({static_cast<int32_t>(id), std::max<int64_t>(bytes, 64)});
  }
  // Largest first, each at the lowest place free during its life.
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const Buffer& a, const Buffer& b) { return a.bytes > b.bytes; });
  std::vector<Buffer> placed;
  arena_bytes_ = 0;
  for (const Buffer& buffer : buffers) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Buffer& other : placed) {
      if (first[other.value] <= last[buffer.value] && first[buffer.value] <= last[other.value]) {
        taken.emplace_back(offsets_[other.value], offsets_[other.value] + other.bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + buffer.bytes <= begin) break;
      at = std::max(at, end);
    }
    offsets_[buffer.value] = at;
    arena_bytes_ = std::max(arena_bytes_, at + buffer.bytes);
    placed.push_back(buffer);
  }
  std::vector<int64_t> alive(program_.size() + 1, 0);
  for (const Buffer& buffer : buffers) {
    for (int32_t at = first[buffer.value]; at <= last[buffer.value]; ++at) alive[at] += buffer.bytes;
  }
  lower_bound_ = *std::max_element(alive.begin(), alive.end());
}

ErrorPtr Plan::bind(const TensorRecord* const* inputs, size_t n_inputs, std::vector<int64_t>* symbols) const {
  const Graph& store = *graph_;
  if (n_inputs != store.inputs.size()) {
    return invalid("run: the plan takes " + std::to_string(store.inputs.size()) + " inputs, got " +
                   std::to_string(n_inputs));
  }
  symbols->assign(store.sizes.symbol_count(), -1);
  for (size_t i = 0; i < n_inputs; ++i) {
    const Value& value = store.values[store.inputs[i]];
    const TensorRecord& given = *inputs[i];
    if (given.storage == nullptr) return invalid("run: input '" + value.name + "' has no bytes (fake or traced)");
    if (given.dtype != value.dtype || given.rank != value.rank || given.scheme != value.scheme ||
        given.device != value.device) {
      return invalid("run: input '" + value.name + "' was recorded with dtype number " +
                     std::to_string(value.dtype) + " and rank " + std::to_string(value.rank) +
                     ", got dtype number " + std::to_string(given.dtype) + " and shape " +
                     shape_text(given.rank, given.shape) + ", or another device");
    }
    if (!given.contiguous()) return invalid("run: input '" + value.name + "' is not contiguous; pass x.contiguous()");
    for (int32_t d = 0; d < value.rank; ++d) {
      if (!is_symbolic(value.shape[d])) {
        if (value.shape[d] != given.shape[d]) {
          return invalid("run: input '" + value.name + "' was recorded with size " +
                         std::to_string(value.shape[d]) + " at dim " + std::to_string(d) + ", got shape " +
                         shape_text(given.rank, given.shape));
        }
        continue;
      }
      const int32_t symbol = store.sizes.as_symbol(value.shape[d]);
      if (symbol < 0) continue;  // an expression: see check_sizes
      int64_t low, high;
      store.sizes.symbol_bounds(symbol, &low, &high);
      int64_t& known = (*symbols)[symbol];
      if (given.shape[d] < low || given.shape[d] > high || (known >= 0 && known != given.shape[d])) {
        return invalid("run: size '" + store.sizes.symbol_name(symbol) + "' of input '" + value.name + "' is " +
                       std::to_string(given.shape[d]) +
                       (known >= 0 ? ", another input says " + std::to_string(known)
                                   : ", outside [" + std::to_string(low) + ", " + std::to_string(high) + "]"));
      }
      known = given.shape[d];
    }
  }
  for (size_t i = 0; i < symbols->size(); ++i) {
    int64_t low, high;
    store.sizes.symbol_bounds(i, &low, &high);
    if ((*symbols)[i] < 0) (*symbols)[i] = low;  // nothing in the program depends on it
  }
  return nullptr;
}

// Sizes of inputs that are expressions, such as batch + 1, once the symbols are known.
ErrorPtr Plan::check_sizes(const TensorRecord* const* inputs) const {
  const Graph& store = *graph_;
  for (size_t i = 0; i < store.inputs.size(); ++i) {
    const Value& value = store.values[store.inputs[i]];
    const int64_t* expected = layouts_[store.inputs[i]].shape;
    for (int32_t d = 0; d < value.rank; ++d) {
      if (inputs[i]->shape[d] == expected[d]) continue;
      return invalid("run: input '" + value.name + "' has size " + std::to_string(inputs[i]->shape[d]) + " at dim " +
                     std::to_string(d) + ", and " + store.sizes.text(value.shape[d]) + " is " +
                     std::to_string(expected[d]) + " in this run");
    }
  }
  return nullptr;
}

void Plan::place(int32_t id, clika_value* out) const {
  const Value& value = graph_->values[id];
  const Layout& layout = layouts_[id];
  char* base = bases_[root(id)];
  out->data = base == nullptr ? nullptr : base + layout.offset;
  out->shape = layout.shape;
  out->strides = value.scheme == CLIKA_DENSE ? layout.strides : nullptr;
  out->rank = value.rank;
  out->dtype = value.dtype;
  out->scheme = value.scheme;
  out->layout = value.layout;
  out->kind = CLIKA_TENSOR;
  out->n_items = 0;
  out->items = nullptr;
  out->nbytes = layout.nbytes;
}

ErrorPtr Plan::resize(const std::vector<int64_t>& symbols) {
  std::vector<int64_t> expressions;
  graph_->sizes.evaluate(symbols, &expressions);
  for (size_t id = 0; id < graph_->values.size(); ++id) {
    if (!live_[id]) continue;
    const Value& value = graph_->values[id];
    int64_t shape[CLIKA_MAX_RANK];
    long double total = 1;
    bool negative = false;
    for (int32_t d = 0; d < value.rank; ++d) {
      shape[d] = Sizes::value(value.shape[d], expressions);
      negative = negative || shape[d] < 0;
      total *= static_cast<long double>(std::max<int64_t>(shape[d], 1));
    }
    if (negative || total > static_cast<long double>(kMaxElements)) {
      return invalid("run: with these sizes a value of the plan has shape " + shape_text(value.rank, shape) +
                     (negative ? ", and sizes must be >= 0" : ", more elements than can be addressed"));
    }
  }
  ++counters_.resizes;
  symbols_ = symbols;
  for (size_t id = 0; id < graph_->values.size(); ++id) {
    if (!live_[id]) continue;
    const Value& value = graph_->values[id];
    Layout& layout = layouts_[id];
    for (int32_t d = 0; d < value.rank; ++d) {
      layout.shape[d] = Sizes::value(value.shape[d], expressions);
      layout.strides[d] = Sizes::value(value.strides[d], expressions);
    }
    layout.offset = Sizes::value(value.offset, expressions) * dtype_bits(value.dtype) / 8;
    layout.nbytes = value.storage != nullptr
                        ? static_cast<int64_t>(value.storage->nbytes()) - value.storage_offset
                        : dense_bytes(value.rank, layout.shape, value.dtype);
  }
  for (Instruction& instruction : program_) {
    for (const Node::Patch& patch : instruction.patches) {
      auto* values = const_cast<int64_t*>(instruction.attrs->items[patch.attr].v.ints);
      values[patch.element] = Sizes::value(patch.size, expressions);
    }
    instruction.inputs.assign(instruction.groups.size(), clika_value{});
    instruction.items.assign(instruction.input_values.size(), clika_value{});
    instruction.outputs.assign(instruction.output_values.size(), clika_value{});
    size_t next = 0;
    for (size_t i = 0; i < instruction.groups.size(); ++i) {
      const int32_t group = instruction.groups[i];
      if (group < 0) {
        ++next;
        continue;
      }
      instruction.inputs[i].kind = CLIKA_SEQUENCE;
      instruction.inputs[i].n_items = group;
      instruction.inputs[i].items = instruction.items.data() + next;
      next += static_cast<size_t>(group);
    }
    instruction.scalar_values.resize(instruction.scalars.size());
  }
  return nullptr;
}

ErrorPtr Plan::execute(const clika_scalar* scalars) {
  auto polled = std::chrono::steady_clock::now();
  for (size_t pc = 0; pc < program_.size();) {
    Instruction& instruction = program_[pc];
    ++counters_.instructions;
    size_t next = 0;
    for (size_t i = 0; i < instruction.groups.size(); ++i) {
      const int32_t group = instruction.groups[i];
      if (group < 0) {
        const int32_t id = instruction.input_values[next++];
        if (id >= 0) place(id, &instruction.inputs[i]);
        continue;
      }
      for (int32_t k = 0; k < group; ++k, ++next) place(instruction.input_values[next], &instruction.items[next]);
    }
    for (size_t i = 0; i < instruction.output_values.size(); ++i) {
      place(instruction.output_values[i], &instruction.outputs[i]);
    }
    for (size_t i = 0; i < instruction.scalars.size(); ++i) {
      const ScalarRef& ref = instruction.scalars[i];
      instruction.scalar_values[i] = ref.input >= 0 ? scalars[ref.input] : ref.constant;
    }
    if (instruction.code == OpCode::kJump) {
      pc = static_cast<size_t>(instruction.target);
      continue;
    }
    if (instruction.code == OpCode::kBranch) {
      pc = *static_cast<const uint8_t*>(instruction.inputs[0].data) ? pc + 1
                                                                    : static_cast<size_t>(instruction.target);
      continue;
    }
    clika_call call{};
    call.n_inputs = static_cast<uint32_t>(instruction.inputs.size());
    call.n_outputs = static_cast<uint32_t>(instruction.outputs.size());
    call.n_attrs = static_cast<uint32_t>(instruction.attrs->items.size());
    call.n_scalars = static_cast<uint32_t>(instruction.scalar_values.size());
    call.inputs = instruction.inputs.data();
    call.outputs = instruction.outputs.data();
    call.attrs = instruction.attrs->items.data();
    call.scalars = instruction.scalar_values.data();
    CallContext context;
    ErrorPtr error = instruction.code == OpCode::kPython
                         ? python_call(instruction.python_kernel, &call, instruction.op.c_str())
                         : run_kernel(*instruction.kernel, call, context);
    if (error) return error;
    ++pc;
    if ((pc & 15) == 0 && poll_signals != nullptr) {
      const auto now = std::chrono::steady_clock::now();
      if (now - polled > std::chrono::milliseconds(20)) {
        polled = now;
        if (poll_signals()) return make_error(CLIKA_UNAVAILABLE, "CANCELLED", "run: cancelled");
      }
    }
  }
  return nullptr;
}

ErrorPtr Plan::run(const TensorRecord* const* inputs, size_t n_inputs, const clika_scalar* scalars,
                   size_t n_scalars, std::vector<TensorRecord>* results) {
  const Graph& store = *graph_;
  if (n_scalars != store.scalar_inputs.size()) {
    return invalid("run: the plan takes " + std::to_string(store.scalar_inputs.size()) + " scalars, got " +
                   std::to_string(n_scalars));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<int64_t> symbols;
  if (ErrorPtr error = bind(inputs, n_inputs, &symbols)) return error;
  if (symbols != symbols_ || counters_.resizes == 0) {
    if (ErrorPtr error = resize(symbols)) return error;
  }
  if (ErrorPtr error = check_sizes(inputs)) return error;
  if (arena_ == nullptr && arena_bytes_ != 0) {
    arena_ = Storage::create(host_allocator(), static_cast<size_t>(arena_bytes_), kHostDevice, false);
    if (arena_ == nullptr || arena_->data() == nullptr) {
      if (arena_ != nullptr) arena_->drop();
      arena_ = nullptr;
      return make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY",
                        "run: cannot allocate " + std::to_string(arena_bytes_) + " bytes for the plan");
    }
  }
  // Where every root's bytes are in this run.
  std::vector<Storage*> fresh(store.values.size(), nullptr);
  ErrorPtr failed;
  for (size_t id = 0; id < store.values.size() && !failed; ++id) {
    const Value& value = store.values[id];
    if (value.alias >= 0) continue;
    if (value.kind == ValueKind::kInput) {
      bases_[id] = inputs[value.index]->data();
    } else if (value.storage != nullptr) {
      if (value.storage->data() == nullptr) {
        value.storage->wait_for_read();
        if (!value.storage->allocate()) failed = make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY", "run: out of memory");
      }
      bases_[id] = static_cast<char*>(value.storage->data()) + value.storage_offset;
    } else if (escapes_[id]) {
      const auto bytes = static_cast<size_t>(std::max<int64_t>(layouts_[id].nbytes, 1));
      fresh[id] = Storage::create(device_allocator(value.device), bytes, value.device, false);
      if (fresh[id] == nullptr || fresh[id]->data() == nullptr) {
        failed = make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY",
                            "run: cannot allocate " + std::to_string(bytes) + " bytes for an output");
      } else {
        bases_[id] = static_cast<char*>(fresh[id]->data());
      }
    } else if (offsets_[id] >= 0) {
      bases_[id] = static_cast<char*>(arena_->data()) + offsets_[id];
    }
  }
  if (!failed) {
    std::vector<Access> accesses(accesses_);
    for (size_t i = 0; i < n_inputs; ++i) accesses.push_back({inputs[i]->storage, AccessKind::kRead});
    Lane& lane = Lane::current();
    uint64_t sequence = lane.begin_inline(accesses.data(), accesses.size());
    while (sequence == 0) {
      lane.synchronize();
      for (const Access& access : accesses) {
        access.kind == AccessKind::kRead ? access.storage->wait_for_read() : access.storage->wait_for_write();
      }
      sequence = lane.begin_inline(accesses.data(), accesses.size());
    }
    failed = first_poison(accesses.data(), accesses.size());
    if (!failed) failed = execute(scalars);
    // A failed write poisons what it may have left half written. Cancelling is the caller's own wish: the
    // rows that the run was to write are unspecified, nothing else changed.
    if (failed && failed->code != "CANCELLED") {
      for (const Access& access : accesses_) {
        if (access.kind == AccessKind::kUpdate) access.storage->set_poison(failed);
      }
    }
    lane.end_inline(sequence);
    ++counters_.runs;
  }
  if (!failed) {
    results->clear();
    for (int32_t id : outputs_) {
      const Value& value = store.values[id];
      const int32_t base = root(id);
      TensorRecord record;
      record.rank = value.rank;
      record.dtype = value.dtype;
      record.scheme = value.scheme;
      record.layout = value.layout;
      record.device = value.device;
      std::copy_n(layouts_[id].shape, CLIKA_MAX_RANK, record.shape);
      std::copy_n(layouts_[id].strides, CLIKA_MAX_RANK, record.strides);
      record.offset = layouts_[id].offset;
      if (fresh[base] != nullptr) {
        record.storage = fresh[base];
      } else if (store.values[base].kind == ValueKind::kInput) {
        record.storage = inputs[store.values[base].index]->storage;
        record.offset += inputs[store.values[base].index]->offset;
      } else {
        record.storage = store.values[base].storage;
        record.offset += store.values[base].storage_offset;
      }
      record.storage->retain();
      results->push_back(record);
    }
  }
  for (Storage* storage : fresh) {
    if (storage != nullptr) storage->drop();
  }
  return failed;
}

}  // namespace clika
