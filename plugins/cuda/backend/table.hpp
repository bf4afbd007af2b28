// The backend's table.
#pragma once

#include <string>
#include <vector>

#include "clika_runtime/plugin.h"

namespace clika_cuda {

const clika_backend* backend_table();

// What is compiled for a device: source and definitions, each pair once.
struct ProgramText {
  std::string source, defines;
};
std::vector<ProgramText> programs();
// The operators of the table, each once.
std::vector<std::string> operators();

}  // namespace clika_cuda
