// Amounts of memory, for messages: "16 MiB", "3 KiB", "700 B".
#pragma once
#include <cstddef>
#include <string>

namespace carat {

/// What there is, rounded down.
std::string memory_text(std::size_t bytes);
/// What is needed, rounded up.
std::string memory_text_up(std::size_t bytes);

}  // namespace carat
