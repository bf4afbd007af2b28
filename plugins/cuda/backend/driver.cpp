#include "driver.hpp"

#include <filesystem>
#include <mutex>
#include <system_error>

#include "compiler.hpp"
#include "device.hpp"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace clika_cuda {

namespace {

constexpr int kOldestDriver = 12000;

template <class Table>
struct Opened {
  std::once_flag once;
  Table table;
  bool usable = false;
  std::string why;
};
// Never destroyed: threads may call until the process is gone.
Opened<Driver>& opened_driver() {
  static auto* opened = new Opened<Driver>();
  return *opened;
}
Opened<Nvrtc>& opened_nvrtc() {
  static auto* opened = new Opened<Nvrtc>();
  return *opened;
}

bool look_up(void* library, const char* symbol, void** out, std::string* why) {
  *out = library_symbol(library, symbol);
  if (*out == nullptr) *why = std::string("the library lacks ") + symbol;
  return *out != nullptr;
}

bool resolve(void* library, Driver* table, std::string* why) {
#define CLIKA_X(member, symbol, parameters) \
  if (!look_up(library, symbol, reinterpret_cast<void**>(&table->member), why)) return false;
  CLIKA_DRIVER_FUNCTIONS(CLIKA_X)
#undef CLIKA_X
  return true;
}
bool resolve(void* library, Nvrtc* table, std::string* why) {
#define CLIKA_X(member, symbol, parameters) \
  if (!look_up(library, symbol, reinterpret_cast<void**>(&table->member), why)) return false;
  CLIKA_NVRTC_FUNCTIONS(CLIKA_X)
#undef CLIKA_X
  return true;
}

void start_driver(Opened<Driver>& opened) {
  std::string why;
  void* library = open_library(settings().driver, &why);
  if (library == nullptr) {
    opened.why = "no NVIDIA driver: " + why;
    return;
  }
  // An old driver lacks entry points too: its version says more than their names.
  int version = 0;
  using Ask = Result (*)(int*);
  const auto ask = reinterpret_cast<Ask>(library_symbol(library, "cuDriverGetVersion"));
  if (ask == nullptr || ask(&version) != kSuccess) {
    opened.why = "the NVIDIA driver does not say its version; is CLIKA_RT_CUDA_DRIVER the path of another library?";
    return;
  }
  if (version < kOldestDriver) {
    opened.why = "the NVIDIA driver is too old: it supports CUDA " + version_text(version) + ", " +
                 version_text(kOldestDriver) + " is needed; update the driver";
    return;
  }
  if (!resolve(library, &opened.table, &why)) {
    opened.why = "the NVIDIA driver cannot be used: " + why;
    return;
  }
  opened.table.version = version;
  const Result result = opened.table.init(0);
  if (result == kNoDevice) {
    opened.why = "no NVIDIA GPU is visible to the driver (a GPU may be hidden by CUDA_VISIBLE_DEVICES)";
    return;
  }
  opened.usable = result == kSuccess;
  if (opened.usable) return;
  const char* name = nullptr;
  opened.table.error_name(result, &name);
  opened.why = "the NVIDIA driver does not start: " + (name != nullptr ? std::string(name) : std::to_string(result));
}

// The compiler looks for its own built-in headers' library where the system looks for libraries, which is not where its
// wheel lies: opened before, it is found by its name.
void open_builtins() {
  for (const std::string& path : settings().nvrtc) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (folder.empty() || !std::filesystem::exists(path, error)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      std::string why;
      if (name.find("nvrtc-builtins") != std::string::npos && name.find(".alt.") == std::string::npos) {
        open_library({entry.path().string()}, &why);
      }
    }
    return;  // of the library that is taken
  }
}

}  // namespace

Settings& settings() {
  static auto* instance = new Settings();
  return *instance;
}

void* open_library(const std::vector<std::string>& candidates, std::string* why) {
  why->clear();
  for (const std::string& path : candidates) {
#if defined(_WIN32)
    void* library = reinterpret_cast<void*>(
        LoadLibraryExA(path.c_str(), nullptr, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS));
    if (library == nullptr && path.find('\\') == std::string::npos) library = LoadLibraryA(path.c_str());
    const std::string said = path + ": error " + std::to_string(GetLastError());
#else
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = library == nullptr ? dlerror() : nullptr;
    const std::string said = error != nullptr ? error : path;
#endif
    if (library != nullptr) return library;
    *why += (why->empty() ? "" : "; ") + said;
  }
  return nullptr;
}

void* library_symbol(void* library, const char* name) {
#if defined(_WIN32)
  return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(library), name));
#else
  return dlsym(library, name);
#endif
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

const Driver* driver(std::string* why) {
  Opened<Driver>& opened = opened_driver();
  std::call_once(opened.once, [&] { start_driver(opened); });
  if (!opened.usable && why != nullptr) *why = opened.why;
  return opened.usable ? &opened.table : nullptr;
}

const Nvrtc* nvrtc(std::string* why) {
  Opened<Nvrtc>& opened = opened_nvrtc();
  std::call_once(opened.once, [&] {
    std::string reason;
    open_builtins();
    void* library = open_library(settings().nvrtc, &reason);
    if (library == nullptr) {
      opened.why = "the compiler of CUDA kernels (NVRTC) is missing; install it with: pip install "
                   "'clika-runtime[cuda]' (" + reason + ")";
      return;
    }
    opened.usable = resolve(library, &opened.table, &reason) &&
                    opened.table.version(&opened.table.major_version, &opened.table.minor_version) == kSuccess;
    if (opened.usable) return;
    if (reason.empty()) reason = "it does not say its version";
    opened.why = "the compiler of CUDA kernels (NVRTC) cannot be used; install another with: pip install "
                 "--force-reinstall 'clika-runtime[cuda]' (" + reason + ")";
  });
  if (!opened.usable && why != nullptr) *why = opened.why;
  return opened.usable ? &opened.table : nullptr;
}

std::string result_text(Result result) {
  const Driver* cuda = driver(nullptr);
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuda != nullptr) {
    cuda->error_name(result, &name);
    cuda->error_text(result, &text);
  }
  if (name == nullptr) return "CUDA error " + std::to_string(result);
  return std::string(name) + (text != nullptr ? " (" + std::string(text) + ")" : "");
}

std::string probe() {
  std::string why;
  const Driver* cuda = driver(&why);
  if (cuda == nullptr) return why;
  const Nvrtc* compiler = nvrtc(&why);
  if (compiler == nullptr) return why;
  if (cuda->version / 1000 < compiler->major_version) {
    return "the NVIDIA driver supports CUDA " + version_text(cuda->version) + ", and the installed compiler (NVRTC) is of CUDA " +
           std::to_string(compiler->major_version) + "." + std::to_string(compiler->minor_version) +
           "; update the driver, or install an older compiler with: pip install 'nvidia-cuda-nvrtc-cu12'";
  }
  if (device_count() > 0) return "";
  int seen = 0;
  cuda->device_count(&seen);
  if (seen == 0) return "no NVIDIA GPU is visible to the driver (a GPU may be hidden by CUDA_VISIBLE_DEVICES)";
  return "none of the " + std::to_string(seen) + " NVIDIA GPU(s) has compute capability 8.0 or newer";
}

}  // namespace clika_cuda
