#include "dispatch.hpp"

#include <algorithm>
#include <cstring>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace clika {

void (*without_gil)(void (*body)(void*), void* arg) = [](void (*body)(void*), void* arg) { body(arg); };

DispatchCounters& counters() {
  static DispatchCounters instance;
  return instance;
}

namespace {

constexpr int64_t kReleaseBytes = 1 << 15;  // under this a kernel is quicker than giving the GIL away
// Under this a call runs on its own thread: handing it to the lane and waking up for the result cost some 60 us, in
// which a kernel goes over 4 MB.
constexpr int64_t kInlineBytes = 1 << 24;

// Gives outputs their shape while the kernel runs.
struct Settling {
  const Binding& binding;
  TensorRecord* records;
  clika_value* values;

  static int32_t allocate(CallContext* context, uint32_t i, int32_t rank, const int64_t* shape) {
    const auto refuse = [&](int32_t status, const char* code, const std::string& message) {
      if (!context->error) context->error = make_error(status, code, message);
      return status;
    };
    const auto& self = *static_cast<const Settling*>(context->owner);
    if (i >= self.binding.outputs.size() || self.binding.outputs[i].kind != OutputKind::kSettled) {
      return refuse(CLIKA_INTERNAL, "INTERNAL", "allocate_output: result " + std::to_string(i) + " has its shape");
    }
    const TensorRecord& plan = self.binding.outputs[i].record;
    int64_t elements = 1;
    bool fits = rank == plan.rank;
    for (int32_t d = 0; fits && d < rank; ++d) {
      fits = shape[d] >= 0 && (plan.shape[d] < 0 || plan.shape[d] == shape[d]);
      if (fits && shape[d] > 0 && elements > kMaxElements / shape[d]) {
        return refuse(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                      "the result has more elements than can be addressed");
      }
      if (shape[d] > 0) elements *= shape[d];
    }
    if (!fits) {
      return refuse(CLIKA_INTERNAL, "INTERNAL",
                    "allocate_output: the shape given for result " + std::to_string(i) + " does not fit its rule");
    }
    TensorRecord& record = self.records[i];
    if (record.storage != nullptr) record.storage->drop();
    record = plan;
    std::copy_n(shape, rank, record.shape);
    record.set_contiguous_strides();
    const int64_t bytes = dense_bytes(rank, record.shape, record.dtype);
    record.storage = Storage::create(device_allocator(record.device), static_cast<size_t>(bytes), record.device, false);
    if (record.storage == nullptr || (bytes != 0 && record.storage->data() == nullptr)) {
      context->error = out_of_memory("", bytes, record.device);
      return CLIKA_UNAVAILABLE;
    }
    record.fill(&self.values[i], record.data());
    return CLIKA_OK;
  }
};

// Operands in the kernel's form. Lives as long as the call.
struct Operands {
  clika_value inputs[16];
  clika_value items[Frame::kInputs];
  clika_value outputs[8];

