// From CUDA C++ to functions of a device: compiled once per architecture, kept on disk, loaded on first use.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "device.hpp"

namespace clika_cuda {

// One kernel: a source file of the package without its suffix, definitions that it is compiled with ("A=1 B=2"), and
// the name of the function. Constant for the life of the process.
struct Kernel {
  const char* source;
  const char* defines;
  const char* symbol;
};

// The machine code of a source for an architecture ("sm_90"); from the cache when it is there. False: this thread's
// failure says why.
bool compile(const std::string& source, const std::string& defines, const std::string& arch, std::string* cubin);
// The function, ready to launch. Null: this thread's failure says why.
Function load(Device& device, const Kernel& kernel);
// The architecture that code for a device is compiled for: the newest one the compiler knows that runs there.
bool architecture(int capability, std::string* arch);

// How often this process compiled a source, and found one in the cache.
struct CompilerCounters {
  std::atomic<uint64_t> compiled{0}, cached{0}, damaged{0};
};
CompilerCounters& compiler_counters();

}  // namespace clika_cuda
