// The kinds of errors, as the public API names them.
#include <new>

#include "base/error.h"
#include "carat/error.h"

namespace carat {
namespace {

constexpr bool same(ErrorKind kind, ErrorCode code) {
  return static_cast<int>(kind) == static_cast<int>(code);
}
static_assert(same(ErrorKind::invalid_argument, ErrorCode::invalid_argument));
static_assert(same(ErrorKind::not_found, ErrorCode::not_found));
static_assert(same(ErrorKind::corrupt, ErrorCode::corrupt));
static_assert(same(ErrorKind::unsupported, ErrorCode::unsupported));
static_assert(same(ErrorKind::unavailable, ErrorCode::unavailable));
static_assert(same(ErrorKind::out_of_memory, ErrorCode::out_of_memory));
static_assert(same(ErrorKind::device, ErrorCode::device));

}  // namespace

inline namespace v1 {

ErrorCode error_code(const std::exception& error) noexcept {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return static_cast<ErrorCode>(ours->kind());
  return dynamic_cast<const std::bad_alloc*>(&error) ? ErrorCode::out_of_memory : ErrorCode::other;
}

}  // namespace v1
}  // namespace carat
