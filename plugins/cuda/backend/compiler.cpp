#include "compiler.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <unordered_map>

#if defined(_WIN32)
#include <process.h>
#define CLIKA_PROCESS _getpid()
#else
#include <unistd.h>
#define CLIKA_PROCESS getpid()
#endif

namespace clika_cuda {

namespace fs = std::filesystem;

namespace {

// Two FNV-1a hashes with different bases: a name that tells kernels apart, no protection against somebody who can write
// to the user's cache folder.
uint64_t hash_of(const std::string& text, uint64_t basis) {
  uint64_t hash = basis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * UINT64_C(0x100000001B3);
  return hash ^ (hash >> 29);
}
std::string hex(uint64_t value) {
  static const char* digits = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) text[static_cast<size_t>(i)] = digits[value & 15];
  return text;
}

bool read_file(const fs::path& path, std::string* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  std::ostringstream text;
  text << file.rdbuf();
  *out = text.str();
  return !file.bad();
}

// The headers of the package, which every source may include, by name.
const std::map<std::string, std::string>& headers() {
  static const auto* found = [] {
    auto* all = new std::map<std::string, std::string>();
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(settings().sources, error)) {
      if (entry.path().extension() == ".cuh") read_file(entry.path(), &(*all)[entry.path().filename().string()]);
    }
    return all;
  }();
  return *found;
}

std::vector<std::string> options_of(const std::string& defines, const std::string& arch) {
  std::vector<std::string> options = {"--gpu-architecture=" + arch, "--std=c++17", "--fmad=true", "-default-device"};
  std::istringstream words(defines);
  for (std::string word; words >> word;) options.push_back("-D" + word);
  return options;
}

// ---------------------------------------------------------------- files of the cache
constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // far above what a kernel takes
constexpr char kMagic[8] = {'C', 'L', 'K', 'C', 'U', 'B', '0', '1'};
struct Header {
  char magic[8];
  uint64_t key, bytes, checksum;
};

bool read_cached(const fs::path& path, uint64_t key, std::string* cubin) {
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  // Nothing is read but a file of ours, of the size that it says: another may be endless, or make the reader wait.
  if (fs::is_regular_file(path, error)) {
    const uintmax_t size = fs::file_size(path, error);
    std::ifstream file(path, std::ios::binary);
    if (error || !file) return false;
    Header header{};
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    if (file && std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 && header.key == key &&
        header.bytes <= kMostBytes && size == sizeof(header) + header.bytes) {
      cubin->resize(static_cast<size_t>(header.bytes));
      file.read(cubin->data(), static_cast<std::streamsize>(header.bytes));
      if (file && header.checksum == hash_of(*cubin, header.key)) return true;
    }
  }
  ++compiler_counters().damaged;
  return false;
}

// Beside its name, then renamed: other processes see all of it or nothing. A folder that cannot be written to costs the
// time of compiling again.
void write_cached(const fs::path& path, uint64_t key, const std::string& cubin) {
  static std::atomic<uint64_t> serial{0};
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path beside = path;
  beside += "." + std::to_string(CLIKA_PROCESS) + "." + std::to_string(++serial);
  Header header{{}, key, cubin.size(), hash_of(cubin, key)};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
    file.close();
    if (!file) {
      fs::remove(beside, error);
      return;
    }
  }
  fs::rename(beside, path, error);
  if (error) fs::remove(beside, error);
}

// ---------------------------------------------------------------- compiling
bool run_compiler(const Nvrtc& compiler, const std::string& name, const std::string& text,
                  const std::vector<std::string>& options, std::string* cubin) {
  std::vector<const char*> header_texts, header_names, flags;
  for (const auto& [header, content] : headers()) {
    header_names.push_back(header.c_str());
    header_texts.push_back(content.c_str());
  }
  for (const std::string& option : options) flags.push_back(option.c_str());
  void* program = nullptr;
  if (compiler.create(&program, text.c_str(), name.c_str(), static_cast<int>(header_texts.size()), header_texts.data(),
                      header_names.data()) != kSuccess) {
    fail(CLIKA_INTERNAL, "INTERNAL", "kernel " + name + ": the compiler does not take it");
    return false;
  }
  Result result = compiler.compile(program, static_cast<int>(flags.size()), flags.data());
  size_t bytes = 0;
  if (result == kSuccess) result = compiler.cubin_size(program, &bytes);
  if (result == kSuccess) {
    cubin->resize(bytes);
    result = compiler.cubin(program, cubin->data());
  } else {
    std::string log;
    if (compiler.log_size(program, &bytes) == kSuccess && bytes > 1) {
      log.resize(bytes);
      compiler.log(program, log.data());
    }
    std::string all;
    for (const std::string& option : options) all += " " + option;
    fail(CLIKA_INTERNAL, "INTERNAL",
         "kernel " + name + " does not compile (" + std::to_string(result) + ", with" + all + "): " + log.substr(0, 2000));
  }
  compiler.destroy(&program);
  return result == kSuccess;
}

}  // namespace

