#include "plan.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "dispatch.hpp"

namespace clika {

ErrorPtr (*Plan::python_call)(void*, const clika_call*, const char*) = nullptr;
bool (*Plan::poll_signals)() = nullptr;
std::string (*Plan::kind_text)(int32_t, int32_t) = nullptr;

namespace {

constexpr int64_t kCloseBound = 1 << 20;  // a symbol up to this has an upper bound worth planning for

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
  for (const Arena& arena : arenas_) {
    if (arena.storage != nullptr) arena.storage->drop();
  }
}

int64_t Plan::total(const std::vector<int64_t>& bytes) {
  int64_t sum = 0;
  for (int64_t one : bytes) sum += one;
  return sum;
}

size_t Plan::arena_of(int32_t device) const {
  return static_cast<size_t>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
}

namespace {
int32_t root_of(const Graph& graph, int32_t value) {
  while (graph.values[value].alias >= 0) value = graph.values[value].alias;
  return value;
}
}  // namespace

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
  std::unordered_map<int32_t, std::vector<int32_t>> writers;  // by the root whose bytes they write, also through views
  for (size_t id = 0; id < store.values.size(); ++id) {
    if (!store.values[id].write) continue;
    writers[root_of(store, static_cast<int32_t>(id))].push_back(store.values[id].node);
  }
  const auto keep = [&](int32_t node) {
    if (node >= 0 && !live[node]) {
      live[node] = 1;
      work.push_back(node);
    }
  };
  const auto need = [&](int32_t value) {
    keep(store.values[value].node);
    const auto found = writers.find(root_of(store, value));
    if (found == writers.end()) return;
    for (int32_t node : found->second) keep(node);
    writers.erase(found);
  };
  for (int32_t value : outputs) need(value);
  for (size_t id = 0; id < store.values.size(); ++id) {
    const Value& value = store.values[id];
    if (value.write && store.values[root_of(store, static_cast<int32_t>(id))].kind != ValueKind::kResult) {
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
    for (const ScalarRef& scalar : node.scalars) {
      instruction.scalar_values.push_back(scalar.constant);
      instruction.given_scalars = instruction.given_scalars || scalar.input >= 0;
    }
    if (node.move || node.control) {
      instruction.code = node.move ? OpCode::kMove : node.control->code;
      instruction.control = node.control;
      plan->program_.push_back(std::move(instruction));
      continue;
    }
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
    instruction.device = device;
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
        move.device = device;
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

  const size_t n = store.values.size();
  plan->roots_.resize(n);
  for (size_t id = 0; id < n; ++id) plan->roots_[id] = root_of(store, static_cast<int32_t>(id));
  *error = plan->find_live();
  if (*error) return nullptr;
  for (size_t id = 0; id < n; ++id) {
    if (plan->live_[id] && plan->roots_[id] == static_cast<int32_t>(id)) {
      plan->root_list_.push_back(static_cast<int32_t>(id));
      const int32_t device = store.values[id].device;
      if (plan->arena_of(device) == plan->devices_.size()) plan->devices_.push_back(device);
    }
  }
  plan->arenas_.resize(plan->devices_.size());
  plan->bases_.assign(n, nullptr);
  plan->holders_.assign(n, nullptr);
  plan->escapes_.assign(n, 0);
  for (int32_t output : outputs) plan->escapes_[plan->root(output)] = 1;
  plan->first_.assign(n, -1);
  plan->last_.assign(n, -1);
  for (size_t at = 0; at < plan->program_.size(); ++at) {
    const auto use = [&](int32_t value) {
      if (value < 0) return;
      const int32_t id = plan->root(value);
      if (plan->first_[id] < 0) plan->first_[id] = static_cast<int32_t>(at);
      plan->last_[id] = static_cast<int32_t>(at);
    };
    for (int32_t input : plan->program_[at].input_values) use(input);
    for (int32_t output : plan->program_[at].output_values) use(output);
  }
  // Where sizes are bounded closely, memory is planned once.
  plan->fixed_memory_ = true;
  for (size_t i = 0; i < store.sizes.symbol_count(); ++i) {
    int64_t low, high;
    store.sizes.symbol_bounds(i, &low, &high);
    if (high > kCloseBound) plan->fixed_memory_ = false;
  }
  if (plan->fixed_memory_) plan->plan_memory(plan->upper_sizes(), &plan->fixed_offsets_, &plan->arena_bytes_);
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
  // A body runs inside the instruction: what it captured is read and written by this plan.
  for (const Instruction& instruction : plan->program_) {
    if (!instruction.control) continue;
    for (const auto& body : instruction.control->bodies) {
      for (const Access& access : body->accesses_) {
        auto known = std::find_if(plan->accesses_.begin(), plan->accesses_.end(),
                                  [&](const Access& other) { return access.storage == other.storage; });
        if (known == plan->accesses_.end()) {
          access.storage->retain();
          plan->accesses_.push_back(access);
        } else if (access.kind == AccessKind::kUpdate) {
          known->kind = access.kind;
        }
      }
    }
  }
  plan->find_graph_device();
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

// Bytes of every root at the upper bounds of the symbols; 0 for one that no arena holds.
std::vector<int64_t> Plan::upper_sizes() const {
  std::vector<int64_t> bytes(graph_->values.size(), 0);
  for (int32_t id : root_list_) bytes[id] = upper_bytes(*graph_, graph_->values[id]);
  return bytes;
}

// Places buffers in the order given, each at the lowest place (or in the tightest gap) free during its life; gives
// the bytes that they need together.
int64_t Plan::place_buffers(const std::vector<Buffer>& order, bool tight, std::vector<int64_t>* offsets) const {
  // Placed buffers by the instructions they live through, so that a buffer meets only its contemporaries.
  std::vector<std::vector<int32_t>> living(program_.size());
  std::vector<std::pair<int64_t, int64_t>> taken;
  std::vector<int32_t> met(order.size(), -1);
  int64_t total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Buffer& buffer = order[i];
    taken.clear();
    for (int32_t at = first_[buffer.value]; at <= last_[buffer.value]; ++at) {
      for (int32_t other : living[at]) {
        if (met[other] == static_cast<int32_t>(i)) continue;
        met[other] = static_cast<int32_t>(i);
        const int64_t begin = (*offsets)[order[other].value];
        taken.emplace_back(begin, begin + order[other].bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    int64_t end_of_taken = 0, best = -1, best_gap = 0;
    for (const auto& [begin, end] : taken) {
      const int64_t gap = begin - end_of_taken;
      if (gap >= buffer.bytes && (best < 0 || (tight && gap < best_gap))) {
        best = end_of_taken;
        best_gap = gap;
      }
      end_of_taken = std::max(end_of_taken, end);
    }
    if (best < 0) best = end_of_taken;
    (*offsets)[buffer.value] = best;
    total = std::max(total, best + buffer.bytes);
    for (int32_t at = first_[buffer.value]; at <= last_[buffer.value]; ++at) {
      living[at].push_back(static_cast<int32_t>(i));
    }
  }
  return total;
}

void Plan::plan_memory(const std::vector<int64_t>& bytes, std::vector<int64_t>* offsets, std::vector<int64_t>* totals) {
  offsets->assign(graph_->values.size(), -1);
  totals->assign(devices_.size(), 0);
  lower_bound_ = 0;
  for (size_t i = 0; i < devices_.size(); ++i) plan_device(devices_[i], bytes, offsets, &(*totals)[i]);
}

// Tries a few orders, and puts what made the peak first, until the lower bound is near.
void Plan::plan_device(int32_t device, const std::vector<int64_t>& bytes, std::vector<int64_t>* offsets,
                       int64_t* total) {
  std::vector<Buffer> buffers;
  std::vector<int64_t> change(program_.size() + 1, 0);
  for (int32_t id : root_list_) {
    const Value& value = graph_->values[id];
    if (first_[id] < 0 || escapes_[id] || value.kind != ValueKind::kResult || value.device != device) continue;
    buffers.push_back({id, std::max<int64_t>((bytes[id] + 63) / 64 * 64, 64)});
    change[first_[id]] += buffers.back().bytes;
    change[last_[id] + 1] -= buffers.back().bytes;
  }
  int64_t least = 0;
  int64_t alive = 0;
  for (int64_t step : change) {
    alive += step;
    least = std::max(least, alive);
  }
  lower_bound_ += least;
  const auto life = [&](const Buffer& buffer) { return static_cast<int64_t>(last_[buffer.value] - first_[buffer.value]); };
  const auto near = [&](int64_t size) { return size <= least + least / 50; };
  std::vector<int64_t> found(*offsets);
  *total = std::numeric_limits<int64_t>::max();
  const auto attempt = [&](const std::vector<Buffer>& order, bool tight) {
    const int64_t size = place_buffers(order, tight, &found);
    if (size < *total) {
      *total = size;
      *offsets = found;
    }
    return size;
  };
  std::vector<Buffer> best = buffers;
  for (int kind = 0; kind < 3 && (kind == 0 || !near(*total)); ++kind) {
    std::vector<Buffer> order = buffers;
    std::stable_sort(order.begin(), order.end(), [&](const Buffer& a, const Buffer& b) {
      if (kind == 0) return a.bytes > b.bytes;
      if (kind == 1) return static_cast<double>(a.bytes) * (life(a) + 1) > static_cast<double>(b.bytes) * (life(b) + 1);
      return life(a) > life(b);
    });
    for (const bool tight : {false, true}) {
      const int64_t before = *total;
      if (!near(*total) && attempt(order, tight) < before) best = order;
    }
  }
  const size_t tries = std::min<size_t>(200, 400000 / (buffers.size() + 1));
  uint32_t drawn = 1;
  for (size_t k = 0; k < tries && !near(*total); ++k) {
    const int64_t size = attempt(best, k % 2 != 0);
    auto peak = std::find_if(best.begin(), best.end(),
                             [&](const Buffer& buffer) { return found[buffer.value] + buffer.bytes == size; });
    // Forward by some way, the front at first: the same place twice would end the search.
    drawn = drawn * 1664525u + 1013904223u;
    const auto way = static_cast<size_t>(peak - best.begin());
    const size_t to = k < 8 || way == 0 ? 0 : drawn / 65536 % way;
    std::rotate(best.begin() + static_cast<std::ptrdiff_t>(to), peak, peak + 1);
    if (way == 0 && best.size() > 2) std::swap(best[1], best[2 + drawn / 65536 % (best.size() - 2)]);
  }
  if (buffers.empty()) *total = 0;
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
    if (given.scheme != 0 && value.scheme == 0) {
      return invalid("run: input '" + value.name + "' is a packed weight, and the graph was recorded with a dense tensor");
    }
    if (given.layout != value.layout) {
      return invalid("run: input '" + value.name + "' is a weight in its backend's own layout; pass unpack_weight() of it");
    }
    if (given.dtype != value.dtype || given.rank != value.rank || given.scheme != value.scheme ||
        given.device != value.device) {
      return invalid("run: input '" + value.name + "' was recorded with " + kind_text(value.dtype, value.device) +
                     " and rank " + std::to_string(value.rank) + ", got " + kind_text(given.dtype, given.device) +
                     " and shape " + shape_text(given.rank, given.shape));
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
ErrorPtr Plan::check_sizes(const TensorRecord* const* inputs, const Shape& shape) const {
  const Graph& store = *graph_;
  for (size_t i = 0; i < store.inputs.size(); ++i) {
    const Value& value = store.values[store.inputs[i]];
    const int64_t* expected = shape.layouts[store.inputs[i]].shape;
    for (int32_t d = 0; d < value.rank; ++d) {
      if (inputs[i]->shape[d] == expected[d]) continue;
      return invalid("run: input '" + value.name + "' has size " + std::to_string(inputs[i]->shape[d]) + " at dim " +
                     std::to_string(d) + ", and " + store.sizes.text(value.shape[d]) + " is " +
                     std::to_string(expected[d]) + " in this run");
    }
  }
  return nullptr;
}

// A value as kernels see it, but for its address.
void Plan::describe(int32_t id, const Shape& shape, clika_value* out) const {
  const Value& value = graph_->values[id];
  const Layout& layout = shape.layouts[id];
  out->data = nullptr;
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

Plan::Shape* Plan::known_shape(const std::vector<int64_t>& symbols) {
  for (const auto& known : shapes_) {
    if (known->symbols != symbols) continue;
    known->used = counters_.runs;
    return known.get();
  }
  return nullptr;
}

// The class of these symbol values, made on first need.
ErrorPtr Plan::shape_for(const std::vector<int64_t>& symbols, Shape** out) {
  *out = known_shape(symbols);
  if (*out != nullptr) return nullptr;
  const Graph& store = *graph_;
  std::vector<int64_t> expressions;
  store.sizes.evaluate(symbols, &expressions);
  auto made = std::make_unique<Shape>();
  made->symbols = symbols;
  made->used = counters_.runs;
  made->layouts.resize(store.values.size());
  for (size_t id = 0; id < store.values.size(); ++id) {
    if (!live_[id]) continue;
    const Value& value = store.values[id];
    Layout& layout = made->layouts[id];
    long double total = 1;
    bool negative = false;
    for (int32_t d = 0; d < value.rank; ++d) {
      layout.shape[d] = Sizes::value(value.shape[d], expressions);
      layout.strides[d] = Sizes::value(value.strides[d], expressions);
      negative = negative || layout.shape[d] < 0;
      total *= static_cast<long double>(std::max<int64_t>(layout.shape[d], 1));
    }
    if (negative || total > static_cast<long double>(kMaxElements)) {
      return invalid("run: with these sizes a value of the plan has shape " + shape_text(value.rank, layout.shape) +
                     (negative ? ", and sizes must be >= 0" : ", more elements than can be addressed"));
    }
    layout.offset = Sizes::value(value.offset, expressions) * dtype_bits(value.dtype) / 8;
    layout.nbytes = value.storage != nullptr
                        ? static_cast<int64_t>(value.storage->nbytes()) - value.storage_offset
                        : dense_bytes(value.rank, layout.shape, value.dtype);
    if (roots_[id] == static_cast<int32_t>(id) || value.scheme != 0) continue;
    // A view whose place depends on sizes: what it shows lies within the bytes that it shares.
    long double last = static_cast<long double>(Sizes::value(value.offset, expressions));
    bool empty = last < 0;
    for (int32_t d = 0; d < value.rank; ++d) {
      empty = empty || layout.shape[d] == 0;
      last += static_cast<long double>(layout.shape[d] - 1) * static_cast<long double>(layout.strides[d]);
    }
    if (layout.offset < 0 ||
        (!empty && (last + 1) * dtype_bits(value.dtype) / 8 > static_cast<long double>(made->layouts[roots_[id]].nbytes))) {
      return invalid("run: with these sizes a view of shape " + shape_text(value.rank, layout.shape) +
                     " does not lie within the tensor that it is of");
    }
  }
  ++counters_.resizes;
  if (fixed_memory_) {
    made->offsets = fixed_offsets_;
    made->arena_bytes = arena_bytes_;
  } else {
    std::vector<int64_t> bytes(store.values.size(), 0);
    for (int32_t id : root_list_) bytes[id] = made->layouts[id].nbytes;
    plan_memory(bytes, &made->offsets, &made->arena_bytes);
  }
  made->operands.resize(program_.size());
  for (size_t at = 0; at < program_.size(); ++at) {
    const Instruction& instruction = program_[at];
    for (const Node::Patch& patch : instruction.patches) {
      made->patched.push_back(Sizes::value(patch.size, expressions));
    }
    Shape::Operands& operands = made->operands[at];
    operands.inputs.assign(instruction.groups.size(), clika_value{});
    operands.items.assign(instruction.input_values.size(), clika_value{});
    operands.outputs.assign(instruction.output_values.size(), clika_value{});
    const auto place = [&](int32_t id, clika_value* operand) {
      if (id < 0) return;
      describe(id, *made, operand);
      const int32_t base = root(id);
      const bool rests = made->offsets[base] >= 0 || store.values[base].storage != nullptr;
      (rests ? made->resting : made->moving).push_back({operand, base, made->layouts[id].offset});
    };
    size_t next = 0;
    for (size_t i = 0; i < instruction.groups.size(); ++i) {
      const int32_t group = instruction.groups[i];
      if (group < 0) {
        place(instruction.input_values[next++], &operands.inputs[i]);
        continue;
      }
      operands.inputs[i].kind = CLIKA_SEQUENCE;
      operands.inputs[i].n_items = group;
      operands.inputs[i].items = operands.items.data() + next;
      for (int32_t k = 0; k < group; ++k, ++next) place(instruction.input_values[next], &operands.items[next]);
    }
    for (size_t i = 0; i < instruction.output_values.size(); ++i) {
      place(instruction.output_values[i], &operands.outputs[i]);
    }
  }
  if (shapes_.size() >= kMaxClasses) {
    shapes_.erase(std::min_element(shapes_.begin(), shapes_.end(),
                                   [](const auto& a, const auto& b) { return a->used < b->used; }));
    ++counters_.evictions;
  }
  *out = made.get();
  shapes_.push_back(std::move(made));
  return nullptr;
}

// Binds inputs, finds the class, gives every root its bytes for this run. `fresh` owns what leaves as an output.
ErrorPtr Plan::prepare(const TensorRecord* const* inputs, size_t n_inputs, Shape** shape,
                       std::vector<Storage*>* fresh) {
  const Graph& store = *graph_;
  std::vector<int64_t> symbols;
  if (ErrorPtr error = bind(inputs, n_inputs, &symbols)) return error;
  if (ErrorPtr error = shape_for(symbols, shape)) return error;
  Shape& current = **shape;
  if (ErrorPtr error = check_sizes(inputs, current)) return error;
  symbols_ = current.symbols;
  for (size_t i = 0; i < devices_.size(); ++i) {
    Arena& arena = arenas_[i];
    const int64_t bytes = current.arena_bytes[i];
    if (bytes == 0 || (arena.storage != nullptr && arena.size >= bytes)) continue;
    if (arena.storage != nullptr) arena.storage->drop();
    arena.storage = Storage::create(device_allocator(devices_[i]), static_cast<size_t>(bytes), devices_[i], false);
    if (arena.storage == nullptr || arena.storage->data() == nullptr) {
      if (arena.storage != nullptr) arena.storage->drop();
      arena = Arena{};
      return out_of_memory("run", bytes, devices_[i]);
    }
    arena.size = bytes;
  }
  arena_bytes_ = current.arena_bytes;
  size_t patch = 0;
  for (Instruction& instruction : program_) {
    for (const Node::Patch& place : instruction.patches) {
      const_cast<int64_t*>(instruction.attrs->items[place.attr].v.ints)[place.element] = current.patched[patch++];
    }
  }
  std::vector<const char*> places = arena_places();
  bool rest = !current.placed || current.rested != places;
  for (int32_t id : root_list_) {
    const Value& value = store.values[id];
    if (value.kind == ValueKind::kInput) {
      bases_[id] = inputs[value.index]->data();
      holders_[id] = inputs[value.index]->storage;
    } else if (value.storage != nullptr) {
      if (value.storage->data() == nullptr) {
        value.storage->wait_for_read();
        if (!value.storage->allocate()) return make_error(CLIKA_INTERNAL, "OUT_OF_MEMORY", "run: out of memory");
      }
      char* data = static_cast<char*>(value.storage->data()) + value.storage_offset;
      rest = rest || bases_[id] != data;
      bases_[id] = data;
      holders_[id] = value.storage;
    } else if (escapes_[id]) {
      const auto bytes = static_cast<size_t>(std::max<int64_t>(current.layouts[id].nbytes, 1));
      Storage* made = Storage::create(device_allocator(value.device), bytes, value.device, false);
      if (made != nullptr) fresh->push_back(made);
      if (made == nullptr || made->data() == nullptr) {
        return out_of_memory("run", static_cast<int64_t>(bytes), value.device);
      }
      bases_[id] = static_cast<char*>(made->data());
      holders_[id] = made;
    } else if (current.offsets[id] >= 0) {
      const Arena& arena = arenas_[arena_of(value.device)];
      bases_[id] = static_cast<char*>(arena.storage->data()) + current.offsets[id];
      holders_[id] = arena.storage;
    }
  }
  if (rest) {
    for (const Shape::Moving& operand : current.resting) operand.value->data = bases_[operand.root] + operand.offset;
    current.rested = places;
    current.placed = true;
  }
  for (const Shape::Moving& operand : current.moving) {
    operand.value->data = bases_[operand.root] == nullptr ? nullptr : bases_[operand.root] + operand.offset;
  }
  return nullptr;
}

std::vector<const char*> Plan::arena_places() const {
  std::vector<const char*> places;
  for (const Arena& arena : arenas_) {
    places.push_back(arena.storage == nullptr ? nullptr : static_cast<const char*>(arena.storage->data()));
  }
  return places;
}

void Plan::profile(bool on) {
  std::lock_guard<std::mutex> lock(mutex_);
  profiling_ = on;
  profiled_runs_ = 0;
  nanoseconds_.assign(program_.size(), 0);
}

ErrorPtr Plan::execute(Shape& shape, const clika_scalar* scalars, const Issue& issue) {
  auto polled = std::chrono::steady_clock::now();
  for (size_t at = 0; at < program_.size(); ++at) {
    Instruction& instruction = program_[at];
    Shape::Operands& operands = shape.operands[at];
    const auto started = profiling_ ? std::chrono::steady_clock::now() : polled;
    if (instruction.given_scalars) {
      for (size_t i = 0; i < instruction.scalars.size(); ++i) {
        const ScalarRef& ref = instruction.scalars[i];
        if (ref.input >= 0) instruction.scalar_values[i] = scalars[ref.input];
      }
    }
    ErrorPtr error;
    if (instruction.code == OpCode::kCall || instruction.code == OpCode::kPython) {
      clika_call call{};
      call.n_inputs = static_cast<uint32_t>(operands.inputs.size());
      call.n_outputs = static_cast<uint32_t>(operands.outputs.size());
      call.n_attrs = static_cast<uint32_t>(instruction.attrs->items.size());
      call.n_scalars = static_cast<uint32_t>(instruction.scalar_values.size());
      call.inputs = operands.inputs.data();
      call.outputs = operands.outputs.data();
      call.attrs = instruction.attrs->items.data();
      call.scalars = instruction.scalar_values.data();
      CallContext context;
      context.device = instruction.device;
      context.stream = issue.stream;
      context.pool = issue.scratch;
      error = instruction.code == OpCode::kPython
                  ? python_call(instruction.python_kernel, &call, instruction.op.c_str())
                  : run_kernel(*instruction.kernel, call, context);
    } else if (instruction.code == OpCode::kMove) {
      TensorRecord from = record_of(instruction.input_values[0], shape);
      TensorRecord to = record_of(instruction.output_values[0], shape);
      error = copy_device(from, &to);
    } else {
      error = run_control(instruction, shape, at);
    }
    if (!error && issue.synchronous) error = synchronize_device(instruction.device);
    if (error) return error;
    if (profiling_) {
      nanoseconds_[at] += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                               started).count();
    }
    if ((at & 15) == 15 && poll_signals != nullptr && issue.stream == nullptr) {
      const auto now = std::chrono::steady_clock::now();
      if (now - polled > std::chrono::milliseconds(20)) {
        polled = now;
        if (poll_signals()) return make_error(CLIKA_UNAVAILABLE, "CANCELLED", "run: cancelled");
      }
    }
  }
  counters_.instructions += program_.size();
  profiled_runs_ += profiling_;
  return nullptr;
}

// A value of this run as a tensor; borrows its storage.
TensorRecord Plan::record_of(int32_t id, const Shape& shape) const {
  const Value& value = graph_->values[id];
  const int32_t base = root(id);
  TensorRecord record;
  record.rank = value.rank;
  record.dtype = value.dtype;
  record.scheme = value.scheme;
  record.layout = value.layout;
  record.device = value.device;
  std::copy_n(shape.layouts[id].shape, CLIKA_MAX_RANK, record.shape);
  std::copy_n(shape.layouts[id].strides, CLIKA_MAX_RANK, record.strides);
  record.storage = holders_[base];
  record.offset = bases_[base] - static_cast<char*>(holders_[base]->data()) + shape.layouts[id].offset;
  return record;
}

namespace {

void drop(std::vector<TensorRecord>* records) {
  for (TensorRecord& record : *records) record.storage->drop();
  records->clear();
}

// A number in a storage of its own, as an input of a body.
TensorRecord number(int32_t dtype, int64_t value, Storage* storage, ErrorPtr* error) {
  TensorRecord record;
  record.rank = 0;
  record.dtype = dtype;
  record.device = storage->device();
  record.storage = storage;
  record.offset = 0;
  const uint8_t flag = value != 0;
  ErrorPtr failed = dtype == CLIKA_BOOL ? copy_in(record.device, storage->data(), &flag, 1)
                                        : copy_in(record.device, storage->data(), &value, 8);
  if (failed && !*error) *error = failed;
  return record;
}

// A number that decides what an instruction does: read on the host, wherever it lies.
template <class T>
T read_number(int32_t device, const void* data, ErrorPtr* error) {
  T value{};
  ErrorPtr failed = copy_out(device, &value, data, sizeof(T));
  if (failed && !*error) *error = failed;
  return value;
}

ErrorPtr copy_into(const TensorRecord& from, const TensorRecord& to, int64_t to_bytes, const char* what) {
  const int64_t bytes = dense_bytes(from.rank, from.shape, from.dtype);
  if (from.dtype != to.dtype || bytes != to_bytes || !from.contiguous()) {
    return make_error(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                      std::string("run: a body gives ") + what + " of " + std::to_string(bytes) + " bytes where " +
                          std::to_string(to_bytes) + " are expected, or no contiguous one");
  }
  TensorRecord target = to;
  return copy_device(from, &target);
}

}  // namespace

// If, Loop and Scan: bodies are plans that run inside this one, over tensors of its memory.
ErrorPtr Plan::run_control(Instruction& instruction, Shape& shape, size_t at) {
  const Control& control = *instruction.control;
  const Shape::Operands& operands = shape.operands[at];
  const auto given = [&](size_t i) { return record_of(instruction.input_values[i], shape); };
  const auto device_of = [&](size_t i) { return graph_->values[instruction.input_values[i]].device; };
  const auto deliver = [&](size_t i, const TensorRecord& from, const char* what) {
    return copy_into(from, record_of(instruction.output_values[i], shape), operands.outputs[i].nbytes, what);
  };
  const auto call = [&](Plan& body, const std::vector<TensorRecord>& inputs, std::vector<TensorRecord>* results) {
    std::vector<const TensorRecord*> pointers;
    for (const TensorRecord& record : inputs) pointers.push_back(&record);
    return body.run_inside(pointers.data(), pointers.size(), results);
  };
  const size_t n = instruction.input_values.size();
  std::vector<TensorRecord> results;
  if (control.code == OpCode::kIf) {
    ErrorPtr error;
    const bool first = read_number<uint8_t>(device_of(0), operands.inputs[0].data, &error) != 0;
    if (error) return error;
    std::vector<TensorRecord> inputs;
    for (size_t i = 1; i < n; ++i) inputs.push_back(given(i));
    error = call(*control.bodies[first ? 0 : 1], inputs, &results);
    for (size_t i = 0; i < results.size() && !error; ++i) error = deliver(i, results[i], "an output");
    drop(&results);
    return error;
  }

  const auto carried = static_cast<size_t>(control.carried);
  Plan& body = *control.bodies[0];
  const bool loops = control.code == OpCode::kLoop;
  const size_t first_carried = loops ? 2 : 0;
  const size_t first_outside = first_carried + carried + (loops ? 0 : static_cast<size_t>(control.scanned));
  // How often: what the outputs that stack have room for, the trip count, the condition.
  int64_t room = -1;
  for (size_t i = carried; i < instruction.output_values.size(); ++i) room = operands.outputs[i].shape[0];
  int64_t trips = std::numeric_limits<int64_t>::max();
  bool going = true;
  ErrorPtr error;
  if (loops) {
    if (instruction.input_values[0] >= 0) trips = read_number<int64_t>(device_of(0), operands.inputs[0].data, &error);
    if (instruction.input_values[1] >= 0) {
      going = read_number<uint8_t>(device_of(1), operands.inputs[1].data, &error) != 0;
    }
    if (error) return error;
  } else {
    trips = control.scanned > 0 ? operands.inputs[carried].shape[0] : std::max<int64_t>(room, 0);
  }
  const auto place_number = [&](size_t input) -> Storage* {
    if (!loops) return nullptr;
    const int32_t device = body.graph().values[body.graph().inputs[input]].device;
    Storage* made = Storage::create(device_allocator(device), 16, device, false);
    if (made == nullptr && !error) error = out_of_memory("run", 16, device);
    return made;
  };
  Storage* counter = place_number(0);
  Storage* flag = place_number(1);
  std::vector<TensorRecord> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(given(first_carried + i));
  std::vector<TensorRecord> owned;  // results of the last iteration, which `state` borrows
  int64_t done = 0;
  for (; done < trips && going && !error; ++done) {
    if (room >= 0 && done >= room) {
      error = invalid("run: a loop stacks more results than the " + std::to_string(room) + " it was recorded with");
      break;
    }
    if (poll_signals != nullptr && (done & 255) == 255 && poll_signals()) {
      error = make_error(CLIKA_UNAVAILABLE, "CANCELLED", "run: cancelled");
      break;
    }
    std::vector<TensorRecord> inputs;
    if (loops) {
      inputs.push_back(number(CLIKA_INT64, done, counter, &error));
      inputs.push_back(number(CLIKA_BOOL, going, flag, &error));
      if (error) break;
    }
    inputs.insert(inputs.end(), state.begin(), state.end());
    for (int32_t k = 0; k < (loops ? 0 : control.scanned); ++k) {
      TensorRecord slice = given(carried + static_cast<size_t>(k));
      slice.offset += done * slice.strides[0] * dtype_bits(slice.dtype) / 8;
      slice.rank -= 1;
      std::copy(slice.shape + 1, slice.shape + CLIKA_MAX_RANK, slice.shape);
      std::copy(slice.strides + 1, slice.strides + CLIKA_MAX_RANK, slice.strides);
      inputs.push_back(slice);
    }
    for (size_t i = first_outside; i < n; ++i) inputs.push_back(given(i));
    error = call(body, inputs, &results);
    if (error) break;
    size_t next = 0;
    if (loops) {
      going = read_number<uint8_t>(results[0].device, results[0].data(), &error) != 0;
      if (error) {
        drop(&results);
        break;
      }
      next = 1;
    }
    for (size_t i = 0; i < carried; ++i) state[i] = results[next + i];
    for (size_t i = carried; i < instruction.output_values.size() && !error; ++i) {
      TensorRecord to = record_of(instruction.output_values[i], shape);
      const int64_t bytes = operands.outputs[i].nbytes / std::max<int64_t>(room, 1);
      to.offset += done * bytes;
      error = copy_into(results[next + i], to, bytes, "a slice");
    }
    drop(&owned);
    owned.swap(results);
  }
  if (!error && room >= 0 && done != room) {
    error = invalid("run: a loop ended after " + std::to_string(done) + " iterations, and its stacked results were "
                    "recorded with " + std::to_string(room));
  }
  for (size_t i = 0; i < carried && !error; ++i) error = deliver(i, state[i], "a carried value");
  drop(&owned);
  if (counter != nullptr) counter->drop();
  if (flag != nullptr) flag->drop();
  return error;
}

// A run as part of another plan's: on its lane, which holds what this plan captured.
ErrorPtr Plan::run_inside(const TensorRecord* const* inputs, size_t n_inputs, std::vector<TensorRecord>* results) {
  std::lock_guard<std::mutex> lock(mutex_);
  Shape* shape = nullptr;
  std::vector<Storage*> fresh;
  ErrorPtr error = prepare(inputs, n_inputs, &shape, &fresh);
  if (!error) error = execute(*shape, nullptr, Issue{});
  ++counters_.runs;
  if (!error) collect(*shape, results);
  for (Storage* storage : fresh) storage->drop();
  return error;
}

void Plan::collect(const Shape& shape, std::vector<TensorRecord>* results) const {
  results->clear();
  for (int32_t id : outputs_) {
    results->push_back(record_of(id, shape));
    results->back().storage->retain();
  }
}

// A failed write poisons what it may have left half written. Cancelling is the caller's own wish: the rows that the run
// was to write are unspecified, nothing else changed.
void Plan::poison_written(const ErrorPtr& error) {
  if (!error || error->code == "CANCELLED") return;
  for (const Access& access : accesses_) {
    if (access.kind == AccessKind::kUpdate) access.storage->set_poison(error);
  }
}

ErrorPtr Plan::run(const TensorRecord* const* inputs, size_t n_inputs, const clika_scalar* scalars,
                   size_t n_scalars, bool synchronous, std::vector<TensorRecord>* results) {
  const Graph& store = *graph_;
  if (n_scalars != store.scalar_inputs.size()) {
    return invalid("run: the plan takes " + std::to_string(store.scalar_inputs.size()) + " scalars, got " +
                   std::to_string(n_scalars));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  // Checked before anything waits: an input of another kind, and one whose bytes are not there yet.
  for (size_t i = 0; i < n_inputs; ++i) {
    if (inputs[i]->storage != nullptr && inputs[i]->storage->data() == nullptr) inputs[i]->storage->wait_for_read();
  }
  ErrorPtr failed;
  if (!synchronous && replay(inputs, n_inputs, results, &failed)) return failed;
  Shape* shape = nullptr;
  std::vector<Storage*> fresh;
  failed = prepare(inputs, n_inputs, &shape, &fresh);
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
    if (!failed) failed = issue_or_record(*shape, inputs, n_inputs, fresh, scalars, synchronous);
    poison_written(failed);
    lane.end_inline(sequence);
    ++counters_.runs;
  }
  if (!failed) collect(*shape, results);
  for (Storage* storage : fresh) storage->drop();
  return failed;
}

}  // namespace clika
