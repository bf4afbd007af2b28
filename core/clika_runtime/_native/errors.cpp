#include <utility>

#include "runtime.hpp"

namespace clika {

ErrorPtr make_error(int32_t status, std::string code, std::string message) {
  return std::make_shared<const Error>(Error{status, std::move(code), std::move(message)});
}

}  // namespace clika
