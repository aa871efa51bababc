#include "base/memory_text.h"

namespace carat {
namespace {

struct Unit {
  std::size_t bytes;
  const char* name;
};

/// The largest of which there is a whole one.
Unit unit_of(std::size_t bytes) {
  constexpr Unit kMebibyte{std::size_t{1} << 20, " MiB"}, kKibibyte{std::size_t{1} << 10, " KiB"};
  return bytes >= kMebibyte.bytes ? kMebibyte : bytes >= kKibibyte.bytes ? kKibibyte : Unit{1, " B"};
}

}  // namespace

std::string memory_text(std::size_t bytes) {
  const Unit unit = unit_of(bytes);
  return std::to_string(bytes / unit.bytes) + unit.name;
}

std::string memory_text_up(std::size_t bytes) {
  const Unit unit = unit_of(bytes);
  return std::to_string(bytes / unit.bytes + (bytes % unit.bytes > 0 ? 1 : 0)) + unit.name;
}

}  // namespace carat
