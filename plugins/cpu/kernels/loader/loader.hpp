// The backend table for a level.
#pragma once

#include <cstddef>

#include "clika_runtime/plugin.h"

namespace clika_cpu {

// The table for the best level that the machine has and `cap` allows ("" or null: the environment variable
// CLIKA_RT_CPU_ISA, else no cap). Null with a reason when the cap is unknown or the machine lacks it.
const clika_backend* backend_table(const char* cap, char* reason, size_t reason_bytes);

// The name of the best level of this machine, without any cap.
const char* best_level();

}  // namespace clika_cpu