  void fill(const Binding& binding, const TensorRecord* const* records, const char (*numbers)[8], size_t n_groups,
            const int32_t* groups) {
    static const int64_t kNoStrides[1] = {0};
    const bool on_device = device_backend_of(binding.device) != nullptr;
    size_t next = 0;
    const auto one = [&](clika_value* out) {
      const TensorRecord* record = records[next];
      const int32_t number = binding.numbers[next];
      if (record != nullptr) {
        record->fill(out, record->data());
      } else {
        *out = clika_value{};
        if (number != 0) {
          out->kind = on_device ? CLIKA_NUMBER : CLIKA_TENSOR;
          out->dtype = number;
          out->data = const_cast<char*>(numbers[next]);
          out->nbytes = 8;
          out->shape = kNoStrides;
          out->strides = kNoStrides;
        }
      }
      ++next;
    };
    for (size_t g = 0; g < n_groups; ++g) {
      if (groups[g] < 0) {
        one(&inputs[g]);
        continue;
      }
      inputs[g] = clika_value{};
      inputs[g].kind = CLIKA_SEQUENCE;
      inputs[g].n_items = groups[g];
      inputs[g].items = items + next;
      for (int32_t k = 0; k < groups[g]; ++k) one(items + next);
    }
  }
};

ErrorPtr invoke(const Binding& binding, const TensorRecord* const* records, const char (*numbers)[8],
                size_t n_groups, const int32_t* groups, size_t n_scalars, const clika_scalar* scalars,
                TensorRecord* outputs) {
  Operands operands;
  operands.fill(binding, records, numbers, n_groups, groups);
  const size_t n_outputs = binding.outputs.size();
  for (size_t i = 0; i < n_outputs; ++i) {
    outputs[i].fill(&operands.outputs[i], outputs[i].storage == nullptr ? nullptr : outputs[i].data());
  }
  clika_call call{};
  call.n_inputs = static_cast<uint32_t>(n_groups);
  call.n_outputs = static_cast<uint32_t>(n_outputs);
  call.n_attrs = static_cast<uint32_t>(binding.attrs->items.size());
  call.n_scalars = static_cast<uint32_t>(n_scalars);
  call.inputs = operands.inputs;
  call.outputs = operands.outputs;
  call.attrs = binding.attrs->items.data();
  call.scalars = scalars;
  CallContext context;
  context.device = binding.device;
  Settling settling{binding, outputs, operands.outputs};
  if (binding.settles) {
    context.allocate_output = Settling::allocate;
    context.owner = &settling;
  }
  return run_kernel(*binding.kernel, call, context);
}

// A queued call owns copies of everything that the caller's frame held.
class CallTask final : public Task {
 public:
  CallTask(const Binding& binding, const Frame& frame, const TensorRecord* outputs)
      : binding_(binding), n_groups_(frame.n_groups), n_scalars_(frame.n_scalars) {
    records_.reserve(frame.n_inputs);
    for (size_t i = 0; i < frame.n_inputs; ++i) {
      present_.push_back(frame.inputs[i] != nullptr);
      records_.push_back(frame.inputs[i] != nullptr ? *frame.inputs[i] : TensorRecord{});
      if (frame.inputs[i] != nullptr) frame.inputs[i]->storage->retain();
    }
    numbers_.resize(frame.n_inputs);
    for (size_t i = 0; i < frame.n_inputs; ++i) std::memcpy(numbers_[i].data, frame.numbers[i], 8);
    outputs_.assign(outputs, outputs + binding.outputs.size());
    for (TensorRecord& output : outputs_) output.storage->retain();
    std::copy_n(frame.groups, n_groups_, groups_);
    std::copy_n(frame.scalars, n_scalars_, scalars_);
  }
  ~CallTask() override {
    for (size_t i = 0; i < records_.size(); ++i) {
      if (present_[i]) records_[i].storage->drop();
    }
    for (TensorRecord& output : outputs_) output.storage->drop();
  }
  ErrorPtr run() override {
    std::vector<const TensorRecord*> pointers(records_.size());
    for (size_t i = 0; i < records_.size(); ++i) pointers[i] = present_[i] ? &records_[i] : nullptr;
    return invoke(binding_, pointers.data(), reinterpret_cast<const char(*)[8]>(numbers_.data()), n_groups_,
                  groups_, n_scalars_, scalars_, outputs_.data());
  }

