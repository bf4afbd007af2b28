// A compiler of kernels for tests: the CUDA C++ is compiled for the host by the compiler of this machine, with
// emulation.hpp in the place of the device's own functions.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {
struct Program {
  std::string source, name, log, image;
  std::vector<std::pair<std::string, std::string>> headers;
};
// What every program is compiled with. A misaligned access ends the process, as it ends a GPU's context.
constexpr const char* kFlags =
    "-std=c++17 -O1 -w -fPIC -shared -ffp-contract=off -fsanitize=alignment -fsanitize-undefined-trap-on-error "
    "-DCLIKA_EMULATED=1";
void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
}  // namespace

// Of the tests, which compile the header of all programs ahead.
API const char* fake_flags() { return kFlags; }
API int nvrtcVersion(int* major, int* minor) {
  const char* text = std::getenv("FAKE_NVRTC_MAJOR");
  *major = text == nullptr ? 13 : std::atoi(text);
  *minor = 0;
  return 0;
}
API int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}
API int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80;
  archs[1] = 90;
  archs[2] = 120;
  return 0;
}
API int nvrtcCreateProgram(void** program, const char* source, const char* name, int n, const char* const* texts,
                           const char* const* names) {
  auto* made = new Program{source, name, "", "", {}};
  for (int i = 0; i < n; ++i) made->headers.emplace_back(names[i], texts[i]);
  *program = made;
  return 0;
}
API int nvrtcCompileProgram(void* program, int n, const char* const* options) {
  auto* p = static_cast<Program*>(program);
  if (std::getenv("FAKE_CUDA_IDLE") != nullptr) {
    p->image = "FAKECUBN";
    return 0;
  }
  std::string folder = (std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp") + std::string("/fakeXXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return 1;
  for (const auto& [name, text] : p->headers) write_file(folder + "/" + name, text);
  // A kernel has one argument, a structure: the driver gets it as bytes.
  std::string text = p->source + "\n";
  const std::regex kernel("extern \"C\" __global__ void (?:__launch_bounds__\\([^)]*\\) )?(\\w+)\\(const __grid_constant__ (\\w+) ");
  for (auto it = std::sregex_iterator(p->source.begin(), p->source.end(), kernel); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[1], type = (*it)[2];
    const std::string guard = p->source.substr(0, static_cast<size_t>(it->position())).rfind("#if defined(CLIKA_FLAT)") !=
                                      std::string::npos && name.rfind("flat_", 0) == 0
                                  ? "#if defined(CLIKA_FLAT)\n"
                                  : "#if 1\n";
    text += guard + "EMULATED_KERNEL(" + name + ", " + type + ")\n#endif\n";
  }
  write_file(folder + "/" + p->name + ".cpp", text);
  std::string command = std::string(std::getenv("CXX") != nullptr ? std::getenv("CXX") : "c++") +
                        " " + kFlags + " -I" + folder +
                        " -include " + std::getenv("FAKE_CUDA_EMULATION");
  for (int i = 0; i < n; ++i) {
    if (std::strncmp(options[i], "-D", 2) == 0) command += std::string(" '") + options[i] + "'";
  }
  const bool together = p->source.find("over_block") != std::string::npos ||
                        p->source.find("scan_block") != std::string::npos ||
                        p->source.find("__syncthreads") != std::string::npos ||
                        p->source.find("shuffle") != std::string::npos || p->source.find("__shfl") != std::string::npos;
  if (together) command += " -DEMULATED_TOGETHER=1";
  command += " " + folder + "/" + p->name + ".cpp -o " + folder + "/image.so 2> " + folder + "/log";
  const int status = std::system(command.c_str());
  p->log = read_file(folder + "/log");
  if (status == 0) {
    const std::string library = read_file(folder + "/image.so");
    const uint64_t size = library.size();
    p->image = std::string("FAKECUBN") + std::string(reinterpret_cast<const char*>(&size), 8) + library;
  }
  std::system(("rm -r " + folder).c_str());
  return status == 0 ? 0 : 6;
}
API int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return 0;
}
API int nvrtcGetProgramLog(void* program, char* text) {
  std::strcpy(text, static_cast<Program*>(program)->log.c_str());
  return 0;
}
API int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->image.size();
  return 0;
}
API int nvrtcGetCUBIN(void* program, char* image) {
  const std::string& text = static_cast<Program*>(program)->image;
  std::memcpy(image, text.data(), text.size());
  return 0;
}
API int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
