// Runs single kernels of the CPU backend for the harness, over a pipe: one request on standard input, one reply on
// standard output, until the input ends. Built for another architecture and started under an emulator, it lets the
// kernel tests run there with the same oracles. The format is little endian and private to harness.py.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "clika_runtime/plugin.h"
#include "loader/loader.hpp"

namespace {

constexpr int32_t kWantsContiguous = 1000;

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "kernel_server: %s\n", why);
  std::exit(2);
}

struct Reader {
  const uint8_t* at;
  const uint8_t* end;

  void copy(void* to, size_t bytes) {
    if (static_cast<size_t>(end - at) < bytes) die("a request is too short");
    std::memcpy(to, at, bytes);
    at += bytes;
  }
  template <class T>
  T get() {
    T value;
    copy(&value, sizeof(T));
    return value;
  }
  std::string text() {
    std::string value(get<uint32_t>(), '\0');
    copy(value.data(), value.size());
    return value;
  }
};

struct Writer {
  std::vector<uint8_t> bytes;

  void put(const void* from, size_t n) {
    const uint8_t* p = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), p, p + n);
  }
  template <class T>
  void value(T x) {
    put(&x, sizeof(T));
  }
  void text(const std::string& x) {
    value(static_cast<uint32_t>(x.size()));
    put(x.data(), x.size());
  }
};

struct Buffer {
  explicit Buffer(size_t n) : size(n), data(static_cast<uint8_t*>(std::aligned_alloc(64, (n + 128) / 64 * 64))) {
    if (!data) die("out of memory");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data); }
  size_t size;
  uint8_t* data;
};

// What one request brings, and what its kernel asks of the core.
struct Request {
  std::deque<Buffer> buffers;
  std::deque<Buffer> scratch;
  std::deque<std::vector<int64_t>> numbers;
  std::deque<std::vector<clika_value>> lists;
  int32_t threads = 1;
  int64_t grain = 0;
  std::string code;
  std::string message;
};

void parallel_for(const clika_call* call, int64_t n, int64_t grain, clika_range_fn fn, void* arg) {
  const Request& request = *static_cast<const Request*>(call->context);
  grain = std::max<int64_t>(1, request.grain ? request.grain : grain);
  const auto work = [&](int32_t worker) {
    for (int64_t begin = worker * grain; begin < n; begin += request.threads * grain) {
      fn(arg, begin, std::min(n, begin + grain), worker);
    }
  };
  std::vector<std::thread> workers;
  for (int32_t i = 1; i < request.threads; ++i) workers.emplace_back(work, i);
  work(0);
  for (std::thread& worker : workers) worker.join();
}

int32_t thread_count = 1;

void* scratch(const clika_call* call, size_t bytes) {
  Request& request = *static_cast<Request*>(call->context);
  Buffer& buffer = request.scratch.emplace_back(bytes);
  std::memset(buffer.data, 0xff, bytes);  // NaN patterns: a kernel that reads what it never wrote is noticed
  return buffer.data;
}

int32_t allocate_output(const clika_call*, uint32_t, int32_t, const int64_t*) {
  die("kernels that size their outputs are not served");
}

int32_t set_error(const clika_call* call, int32_t status, const char* code, const char* message) {
  Request& request = *static_cast<Request*>(call->context);
  request.code = code;
  request.message = message;
  return status;
}

const clika_core kCore = {sizeof(clika_core),
                          CLIKA_PLUGIN_ABI,
                          parallel_for,
                          [] { return thread_count; },
                          scratch,
                          allocate_output,
                          set_error,
                          [](const clika_call*) { return int32_t{0}; },
                          [](int32_t, const char*) {}};

const int64_t* read_numbers(Reader& in, Request& request, int32_t n) {
  std::vector<int64_t>& out = request.numbers.emplace_back(static_cast<size_t>(n) + 1);
  in.copy(out.data(), sizeof(int64_t) * static_cast<size_t>(n));
  return out.data();
}

clika_value read_value(Reader& in, Request& request);

std::vector<clika_value>& read_values(Reader& in, Request& request) {
  const uint32_t n = in.get<uint32_t>();
  std::vector<clika_value> values;
  for (uint32_t i = 0; i < n; ++i) values.push_back(read_value(in, request));
  return request.lists.emplace_back(std::move(values));
}

clika_value read_value(Reader& in, Request& request) {
  clika_value v = {};
  v.kind = in.get<uint8_t>();
  if (v.kind == CLIKA_SEQUENCE) {
    std::vector<clika_value>& items = read_values(in, request);
    v.items = items.data();
    v.n_items = static_cast<int32_t>(items.size());
  } else if (v.kind == CLIKA_TENSOR) {
    const uint32_t buffer = in.get<uint32_t>();
    v.data = request.buffers.at(buffer).data + in.get<int64_t>();
    v.dtype = in.get<int32_t>();
    v.scheme = in.get<int32_t>();
    v.layout = in.get<int32_t>();
    v.rank = in.get<int32_t>();
    v.nbytes = in.get<int64_t>();
    v.shape = read_numbers(in, request, v.rank);
    if (in.get<uint8_t>()) v.strides = read_numbers(in, request, v.rank);
  }
  return v;
}

bool fits(const clika_value& v, uint64_t dtypes, uint64_t schemes) {
  if (v.kind == CLIKA_NONE) return true;
  if (v.kind == CLIKA_SEQUENCE) {
    for (int32_t i = 0; i < v.n_items; ++i) {
      if (!fits(v.items[i], dtypes, schemes)) return false;
    }
    return true;
  }
  const bool scheme = schemes ? (schemes >> v.scheme) & 1 : v.scheme == 0 && v.layout == 0;
  return ((dtypes >> v.dtype) & 1) && scheme;
}

