// Chooses the level at load and assembles the backend table. Compiled for the baseline: it runs first.
#include "loader.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "levels.hpp"
#include "registry.hpp"

#if defined(__linux__)
#include <sched.h>
#if CLIKA_ARM
#include <sys/auxv.h>
#endif
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#if CLIKA_X86
#include <cpuid.h>
#endif

namespace clika_cpu {

#define CLIKA_PLAIN_FILE(stem)
#define CLIKA_LEVEL_FILE(stem) extern const KernelFile file_##stem;
namespace portable {
#include "kernel_files.inc"
}
#if CLIKA_LEVEL_COUNT > 1
namespace CLIKA_LEVEL_1 {
#include "kernel_files.inc"
}
namespace CLIKA_LEVEL_2 {
#include "kernel_files.inc"
struct PairTiles;
const PairTiles* pair_tiles();  // attention_bfloat16.hpp
}
#endif
#undef CLIKA_PLAIN_FILE
#undef CLIKA_LEVEL_FILE
#define CLIKA_LEVEL_FILE(stem)
#define CLIKA_PLAIN_FILE(stem) extern const KernelFile file_##stem;
namespace plain {
#include "kernel_files.inc"
}
#undef CLIKA_PLAIN_FILE
#undef CLIKA_LEVEL_FILE

namespace {

#define CLIKA_TEXT_OF(x) #x
#define CLIKA_TEXT(x) CLIKA_TEXT_OF(x)
const char* const kLevelNames[] = {"portable",
#if CLIKA_LEVEL_COUNT > 1
                                   CLIKA_TEXT(CLIKA_LEVEL_1), CLIKA_TEXT(CLIKA_LEVEL_2)
#endif
};

#define CLIKA_LEVEL_FILE(stem) &file_##stem,
#define CLIKA_PLAIN_FILE(stem) &plain::file_##stem,
std::vector<const KernelFile*> files_of(int level) {
  switch (level) {
    case 0: {
      using namespace portable;
      return {
#include "kernel_files.inc"
      };
    }
#if CLIKA_LEVEL_COUNT > 1
    case 1: {
      using namespace CLIKA_LEVEL_1;
      return {
#include "kernel_files.inc"
      };
    }
    case 2: {
      using namespace CLIKA_LEVEL_2;
      return {
#include "kernel_files.inc"
      };
    }
#endif
    default:
      return {};
  }
}
#undef CLIKA_PLAIN_FILE
#undef CLIKA_LEVEL_FILE

#if CLIKA_X86
// The vector registers that the system saves: bit 1 SSE, 2 AVX, 5-7 AVX-512.
uint64_t saved_registers() {
  uint32_t low;
  uint32_t high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

int detect_level() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  const bool osxsave = c & (1u << 27);
  const bool fma = c & (1u << 12);
  const bool f16c = c & (1u << 29);
  const bool avx = c & (1u << 28);
  if (!osxsave || !fma || !f16c || !avx) return 0;
  const uint64_t saved = saved_registers();
  if ((saved & 0x6) != 0x6) return 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  const bool bmi = (b & (1u << 3)) && (b & (1u << 8));
  if (!(b & (1u << 5)) || !bmi) return 0;
  const uint32_t needed = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);  // f, dq, bw, vl
  const bool vnni = c & (1u << 11);
  if ((saved & 0xe6) == 0xe6 && (b & needed) == needed && vnni) return 2;
  return 1;
}

void read_name(char* out, size_t bytes) {
  uint32_t brand[12] = {0};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t* r = brand + 4 * i;
    if (!__get_cpuid(0x80000002u + i, r, r + 1, r + 2, r + 3)) break;
  }
  char text[49] = {0};
  std::memcpy(text, brand, 48);
  const char* start = text;
  while (*start == ' ') ++start;
  std::snprintf(out, bytes, "%s", *start ? start : "x86-64 CPU");
}
#else
#if CLIKA_ARM && defined(__linux__)
int detect_level() {
  // The bits of the Linux ABI, spelled out: old headers lack the later ones.
  const unsigned long first = getauxval(16);   // AT_HWCAP
  const unsigned long second = getauxval(26);  // AT_HWCAP2
  const bool dotprod = first & (1ul << 20);
  const bool i8mm = second & (1ul << 13);
  const bool bf16 = second & (1ul << 14);
  return !dotprod ? 0 : i8mm && bf16 ? 2 : 1;
}
#elif CLIKA_ARM && defined(__APPLE__)
bool has(const char* feature) {
  int32_t value = 0;
  size_t size = sizeof(value);
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}
int detect_level() {
  if (!has("hw.optional.arm.FEAT_DotProd")) return 0;
  return has("hw.optional.arm.FEAT_I8MM") && has("hw.optional.arm.FEAT_BF16") ? 2 : 1;
}
#else
int detect_level() { return 0; }
#endif

void read_name(char* out, size_t bytes) { std::snprintf(out, bytes, "%s", "CPU"); }
#endif

int machine_level() {
  static const int level = detect_level();
  return level < CLIKA_LEVEL_COUNT ? level : CLIKA_LEVEL_COUNT - 1;
}

int32_t units() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
#if defined(_SC_NPROCESSORS_ONLN)
  return static_cast<int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