CompilerCounters& compiler_counters() {
  static auto* counters = new CompilerCounters();
  return *counters;
}

bool architecture(int capability, std::string* arch) {
  std::string why;
  const Nvrtc* compiler = nvrtc(&why);
  if (compiler == nullptr) {
    fail(CLIKA_INTERNAL, "BACKEND_NOT_LOADED", why);
    return false;
  }
  int count = 0;
  compiler->arch_count(&count);
  std::vector<int> archs(static_cast<size_t>(count > 0 ? count : 0));
  if (count > 0) compiler->archs(archs.data());
  int best = 0;
  // Machine code runs on newer devices of its own major.
  for (const int one : archs) {
    if (one <= capability && one / 10 == capability / 10 && one > best) best = one;
  }
  if (best == 0) {
    fail(CLIKA_INTERNAL, "BACKEND_UNAVAILABLE",
         "the installed compiler (NVRTC " + std::to_string(compiler->major_version) + "." +
             std::to_string(compiler->minor_version) + ") makes no code for compute capability " +
             std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
             "; install one that does with: pip install --upgrade 'clika-runtime[cuda]'");
    return false;
  }
  *arch = "sm_" + std::to_string(best);
  return true;
}

bool compile(const std::string& source, const std::string& defines, const std::string& arch, std::string* cubin) {
  std::string why;
  const Nvrtc* compiler = nvrtc(&why);
  if (compiler == nullptr) {
    fail(CLIKA_INTERNAL, "BACKEND_NOT_LOADED", why);
    return false;
  }
  const std::string name = source + ".cu";
  std::string text;
  if (!read_file(fs::path(settings().sources) / name, &text)) {
    fail(CLIKA_INTERNAL, "INTERNAL", "kernel " + name + ": the package lacks the file; install clika-runtime-cuda again");
    return false;
  }
  const std::vector<std::string> options = options_of(defines, arch);
  const Driver* cuda = driver(nullptr);
  std::string key = std::to_string(compiler->major_version) + "." + std::to_string(compiler->minor_version) + " " +
                    std::to_string(cuda == nullptr ? 0 : cuda->version) + "\n";
  for (const std::string& option : options) key += option + "\n";
  key += name + "\n" + text;
  for (const auto& [header, content] : headers()) key += "\n" + header + "\n" + content;
  const uint64_t low = hash_of(key, UINT64_C(0xCBF29CE484222325));
  const uint64_t high = hash_of(key, UINT64_C(0x9AE16A3B2F90404F));
  const fs::path path = fs::path(settings().cache) / arch / (source + "-" + hex(high) + hex(low) + ".cubin");
  if (read_cached(path, low, cubin)) {
    ++compiler_counters().cached;
    return true;
  }
  if (!run_compiler(*compiler, name, text, options, cubin)) return false;
  ++compiler_counters().compiled;
  write_cached(path, low, *cubin);
  return true;
}

Function load(Device& device, const Kernel& kernel) {
  struct Loaded {
    std::mutex mutex;  // held while compiling too: who needs the same kernel waits
    std::unordered_map<std::string, Module> modules;
    std::unordered_map<std::string, Function> functions;
  };
  static auto* all = new Loaded[kMaxDevices];
  Loaded& loaded = all[device.index()];
  const std::string program = std::string(kernel.source) + " " + kernel.defines;
  const std::string full = program + " " + kernel.symbol;
  std::lock_guard<std::mutex> lock(loaded.mutex);
  if (const auto known = loaded.functions.find(full); known != loaded.functions.end()) return known->second;
  const Driver& cuda = device.cuda();
  Module module = nullptr;
  if (const auto known = loaded.modules.find(program); known != loaded.modules.end()) {
    module = known->second;
  } else {
    std::string arch, cubin;
    if (!architecture(device.capability(), &arch)) return nullptr;
    if (!compile(kernel.source, kernel.defines, arch, &cubin)) return nullptr;
    if (device.check(cuda.module_load(&module, cubin.data()), kernel.source) != CLIKA_OK) return nullptr;
    loaded.modules.emplace(program, module);
  }
  Function function = nullptr;
  if (device.check(cuda.module_function(&function, module, kernel.symbol), kernel.symbol) != CLIKA_OK) return nullptr;
  loaded.functions.emplace(full, function);
  return function;
}

}  // namespace clika_cuda
