// How large the machine's last cache is.
#pragma once
#include <cstddef>

namespace carat {

/// Bytes of the last-level cache that a core reads through; 0 when the system doesn't say.
std::size_t last_cache_bytes();

}  // namespace carat