 private:
  struct Number {
    char data[8];
  };
  Binding binding_;
  std::vector<TensorRecord> records_, outputs_;
  std::vector<uint8_t> present_;
  std::vector<Number> numbers_;
  size_t n_groups_, n_scalars_;
  int32_t groups_[16];
  clika_scalar scalars_[16];
};

struct Body {
  const Binding* binding;
  const Frame* frame;
  TensorRecord* outputs;
  ErrorPtr error;
  static void run(void* arg) {
    auto* body = static_cast<Body*>(arg);
    const Frame& frame = *body->frame;
    body->error = invoke(*body->binding, frame.inputs, frame.numbers, frame.n_groups, frame.groups,
                         frame.n_scalars, frame.scalars, body->outputs);
  }
};

struct Submission {
  Lane* lane;
  std::unique_ptr<Task> task;
  bool synchronous;
  static void run(void* arg) {
    auto* submission = static_cast<Submission*>(arg);
    submission->lane->submit(std::move(submission->task));
    if (submission->synchronous) submission->lane->synchronize();
  }
};

// Waits for everything that a call that runs here and now must come after.
struct Barrier {
  Lane& lane;
  const Access* accesses;
  size_t n;
  static void run(void* arg) {
    const auto* barrier = static_cast<const Barrier*>(arg);
    barrier->lane.synchronize();
    for (size_t i = 0; i < barrier->n; ++i) barrier->accesses[i].storage->wait_for_read();
  }
};

// A call that settles shapes: on this thread, with every input there. Errors go to the caller, since without a
// shape there is no result to poison.
ErrorPtr run_settling(const Binding& binding, const Frame& frame, TensorRecord* outputs) {
  const size_t n_outputs = binding.outputs.size();
  for (size_t i = 0; i < n_outputs; ++i) outputs[i] = binding.outputs[i].record;
  const auto drop_all = [&] {
    for (size_t i = 0; i < n_outputs; ++i) {
      if (outputs[i].storage != nullptr) outputs[i].storage->drop();
      outputs[i].storage = nullptr;
    }
  };
  for (size_t i = 0; i < n_outputs; ++i) {
    const OutputPlan& plan = binding.outputs[i];
    if (plan.kind == OutputKind::kSettled) continue;
    outputs[i].storage = Storage::create(device_allocator(outputs[i].device), static_cast<size_t>(plan.nbytes),
                                         outputs[i].device, false);
    if (outputs[i].storage == nullptr || (plan.nbytes != 0 && outputs[i].storage->data() == nullptr)) {
      drop_all();
      return out_of_memory("", plan.nbytes, binding.device);
    }
  }
  Access accesses[Frame::kInputs];
  size_t n = 0;
  for (size_t i = 0; i < frame.n_inputs; ++i) {
    if (frame.inputs[i] != nullptr) accesses[n++] = {frame.inputs[i]->storage, AccessKind::kRead};
  }
  Lane& lane = Lane::current();
  uint64_t sequence = lane.begin_inline(accesses, n);
  while (sequence == 0) {
    Barrier barrier{lane, accesses, n};
    without_gil(&Barrier::run, &barrier);
    sequence = lane.begin_inline(accesses, n);
  }
  ++counters().kernel_calls;
  ++counters().inline_calls;
  ErrorPtr error = first_poison(accesses, n);
  if (!error) {
    Body body{&binding, &frame, outputs, nullptr};
    if (binding.work > kReleaseBytes) {
      without_gil(&Body::run, &body);
    } else {
      Body::run(&body);
    }
    error = body.error;
  }
  lane.end_inline(sequence);
  for (size_t i = 0; i < n_outputs && !error; ++i) {
    if (outputs[i].storage == nullptr) {
      error = make_error(CLIKA_INTERNAL, "INTERNAL",
                         std::string(binding.kernel->name) + ": the kernel gave result " + std::to_string(i) +
                             " no shape");
    }
  }
  if (error) drop_all();
  return error;
}

}  // namespace

