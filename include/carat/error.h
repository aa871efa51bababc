// What goes wrong before a reply begins: loading, configuration, requests that can't be. How a reply ended is
// never an exception but a value; see FinishReason.
#pragma once
#include <exception>

namespace carat {
inline namespace v1 {

/// Every function that fails throws a std::runtime_error whose what() is one line: what is wrong, where
/// (file, tensor, field), and, where it helps, what to do. error_code() tells more of it.
enum class ErrorCode {
  invalid_argument,  // what the caller asked for is impossible
  not_found,         // no such file or model
  corrupt,           // a file is not what it says it is
  unsupported,       // a file is fine, but it can't be run
  unavailable,       // not here or not now: no such device, too many requests, shutting down
  out_of_memory,
  device,  // a device failed
  other    // an exception that isn't ours
};
ErrorCode error_code(const std::exception& error) noexcept;

}  // namespace v1
}  // namespace carat