#else
  return 1;
#endif
}

int32_t memory_info(int32_t, int64_t* free_bytes, int64_t* total_bytes) {
  *free_bytes = 0;
  *total_bytes = 0;
#if defined(__linux__)
  if (std::FILE* file = std::fopen("/proc/meminfo", "r")) {
    char line[256];
    long long kilobytes = 0;
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      if (std::sscanf(line, "MemTotal: %lld", &kilobytes) == 1) *total_bytes = kilobytes * 1024;
      if (std::sscanf(line, "MemAvailable: %lld", &kilobytes) == 1) *free_bytes = kilobytes * 1024;
    }
    std::fclose(file);
  }
#elif defined(__APPLE__)
  uint64_t total = 0;
  size_t size = sizeof(total);
  sysctlbyname("hw.memsize", &total, &size, nullptr, 0);
  *total_bytes = static_cast<int64_t>(total);
  *free_bytes = *total_bytes;
#endif
  return CLIKA_OK;
}

// Whether the level's kernels multiply pairs of bfloat16, which gives other bits than the same level without.
template <int kLevel>
bool multiplies_pairs() {
#if CLIKA_LEVEL_COUNT > 1
  return kLevel == 2 && CLIKA_LEVEL_2::pair_tiles() != nullptr;
#else
  return false;
#endif
}

template <int kLevel>
int32_t device_properties(int32_t device, clika_device_properties* out) {
  if (device != 0) return CLIKA_NOT_FOUND;
  const uint32_t size = out->size;
  clika_device_properties p;
  std::memset(&p, 0, sizeof(p));
  p.size = sizeof(p);
  read_name(p.name, sizeof(p.name));
  int64_t free_bytes = 0;
  memory_info(0, &free_bytes, &p.memory_bytes);
  p.units = units();
  p.warp = 1;
  p.fp16 = 1;
  p.bf16 = 1;
  std::snprintf(p.isa, sizeof(p.isa), "%s%s", kLevelNames[kLevel], multiplies_pairs<kLevel>() ? "_bf16" : "");
  std::memcpy(out, &p, size > 0 && size < sizeof(p) ? size : sizeof(p));
  out->size = size > 0 ? size : static_cast<uint32_t>(sizeof(p));
  return CLIKA_OK;
}

int32_t device_count() { return 1; }

struct Table {
  clika_backend backend;
  std::vector<clika_kernel> kernels;
  std::vector<std::string> names;
};

const clika_backend* build(int level) {
  static std::mutex lock;
  static Table* tables[3] = {nullptr, nullptr, nullptr};  // kept for the life of the process
  const std::lock_guard<std::mutex> guard(lock);
  if (tables[level]) return &tables[level]->backend;
  Table* table = new Table();
  clika_backend& backend = table->backend;
  std::memset(&backend, 0, sizeof(backend));
  for (const KernelFile* file : files_of(level)) {
    table->kernels.insert(table->kernels.end(), file->kernels, file->kernels + file->n);
    if (file->repacking) {
      backend.pack_info = file->repacking->pack_info;
      backend.pack = file->repacking->pack;
      backend.unpack = file->repacking->unpack;
    }
  }
  table->names.reserve(table->kernels.size());
  for (clika_kernel& kernel : table->kernels) {
    if (kernel.name) continue;
    table->names.push_back(std::string(kernel.op) + " (" + kLevelNames[level] + ")");
    kernel.name = table->names.back().c_str();
  }
  backend.size = sizeof(backend);
  backend.abi = CLIKA_PLUGIN_ABI;
  backend.name = "cpu";
  backend.kernels = table->kernels.data();
  backend.n_kernels = static_cast<uint32_t>(table->kernels.size());
  backend.kernel_size = sizeof(clika_kernel);
  backend.device_count = device_count;
  backend.device_properties = level == 0   ? device_properties<0>
                              : level == 1 ? device_properties<1>
                                           : device_properties<2>;
  backend.memory_info = memory_info;
  tables[level] = table;
  return &backend;
}

}  // namespace

const char* best_level() { return kLevelNames[machine_level()]; }

const clika_backend* backend_table(const char* cap, char* reason, size_t reason_bytes) {
  const bool asked = cap && *cap;
  const char* wanted = asked ? cap : std::getenv("CLIKA_RT_CPU_ISA");
  int level = machine_level();
  if (wanted && *wanted) {
    int named = -1;
    for (int i = 0; i < CLIKA_LEVEL_COUNT; ++i) {
      if (std::strcmp(wanted, kLevelNames[i]) == 0) named = i;
    }
    if (named < 0) {
      int used = std::snprintf(reason, reason_bytes, "CLIKA_RT_CPU_ISA is '%.64s'; it takes", wanted);
      for (int i = 0; i < CLIKA_LEVEL_COUNT; ++i) {
        const char* between = i == 0 ? "" : i + 1 < CLIKA_LEVEL_COUNT ? "," : " or";
        used += std::snprintf(reason + used, reason_bytes - static_cast<size_t>(used), "%s %s", between,
                              kLevelNames[i]);
      }
      return nullptr;
    }
    if (named < level) level = named;
  }
  return build(level);
}

}  // namespace clika_cpu