ErrorPtr run_call(const Binding& binding, const Frame& frame, bool synchronous, TensorRecord* outputs) {
  if (binding.settles) return run_settling(binding, frame, outputs);
  const size_t n_outputs = binding.outputs.size();
  const bool small = binding.work <= kInlineBytes;
  // On a device the kernel only puts work on the stream: it runs here, and the stream keeps the order.
  const bool on_device = device_backend_of(binding.device) != nullptr;
  Lane& lane = Lane::current();
  const bool queue = !small && !synchronous && !on_device;

  size_t made = 0;
  for (; made < n_outputs; ++made) {
    const OutputPlan& plan = binding.outputs[made];
    TensorRecord& output = outputs[made];
    output = plan.record;
    if (plan.kind == OutputKind::kMutated) {
      output = *frame.inputs[plan.source];
      output.storage->retain();
      if (!output.storage->writable()) {
        ++made;
        for (size_t i = 0; i < made; ++i) outputs[i].storage->drop();
        return make_error(CLIKA_INVALID_ARGUMENT, "INVALID_ARGUMENT",
                          "an in-place operator cannot write to read-only memory; call .contiguous() or copy it");
      }
      continue;
    }
    output.storage = Storage::create(device_allocator(output.device), static_cast<size_t>(plan.nbytes),
                                     output.device, queue);
    if (output.storage == nullptr || (!queue && plan.nbytes != 0 && output.storage->data() == nullptr)) {
      if (output.storage != nullptr) output.storage->drop();
      for (size_t i = 0; i < made; ++i) outputs[i].storage->drop();
      return out_of_memory("", plan.nbytes, binding.device);
    }
  }

  Access accesses[Frame::kInputs + 8];
  size_t n_accesses = 0;
  for (size_t i = 0; i < frame.n_inputs; ++i) {
    if (frame.inputs[i] != nullptr) accesses[n_accesses++] = {frame.inputs[i]->storage, AccessKind::kRead};
  }
  const size_t n_reads = n_accesses;
  for (size_t i = 0; i < n_outputs; ++i) {
    const OutputPlan& plan = binding.outputs[i];
    if (plan.kind == OutputKind::kMutated) {
      const bool whole = outputs[i].numel() * dtype_bits(outputs[i].dtype) / 8 ==
                         static_cast<int64_t>(outputs[i].storage->nbytes());
      accesses[n_accesses++] = {outputs[i].storage, whole && binding.kernel->op == std::string_view("copy_")
                                                        ? AccessKind::kOverwrite
                                                        : AccessKind::kUpdate};
    } else if (queue) {
      accesses[n_accesses++] = {outputs[i].storage, AccessKind::kOverwrite};
    }
  }

  ++counters().kernel_calls;
  if (on_device) {
    ++counters().inline_calls;
    ErrorPtr error = first_poison(accesses, n_reads);
    if (!error) {
      Body body{&binding, &frame, outputs, nullptr};
      if (binding.work > kReleaseBytes) {
        without_gil(&Body::run, &body);
      } else {
        Body::run(&body);
      }
      error = body.error;
    }
    if (error) {
      for (size_t i = 0; i < n_outputs; ++i) outputs[i].storage->set_poison(error);
    } else {
      settle_writes(accesses, n_accesses, nullptr);
    }
    return nullptr;
  }
  if (!queue) {
    const uint64_t sequence = lane.begin_inline(accesses, n_accesses);
    if (sequence != 0) {
      ++counters().inline_calls;
      ErrorPtr error = first_poison(accesses, n_reads);
      if (!error) {
        Body body{&binding, &frame, outputs, nullptr};
        if (binding.work > kReleaseBytes) {
          without_gil(&Body::run, &body);
        } else {
          Body::run(&body);
        }
        error = body.error;
      }
      if (error) {
        // A failed call gives a poisoned result: the error is raised where it is read.
        for (size_t i = 0; i < n_outputs; ++i) outputs[i].storage->set_poison(error);
      } else {
        for (size_t i = n_reads; i < n_accesses; ++i) {
          if (accesses[i].kind == AccessKind::kOverwrite) accesses[i].storage->set_poison(nullptr);
        }
      }
      lane.end_inline(sequence);
      return nullptr;
    }
  }
  if (!queue) {  // outputs have bytes already; hazards say the call must wait its turn
    for (size_t i = 0; i < n_outputs; ++i) {
      if (binding.outputs[i].kind != OutputKind::kMutated) {
        accesses[n_accesses++] = {outputs[i].storage, AccessKind::kOverwrite};
      }
    }
  }
  ++counters().queued_calls;
  Submission submission{&lane, std::make_unique<CallTask>(binding, frame, outputs), synchronous};
  submission.task->accesses.assign(accesses, accesses + n_accesses);
  submission.task->pending_bytes = static_cast<size_t>(binding.work);
  without_gil(&Submission::run, &submission);
  return nullptr;
}

