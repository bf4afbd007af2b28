#include "table.hpp"

#include <set>

#include "launch.hpp"
#include "weights.hpp"

namespace clika_cuda {

// One per file of kernels/.
void add_adjust_logits(Registry& registry);
void add_attention(Registry& registry);
void add_boxes(Registry& registry);
void add_channel_norms(Registry& registry);
void add_convolution(Registry& registry);
void add_copy(Registry& registry);
void add_creation(Registry& registry);
void add_cumulative(Registry& registry);
void add_elementwise(Registry& registry);
void add_embedding(Registry& registry);
void add_factory(Registry& registry);
void add_fft(Registry& registry);
void add_float_parts(Registry& registry);
void add_indexing(Registry& registry);
void add_kv_append(Registry& registry);
void add_linear(Registry& registry);
void add_matmul(Registry& registry);
void add_normalization(Registry& registry);
void add_pooling(Registry& registry);
void add_quantization(Registry& registry);
void add_rearranging(Registry& registry);
void add_reductions(Registry& registry);
void add_resampling(Registry& registry);
void add_rotary(Registry& registry);
void add_rotary_append(Registry& registry);
void add_sampling(Registry& registry);
void add_scattering(Registry& registry);
void add_selecting(Registry& registry);
void add_softmax(Registry& registry);
void add_sort(Registry& registry);
void add_weights(Registry& registry);
void add_where(Registry& registry);

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(same(clika_device::kBool, CLIKA_BOOL) && same(clika_device::kInt8, CLIKA_INT8) &&
                  same(clika_device::kInt64, CLIKA_INT64) && same(clika_device::kUint8, CLIKA_UINT8) &&
                  same(clika_device::kUint64, CLIKA_UINT64) && same(clika_device::kFloat16, CLIKA_FLOAT16) &&
                  same(clika_device::kFloat64, CLIKA_FLOAT64) &&
                  same(clika_device::kFloat8, CLIKA_FLOAT8_E4M3) && same(clika_device::kMaxRank, CLIKA_MAX_RANK),
              "arguments.cuh has the numbers of plugin.h");

const Registry& registry() {
  static const Registry* all = [] {
    auto* made = new Registry();
    add_adjust_logits(*made);
    add_attention(*made);
    add_boxes(*made);
    add_channel_norms(*made);
    add_convolution(*made);
    add_copy(*made);
    add_creation(*made);
    add_cumulative(*made);
    add_elementwise(*made);
    add_embedding(*made);
    add_factory(*made);
    add_fft(*made);
    add_float_parts(*made);
    add_indexing(*made);
    add_kv_append(*made);
    add_linear(*made);
    add_matmul(*made);
    add_normalization(*made);
    add_pooling(*made);
    add_quantization(*made);
    add_rearranging(*made);
    add_reductions(*made);
    add_resampling(*made);
    add_rotary(*made);
    add_rotary_append(*made);
    add_sampling(*made);
    add_scattering(*made);
    add_selecting(*made);
    add_softmax(*made);
    add_sort(*made);
    add_weights(*made);
    add_where(*made);
    return made;
  }();
  return *all;
}

std::vector<ProgramText> programs() {
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<ProgramText> found;
  for (const Program& one : registry().programs) {
    if (seen.emplace(one.source(), one.defines()).second) found.push_back({one.source(), one.defines()});
  }
  return found;
}

std::vector<std::string> operators() {
  std::set<std::string> names;
  for (const clika_kernel& kernel : registry().entries) names.insert(kernel.op);
  return {names.begin(), names.end()};
}

namespace {

Queue* queue_of(clika_stream stream, int32_t device) {
  if (stream != nullptr) return static_cast<Queue*>(stream);
  Device* found = Device::get(device);
  return found == nullptr ? nullptr : &found->queue();
}

void* allocate(int32_t device, size_t bytes, clika_stream) {
  Device* found = Device::get(device);
  return found == nullptr ? nullptr : found->allocate(bytes);
}
void release(int32_t device, void* data, size_t, clika_stream) {
  if (Device* found = Device::get(device)) found->release(data);
}
void trim(int32_t device) {
  if (Device* found = Device::get(device)) found->trim();
}
int32_t memory_info(int32_t device, int64_t* free_bytes, int64_t* total_bytes) {
  Device* found = Device::get(device);
  return found == nullptr ? last_failure(nullptr, 0, nullptr, 0) : found->memory_info(free_bytes, total_bytes);
}

// ---------------------------------------------------------------- streams and events
clika_stream default_stream(int32_t device) {
  Device* found = Device::get(device);
  return found == nullptr ? nullptr : &found->queue();
}
clika_stream stream_create(int32_t device) {
  Device* found = Device::get(device);
  if (found == nullptr || found->usable() != CLIKA_OK) return nullptr;
  const Current current(*found);
  Stream stream = nullptr;
  if (found->check(found->cuda().stream_create(&stream, kStreamNonBlocking), "stream") != CLIKA_OK) return nullptr;
  return new Queue{found, stream, false, {}};
}
void stream_destroy(clika_stream stream) {
  auto* queue = static_cast<Queue*>(stream);
  if (queue == nullptr || queue == &queue->device->queue()) return;
  const Current current(*queue->device);
  queue->device->cuda().stream_destroy(queue->stream);
  delete queue;
}
int32_t stream_synchronize(clika_stream stream) {
  auto* queue = static_cast<Queue*>(stream);
  return queue->device->synchronize(*queue);
}
int32_t stream_query(clika_stream stream) {
  auto* queue = static_cast<Queue*>(stream);
  if (queue->device->usable() != CLIKA_OK) return -1;
  const Current current(*queue->device);
  const Result result = queue->device->cuda().stream_query(queue->stream);
  if (result == kNotReady) return 0;
  return queue->device->check(result, "stream") == CLIKA_OK ? 1 : -1;
}
void* stream_native_handle(clika_stream stream) { return static_cast<Queue*>(stream)->stream; }

int32_t stream_join(clika_stream stream, void* native, int32_t direction) {
  auto* queue = static_cast<Queue*>(stream);
  return direction == 0 ? queue->device->order(queue->stream, native) : queue->device->order(native, queue->stream);
}

struct Event {
  Device* device;
  DriverEvent event;
};
void* event_record(clika_stream stream) {
  auto* queue = static_cast<Queue*>(stream);
  Device& device = *queue->device;
  if (device.usable() != CLIKA_OK) return nullptr;
  const Current current(device);
  DriverEvent event = nullptr;
  if (device.check(device.cuda().event_create(&event, kEventDisableTiming), "event") != CLIKA_OK) return nullptr;
  if (device.check(device.cuda().event_record(event, queue->stream), "event") != CLIKA_OK) {
    device.cuda().event_destroy(event);
    return nullptr;
  }
  return new Event{&device, event};
}
int32_t event_wait(clika_stream stream, void* event) {
  auto* known = static_cast<Event*>(event);
  Device& device = *known->device;
  if (const int32_t status = device.usable()) return status;
  const Current current(device);
  if (stream == nullptr) return device.check(device.cuda().event_synchronize(known->event), "event");
  return device.check(device.cuda().stream_wait(static_cast<Queue*>(stream)->stream, known->event, 0), "event");
}
int32_t event_query(void* event) {
  auto* known = static_cast<Event*>(event);
  const Current current(*known->device);
  const Result result = known->device->cuda().event_query(known->event);
  if (result == kNotReady) return 0;
  return known->device->check(result, "event") == CLIKA_OK ? 1 : -1;
}
void event_destroy(void* event) {
  auto* known = static_cast<Event*>(event);
  const Current current(*known->device);
  known->device->cuda().event_destroy(known->event);
  delete known;
}

// ---------------------------------------------------------------- graphs
clika_stream capture_begin(int32_t device) {
  Device* found = Device::get(device);
  return found == nullptr ? nullptr : found->begin_capture();
}
void* capture_end(clika_stream stream) {
  auto* queue = static_cast<Queue*>(stream);
  return queue->device->end_capture(queue);
}
int32_t graph_launch(clika_stream stream, void* graph) {
  auto* queue = static_cast<Queue*>(stream);
  return queue->device->launch(*static_cast<Graph*>(graph), *queue);
}
void graph_destroy(void* graph) {
  auto* known = static_cast<Graph*>(graph);
  known->device->destroy(known);
}
void* host_allocate(int32_t device, size_t bytes) {
  Device* found = Device::get(device);
  return found == nullptr ? nullptr : found->allocate_host(bytes);
}
void host_release(int32_t device, void* data, size_t) {
  if (Device* found = Device::get(device)) found->release_host(data);
}

// ---------------------------------------------------------------- copies
int32_t copy(int32_t device, void* to, const void* from, size_t bytes, int32_t kind, clika_stream stream) {
  Queue* queue = queue_of(stream, device);
  if (queue == nullptr) return last_failure(nullptr, 0, nullptr, 0);
  return queue->device->copy(to, from, bytes, kind, queue->stream);
}

int32_t copy_peer(int32_t to_device, void* to, int32_t from_device, const void* from, size_t bytes) {
  Device* target = Device::get(to_device);
  Device* source = target == nullptr ? nullptr : Device::get(from_device);
  if (source == nullptr) return last_failure(nullptr, 0, nullptr, 0);
  if (const int32_t status = source->usable()) return status;
  if (const int32_t status = target->usable()) return status;
  // On the target's queue, after what writes the source; what reuses the source comes after the copy.
  if (const int32_t status = source->order(source->queue().stream, target->queue().stream)) return status;
  {
    const Current current(*target);
    const auto pointer = [](const void* data) { return static_cast<Pointer>(reinterpret_cast<uintptr_t>(data)); };
    const Result result = target->cuda().copy_peer(pointer(to), target->context(), pointer(from), source->context(), bytes,
                                                   target->queue().stream);
    if (const int32_t status = target->check(result, "copy")) return status;
  }
  return target->order(target->queue().stream, source->queue().stream);
}

}  // namespace

const clika_backend* backend_table() {
  const std::vector<clika_kernel>* kernels = &registry().entries;
  static const clika_backend* table = [kernels] {
    auto* made = new clika_backend{};
    made->size = sizeof(clika_backend);
    made->abi = CLIKA_PLUGIN_ABI;
    made->name = "cuda";
    made->kernels = kernels->data();
    made->n_kernels = static_cast<uint32_t>(kernels->size());
    made->kernel_size = sizeof(clika_kernel);
    made->device_count = device_count;
    made->device_properties = device_properties;
    made->allocate = allocate;
    made->release = release;
    made->memory_info = memory_info;
    made->stream_create = stream_create;
    made->stream_destroy = stream_destroy;
    made->stream_synchronize = stream_synchronize;
    made->stream_native_handle = stream_native_handle;
    made->event_record = event_record;
    made->event_wait = event_wait;
    made->event_query = event_query;
    made->event_destroy = event_destroy;
    made->copy = copy;
    made->default_stream = default_stream;
    made->failure = last_failure;
    made->stream_query = stream_query;
    made->stream_join = stream_join;
    made->copy_peer = copy_peer;
    made->trim = trim;
    made->capture_begin = capture_begin;
    made->capture_end = capture_end;
    made->graph_launch = graph_launch;
    made->graph_destroy = graph_destroy;
    made->host_allocate = host_allocate;
    made->host_release = host_release;
    made->pack_info = pack_info;
    made->pack = pack;
    made->unpack = unpack;
    return made;
  }();
  return table;
}

}  // namespace clika_cuda
