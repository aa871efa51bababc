// Errors of loading, configuration and request validation, and the check for programmer errors.
// The outcome of a request (stop, length, cancelled) is never an exception but a value; see engine/engine.h.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

namespace carat {

enum class ErrorKind {
  invalid_argument,
  not_found,
  corrupt,
  unsupported,
  unavailable,
  out_of_memory,
  device
};

/// One line that says what is wrong, where (file, tensor, field), and, where it helps, what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws Error with the parts written one after another: fail(ErrorKind::corrupt, path, ": ", n, " bytes
/// missing").
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(kind, message.str());
}

}  // namespace carat

/// Programmer errors only: on in every build, so keep the condition cheap.
#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