bool store_number(char* out, int32_t dtype, bool is_float, double f, int64_t i) {
  const double real = is_float ? f : static_cast<double>(i);
  const auto put = [&](auto value) { std::memcpy(out, &value, sizeof(value)); };
  const auto put_int = [&](auto zero, int64_t low, int64_t high) {
    if (i < low || i > high) return false;
    put(static_cast<decltype(zero)>(i));
    return true;
  };
  switch (dtype) {
    case CLIKA_BOOL: put(static_cast<uint8_t>(is_float ? f != 0 : i != 0)); return true;
    case CLIKA_INT8: return put_int(int8_t{}, INT8_MIN, INT8_MAX);
    case CLIKA_INT16: return put_int(int16_t{}, INT16_MIN, INT16_MAX);
    case CLIKA_INT32: return put_int(int32_t{}, INT32_MIN, INT32_MAX);
    case CLIKA_INT64: return put_int(int64_t{}, INT64_MIN, INT64_MAX);
    case CLIKA_UINT8: return put_int(uint8_t{}, 0, UINT8_MAX);
    case CLIKA_UINT16: return put_int(uint16_t{}, 0, UINT16_MAX);
    case CLIKA_UINT32: return put_int(uint32_t{}, 0, UINT32_MAX);
    case CLIKA_UINT64: return put_int(uint64_t{}, 0, INT64_MAX);
    case CLIKA_FLOAT64: put(real); return true;
    case CLIKA_FLOAT32: put(static_cast<float>(real)); return true;
    case CLIKA_BFLOAT16: {
      const auto narrow = static_cast<float>(real);
      uint32_t bits;
      std::memcpy(&bits, &narrow, 4);
      if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        put(static_cast<uint16_t>((bits >> 16) | 0x40u));
      } else {
        put(static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16));
      }
      return true;
    }
    case CLIKA_FLOAT16: {
      // Round to nearest even through the double's bits: once, so that no double rounding creeps in.
      uint64_t bits;
      std::memcpy(&bits, &real, 8);
      const auto sign = static_cast<uint16_t>((bits >> 48) & 0x8000u);
      const auto magnitude = bits & 0x7FFFFFFFFFFFFFFFull;
      if (magnitude > 0x7FF0000000000000ull) {
        put(static_cast<uint16_t>(sign | 0x7E00u));
        return true;
      }
      const int exponent = static_cast<int>(magnitude >> 52) - 1023;
      if (exponent > 15) {
        put(static_cast<uint16_t>(sign | 0x7C00u));
        return true;
      }
      if (exponent < -25) {
        put(sign);
        return true;
      }
      const uint64_t mantissa = (magnitude & 0xFFFFFFFFFFFFFull) | 0x10000000000000ull;
      const int shift = exponent >= -14 ? 42 : 42 + (-14 - exponent);
      uint64_t rounded = mantissa >> shift;
      const uint64_t rest = mantissa & ((1ull << shift) - 1);
      const uint64_t half = 1ull << (shift - 1);
      if (rest > half || (rest == half && (rounded & 1))) ++rounded;
      // A normal number's implicit bit adds 1 to the exponent field, also when rounding carries.
      const uint64_t field = exponent >= -14 ? (static_cast<uint64_t>(exponent + 14) << 10) + rounded : rounded;
      put(static_cast<uint16_t>(sign | field));
      return true;
    }
    default: return false;
  }
}

bool settled(const TensorRecord& record) { return record.storage == nullptr || record.storage->ready_for_read(); }

ErrorPtr settle(const TensorRecord& record) {
  if (record.storage == nullptr) return nullptr;
  record.storage->wait_for_read();
  return record.storage->poison();
}

namespace {

// The packed weights of a model live and die together. Those too small for huge pages of their own share regions
// that have them: a weight that is read once per token is bound by memory, and on small pages by page walks as well.
constexpr size_t kRegionBytes = size_t{16} << 20;
constexpr size_t kRegionShare = size_t{4} << 20;  // from here on a block of its own gets huge pages

struct WeightRegion {
  char* data;
  size_t used = 0;
  int64_t references = 0;
};
SpinLock region_lock;
WeightRegion* open_region = nullptr;  // takes the next weights

void release_share(void* owner) {
  WeightRegion* region = static_cast<WeightRegion*>(owner);
  region_lock.lock();
  const bool last = --region->references == 0;
  if (last && region == open_region) open_region = nullptr;
  region_lock.unlock();
  if (!last) return;
  host_allocator().release(region->data, kRegionBytes);
  delete region;
}

// Touches fresh memory: the system clears a page then, and threads that meet on one huge page wait for each other.
void populate(char* data, size_t nbytes) {
  constexpr size_t kPage = size_t{2} << 20;
  const auto touch = [](void* to, int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) static_cast<char*>(to)[static_cast<size_t>(i) * kPage] = 0;
  };
  Pool::get().parallel_for(static_cast<int64_t>((nbytes + kPage - 1) / kPage), 1, touch, data);
}

// A region of whose memory the first `wanted` bytes are there; nullptr where there is none.
WeightRegion* new_region(size_t wanted) {
  char* data = static_cast<char*>(host_allocator().allocate(kRegionBytes));
  if (data == nullptr) return nullptr;
  populate(data, std::min(kRegionBytes, wanted));
  return new WeightRegion{data};
}

