// NVIDIA's libraries, opened at run time: the driver, the compiler of the kernels (NVRTC). The entry points and
// types that are used are declared here, from the published documentation of the two interfaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace clika_cuda {

using Result = int;  // CUresult
using Pointer = unsigned long long;  // CUdeviceptr
using Context = void*;
using Stream = void*;
using DriverEvent = void*;
using Module = void*;
using Function = void*;
using MemoryPool = void*;
using DriverGraph = void*;
using Executable = void*;  // CUgraphExec

// Results that are told apart by name.
constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kNoDevice = 100;
constexpr Result kNotReady = 600;

// Attributes of a device.
enum Attribute : int {
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kMultiprocessors = 16,
  kMajor = 75,
  kMinor = 76,
  kSharedMemoryOptin = 97,
  kMemoryPools = 115,
};
constexpr int kFunctionDynamicShared = 8;       // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kFunctionCarveout = 9;            // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent
constexpr unsigned kStreamNonBlocking = 1;      // not ordered against the legacy default stream
constexpr unsigned kEventDisableTiming = 2;
constexpr int kCaptureThreadLocal = 1;          // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr int kPoolReleaseThreshold = 4;        // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

struct PoolProperties {  // CUmemPoolProps
  int allocation = 1;    // pinned
  int handles = 0;
  int location = 1;      // a device
  int device = 0;
  void* security = nullptr;
  unsigned char reserved[64] = {};
};
static_assert(sizeof(PoolProperties) == 88, "CUmemPoolProps");

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  int unused = 0;
  union {
    int value;
    unsigned char room[64];
  };
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56, "CUlaunchConfig");
constexpr int kBeginsEarly = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

// X(member, symbol, parameters). Every one of them is in drivers of CUDA 12 and newer.
#define CLIKA_DRIVER_FUNCTIONS(X)                                                                                   \
  X(init, "cuInit", (unsigned flags))                                                                               \
  X(driver_version, "cuDriverGetVersion", (int* version))                                                           \
  X(device_count, "cuDeviceGetCount", (int* count))                                                                 \
  X(device_get, "cuDeviceGet", (int* device, int ordinal))                                                          \
  X(device_name, "cuDeviceGetName", (char* name, int bytes, int device))                                            \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                             \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))                              \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (Context * context, int device))                                    \
  X(context_get, "cuCtxGetCurrent", (Context * context))                                                            \
  X(context_push, "cuCtxPushCurrent_v2", (Context context))                                                         \
  X(context_pop, "cuCtxPopCurrent_v2", (Context * context))                                                         \
  X(context_synchronize, "cuCtxSynchronize", ())                                                                    \
  X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t* total))                                                 \
  X(allocate, "cuMemAlloc_v2", (Pointer * data, size_t bytes))                                                      \
  X(release, "cuMemFree_v2", (Pointer data))                                                                        \
  X(pool_create, "cuMemPoolCreate", (MemoryPool * pool, const PoolProperties* properties))                          \
  X(pool_set, "cuMemPoolSetAttribute", (MemoryPool pool, int attribute, void* value))                               \
  X(pool_trim, "cuMemPoolTrimTo", (MemoryPool pool, size_t keep))                                                   \
  X(pool_allocate, "cuMemAllocFromPoolAsync", (Pointer * data, size_t bytes, MemoryPool pool, Stream stream))       \
  X(pool_release, "cuMemFreeAsync", (Pointer data, Stream stream))                                                  \
  X(host_allocate, "cuMemHostAlloc", (void** data, size_t bytes, unsigned flags))                                   \
  X(host_release, "cuMemFreeHost", (void* data))                                                                    \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (Pointer to, const void* from, size_t bytes, Stream stream))                   \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void* to, Pointer from, size_t bytes, Stream stream))                        \
  X(copy_within, "cuMemcpyDtoDAsync_v2", (Pointer to, Pointer from, size_t bytes, Stream stream))                   \
  X(copy_peer, "cuMemcpyPeerAsync",                                                                                 \
    (Pointer to, Context to_context, Pointer from, Context from_context, size_t bytes, Stream stream))              \
  X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                                             \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                                          \
  X(stream_synchronize, "cuStreamSynchronize", (Stream stream))                                                     \
  X(stream_query, "cuStreamQuery", (Stream stream))                                                                 \
  X(stream_wait, "cuStreamWaitEvent", (Stream stream, DriverEvent event, unsigned flags))                           \
  X(capture_begin, "cuStreamBeginCapture_v2", (Stream stream, int mode))                                            \
  X(capture_end, "cuStreamEndCapture", (Stream stream, DriverGraph * graph))                                        \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                                               \
    (Executable * executable, DriverGraph graph, unsigned long long flags))                                         \
  X(graph_launch, "cuGraphLaunch", (Executable executable, Stream stream))                                          \
  X(graph_destroy, "cuGraphDestroy", (DriverGraph graph))                                                           \
  X(executable_destroy, "cuGraphExecDestroy", (Executable executable))                                              \
  X(event_create, "cuEventCreate", (DriverEvent * event, unsigned flags))                                           \
  X(event_record, "cuEventRecord", (DriverEvent event, Stream stream))                                              \
  X(event_query, "cuEventQuery", (DriverEvent event))                                                               \
  X(event_synchronize, "cuEventSynchronize", (DriverEvent event))                                                   \
  X(event_destroy, "cuEventDestroy_v2", (DriverEvent event))                                                        \
  X(module_load, "cuModuleLoadData", (Module * module, const void* image))                                          \
  X(module_function, "cuModuleGetFunction", (Function * function, Module module, const char* name))                 \
  X(function_set, "cuFuncSetAttribute", (Function function, int attribute, int value))                              \
  X(launch, "cuLaunchKernelEx",                                                                                     \
    (const LaunchConfig* config, Function function, void** arguments, void** extra))                                \
  X(error_name, "cuGetErrorName", (Result result, const char** text))                                               \
  X(error_text, "cuGetErrorString", (Result result, const char** text))