const clika_kernel* find(const clika_backend& table, const std::string& op, const clika_call& call) {
  for (uint32_t k = 0; k < table.n_kernels; ++k) {
    const clika_kernel& kernel = table.kernels[k];
    if (op != kernel.op) continue;
    bool ok = call.n_outputs == 0 || ((kernel.output_dtypes >> call.outputs[0].dtype) & 1);
    for (uint32_t i = 0; ok && i < call.n_inputs; ++i) {
      const uint32_t mask = i < 7 ? i : 7;
      ok = fits(call.inputs[i], kernel.input_dtypes[mask], kernel.input_schemes[mask]);
    }
    if (ok) return &kernel;
  }
  return nullptr;
}

bool contiguous(const clika_value& v) {
  if (v.kind == CLIKA_SEQUENCE) {
    for (int32_t i = 0; i < v.n_items; ++i) {
      if (!contiguous(v.items[i])) return false;
    }
    return true;
  }
  if (v.kind != CLIKA_TENSOR || !v.strides) return true;
  for (int32_t d = 0; d < v.rank; ++d) {
    if (v.shape[d] == 0) return true;  // no element is anywhere
  }
  int64_t step = 1;
  for (int32_t d = v.rank - 1; d >= 0; --d) {
    if (v.shape[d] != 1 && v.strides[d] != step) return false;
    step *= v.shape[d];
  }
  return true;
}

int32_t run(const clika_backend& table, const std::string& op, clika_call& call, Request& request) {
  const clika_kernel* kernel = find(table, op, call);
  if (!kernel) return set_error(&call, CLIKA_NOT_FOUND, "NO_ENTRY", op.c_str());
  if (!(kernel->flags & CLIKA_STRIDED)) {
    for (uint32_t i = 0; i < call.n_inputs; ++i) {
      if (!contiguous(call.inputs[i])) return kWantsContiguous;
    }
  }
  if (kernel->workspace) {
    call.workspace_bytes = kernel->workspace(&call);
    call.workspace = scratch(&call, call.workspace_bytes);
  }
  thread_count = request.threads;
  return kernel->run(&call);
}

void answer(Reader in, Writer& out) {
  const uint8_t verb = in.get<uint8_t>();
  if (verb == 0) {
    out.text(clika_cpu::best_level());
    return;
  }
  Request request;
  const std::string level = in.text();
  char reason[256];
  const clika_backend* table = clika_cpu::backend_table(level.c_str(), reason, sizeof(reason));
  if (!table) die(reason);
  request.threads = in.get<int32_t>();
  request.grain = in.get<int64_t>();
  const uint32_t n_buffers = in.get<uint32_t>();
  for (uint32_t i = 0; i < n_buffers; ++i) {
    Buffer& buffer = request.buffers.emplace_back(in.get<uint64_t>());
    in.copy(buffer.data, buffer.size);
  }
  const std::string op = in.text();
  clika_call call = {};
  call.size = sizeof(call);
  call.core = &kCore;
  call.context = &request;
  std::vector<clika_value>& inputs = read_values(in, request);
  call.inputs = inputs.data();
  call.n_inputs = static_cast<uint32_t>(inputs.size());
  std::vector<clika_value>& outputs = read_values(in, request);
  call.outputs = outputs.data();
  call.n_outputs = static_cast<uint32_t>(outputs.size());
  std::vector<clika_attr> attrs(in.get<uint32_t>());
  for (clika_attr& a : attrs) {
    a = {};
    a.kind = in.get<int32_t>();
    a.n = in.get<int32_t>();
    if (a.kind == CLIKA_ATTR_INT) a.v.i = in.get<int64_t>();
    if (a.kind == CLIKA_ATTR_FLOAT) a.v.f = in.get<double>();
    if (a.kind == CLIKA_ATTR_INTS) a.v.ints = read_numbers(in, request, a.n);
  }
  call.attrs = attrs.data();
  call.n_attrs = static_cast<uint32_t>(attrs.size());
  std::vector<clika_scalar> scalars(in.get<uint32_t>());
  for (clika_scalar& s : scalars) {
    s.i = in.get<int64_t>();
    s.f = in.get<double>();
    s.is_float = in.get<int32_t>();
    s.is_none = in.get<int32_t>();
  }
  call.scalars = scalars.data();
  call.n_scalars = static_cast<uint32_t>(scalars.size());
  const int32_t mode = in.get<int32_t>();

  clika_pack_info info = {sizeof(clika_pack_info), 0, 0};
  int32_t status = CLIKA_OK;
  if (verb == 1) status = run(*table, op, call, request);
  if (verb == 2) status = table->pack_info(&call.inputs[0], mode, &info);
  if (verb == 3) status = table->pack(&call, mode);
  if (verb == 4) status = table->unpack(&call);
  out.value(status);
  out.text(request.code);
  out.text(request.message);
  out.value(info.layout);
  out.value(info.nbytes);
  for (const Buffer& buffer : request.buffers) out.put(buffer.data, buffer.size);
}

}  // namespace

int main() {
  for (;;) {
    uint64_t size;
    if (std::fread(&size, sizeof(size), 1, stdin) != 1) return 0;
    std::vector<uint8_t> request(size);
    if (size && std::fread(request.data(), size, 1, stdin) != 1) die("the input ended inside a request");
    Writer reply;
    answer({request.data(), request.data() + size}, reply);
    size = reply.bytes.size();
    std::fwrite(&size, sizeof(size), 1, stdout);
    std::fwrite(reply.bytes.data(), 1, size, stdout);
    std::fflush(stdout);
  }
}