// Memory for a packed weight. `coming` are the bytes of this weight and of those that follow it into regions.
Storage* weight_storage(int32_t device, size_t nbytes, size_t coming) {
  Allocator& allocator = device_allocator(device);
  if (&allocator != &host_allocator()) return Storage::create(allocator, nbytes, device, false);
  if (nbytes >= kRegionShare) {
    Storage* made = Storage::create(allocator, nbytes, device, false);
    if (made != nullptr && made->data() != nullptr) populate(static_cast<char*>(made->data()), nbytes);
    return made;
  }
  const size_t share = (nbytes + 63) / 64 * 64;
  WeightRegion* fresh = nullptr;
  region_lock.lock();
  while (open_region == nullptr || open_region->used + share > kRegionBytes) {
    if (fresh != nullptr) {
      open_region = fresh;  // the one before is freed with its last weight
      fresh = nullptr;
      break;
    }
    region_lock.unlock();
    fresh = new_region(std::max(share, coming));
    if (fresh == nullptr) return nullptr;
    region_lock.lock();
  }
  WeightRegion* region = open_region;
  char* const data = region->data + region->used;
  region->used += share;
  ++region->references;
  region_lock.unlock();
  if (fresh != nullptr) {  // another thread has opened one meanwhile
    host_allocator().release(fresh->data, kRegionBytes);
    delete fresh;
  }
  return Storage::borrow(data, nbytes, device, Storage::kBorrowed, release_share, region, true);
}

void drop_pages(const TensorRecord& record) {
#if defined(__unix__) || defined(__APPLE__)
  if (record.storage == nullptr || record.storage->kind() != Storage::kMapped) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(record.data()) + page - 1) / page * page;
  const auto length = static_cast<uintptr_t>(record.storage->nbytes()) - static_cast<uintptr_t>(record.offset);
  const auto end = (reinterpret_cast<uintptr_t>(record.data()) + length) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#else
  (void)record;
#endif
}

// Calls a backend's function from `source` into a record with memory of its own, which a failure gives back.
template <class Function>
ErrorPtr repack(const clika_value* source, TensorRecord* record, const char* operation, const Function& function) {
  clika_value target;
  record->fill(&target, record->data());
  clika_call call{};
  call.size = sizeof(call);
  call.n_inputs = 1;
  call.n_outputs = 1;
  call.inputs = source;
  call.outputs = &target;
  call.core = core_table();
  CallContext context;
  context.device = record->device;
  call.context = &context;
  call.device = static_cast<uint32_t>(device_index(record->device));
  int32_t status = CLIKA_OK;
  if (device_backend_of(record->device) != nullptr) {
    call.stream = device_stream(record->device, &context.error);
    if (call.stream == nullptr) status = CLIKA_INTERNAL;
  }
  if (status == CLIKA_OK) status = function(&call);
  for (const auto& [data, bytes] : context.scratch) device_allocator(context.device).release(data, bytes);
  if (status == CLIKA_OK) return nullptr;
  record->storage->drop();
  return context.error
             ? context.error
             : make_error(status, "INTERNAL", std::string(operation) + ": the backend failed and gave no reason");
}

// About the bytes that a weight takes of a region; 0 where it has memory of its own.
size_t region_bytes(const TensorRecord& weight) {
  const clika_block block = clika_block_of(weight.scheme);
  if (block.columns == 0 || weight.layout != CLIKA_LAYOUT_PUBLISHED) return 0;
  const auto nbytes = static_cast<size_t>(weight.numel() / block.columns * block.bytes);
  return nbytes >= kRegionShare ? 0 : nbytes;
}

ErrorPtr pack_weight(const TensorRecord& weight, int32_t mode, size_t coming, TensorRecord* packed) {
  *packed = weight;
  packed->storage->retain();
  const Backend* backend = backend_by_id(device_backend(weight.device));
  if (weight.layout != CLIKA_LAYOUT_PUBLISHED || backend == nullptr || backend->table == nullptr ||
      backend->table->pack_info == nullptr || backend->table->pack == nullptr) {
    return nullptr;
  }
  if (ErrorPtr error = settle(weight)) {
    packed->storage->drop();
    return error;
  }
  clika_value source;
  weight.fill(&source, weight.data());
  clika_pack_info info{};
  info.size = sizeof(info);
  if (backend->table->pack_info(&source, mode, &info) != CLIKA_OK || info.layout == CLIKA_LAYOUT_PUBLISHED) {
    return nullptr;  // kept as published
  }
  packed->storage->drop();
  packed->storage = weight_storage(weight.device, static_cast<size_t>(info.nbytes), coming);
  if (packed->storage == nullptr || packed->storage->data() == nullptr) {
    if (packed->storage != nullptr) packed->storage->drop();
    return out_of_memory("", info.nbytes, weight.device);
  }
  packed->offset = 0;
  packed->layout = info.layout;
  packed->pack_mode = mode;
  return repack(&source, packed, "pack_weight", [&](const clika_call* call) { return backend->table->pack(call, mode); });
}

}  // namespace