#define CLIKA_NVRTC_FUNCTIONS(X)                                                                                    \
  X(version, "nvrtcVersion", (int* major, int* minor))                                                              \
  X(arch_count, "nvrtcGetNumSupportedArchs", (int* count))                                                          \
  X(archs, "nvrtcGetSupportedArchs", (int* archs))                                                                  \
  X(create, "nvrtcCreateProgram",                                                                                   \
    (void** program, const char* source, const char* name, int n_headers, const char* const* headers,               \
     const char* const* header_names))                                                                              \
  X(compile, "nvrtcCompileProgram", (void* program, int n_options, const char* const* options))                     \
  X(log_size, "nvrtcGetProgramLogSize", (void* program, size_t* bytes))                                             \
  X(log, "nvrtcGetProgramLog", (void* program, char* text))                                                         \
  X(cubin_size, "nvrtcGetCUBINSize", (void* program, size_t* bytes))                                                \
  X(cubin, "nvrtcGetCUBIN", (void* program, char* image))                                                           \
  X(destroy, "nvrtcDestroyProgram", (void** program))

struct Driver {
#define CLIKA_X(member, symbol, parameters) Result(*member) parameters = nullptr;
  CLIKA_DRIVER_FUNCTIONS(CLIKA_X)
#undef CLIKA_X
  int version = 0;  // 1000 * major + 10 * minor
};
struct Nvrtc {
#define CLIKA_X(member, symbol, parameters) Result(*member) parameters = nullptr;
  CLIKA_NVRTC_FUNCTIONS(CLIKA_X)
#undef CLIKA_X
  int major_version = 0;
  int minor_version = 0;
};

// Where libraries and sources are; set before anything else is asked.
struct Settings {
  std::vector<std::string> driver, nvrtc, cublaslt;  // candidates, best first
  std::string sources;                               // folder of the kernels
  std::string cache;                                 // folder of compiled kernels
};
Settings& settings();

// Opens the first library that the system finds; null and the reason of each refusal in `why`.
void* open_library(const std::vector<std::string>& candidates, std::string* why);
void* library_symbol(void* library, const char* name);

// The driver, initialised; null and `why` when there is none or it does not start.
const Driver* driver(std::string* why);
// The compiler; null and `why` when there is none.
const Nvrtc* nvrtc(std::string* why);
// "CUDA_ERROR_NAME (text)" of a result.
std::string result_text(Result result);
std::string version_text(int version);  // 13010: "13.1"

// Why nothing can run here; empty when it can.
std::string probe();

}  // namespace clika_cuda