ErrorPtr pack_weights(std::vector<TensorRecord>* weights, const std::vector<int32_t>& modes, bool drop_source) {
  size_t coming = 0;
  for (const TensorRecord& weight : *weights) coming += region_bytes(weight);
  for (size_t i = 0; i < weights->size(); ++i) {
    const TensorRecord weight = (*weights)[i];
    ErrorPtr error = pack_weight(weight, modes[i], coming, &(*weights)[i]);
    coming -= region_bytes(weight);
    if (error) {
      for (size_t made = 0; made < i; ++made) (*weights)[made].storage->drop();
      return error;
    }
    if (drop_source && (*weights)[i].storage != weight.storage) drop_pages(weight);
  }
  return nullptr;
}

ErrorPtr unpack_weight(const TensorRecord& packed, TensorRecord* weight) {
  const Backend* backend = backend_by_id(device_backend(packed.device));
  const clika_backend* table = backend == nullptr ? nullptr : backend->table;
  if (table == nullptr || table->size < offsetof(clika_backend, unpack) + sizeof(table->unpack) ||
      table->unpack == nullptr) {
    return make_error(CLIKA_UNSUPPORTED, "NOT_IMPLEMENTED_FOR_LAYOUT",
                      "unpack_weight: the weight is in layout " + std::to_string(packed.layout) + " of backend '" +
                          (backend == nullptr ? "?" : backend->name) +
                          "', which has no way back to the published form; keep the weight as published");
  }
  if (ErrorPtr error = settle(packed)) return error;
  *weight = packed;
  weight->layout = CLIKA_LAYOUT_PUBLISHED;
  weight->pack_mode = 0;
  weight->offset = 0;
  const clika_block block = clika_block_of(packed.scheme);
  const auto nbytes = static_cast<size_t>(packed.dense() ? dense_bytes(packed.rank, packed.shape, packed.dtype)
                                                         : packed.numel() / block.columns * block.bytes);
  weight->storage = Storage::create(device_allocator(packed.device), nbytes, packed.device, false);
  if (weight->storage == nullptr || (nbytes != 0 && weight->storage->data() == nullptr)) {
    if (weight->storage != nullptr) weight->storage->drop();
    return out_of_memory("", static_cast<int64_t>(nbytes), packed.device);
  }
  clika_value source;
  packed.fill(&source, packed.data());
  return repack(&source, weight, "unpack_weight", [&](const clika_call* call) { return table->unpack(call); });
}

ErrorPtr copy_device(const TensorRecord& from, TensorRecord* to) {
  if (ErrorPtr error = settle(from)) return error;
  const bool published = from.dense() && from.layout == CLIKA_LAYOUT_PUBLISHED;
  const int64_t bytes = published ? dense_bytes(from.rank, from.shape, from.dtype)
                                  : static_cast<int64_t>(from.storage->nbytes()) - from.offset;
  const auto n = static_cast<size_t>(bytes);
  const Backend* source = device_backend_of(from.device);
  const Backend* target = device_backend_of(to->device);
  if (source == nullptr && target == nullptr) {
    std::memcpy(to->data(), from.data(), n);
    return nullptr;
  }
  if (source == nullptr) return copy_in(to->device, to->data(), from.data(), n);
  if (target == nullptr) return copy_out(from.device, to->data(), from.data(), n);
  if (from.device == to->device) return copy_within(to->device, to->data(), from.data(), n);
  if (source == target && source->has(offsetof(clika_backend, copy_peer), &clika_backend::copy_peer)) {
    const int32_t status = source->table->copy_peer(device_index(to->device), to->data(), device_index(from.device),
                                                    from.data(), n);
    return status == CLIKA_OK ? nullptr : source->failure(status, "copy");
  }
  void* between = host_allocator().allocate(n);
  if (between == nullptr) return out_of_memory("to", bytes, kHostDevice);
  ErrorPtr error = copy_out(from.device, between, from.data(), n);
  if (!error) error = copy_in(to->device, to->data(), between, n);
  host_allocator().release(between, n);
  return error;
}

}  // namespace clika
