#include "base/cache_size.h"

#include <unistd.h>

#include <algorithm>

namespace carat {

std::size_t last_cache_bytes() {
  long most = 0;
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE})
    most = std::max(most, ::sysconf(level));
  return static_cast<std::size_t>(most);
}

}  // namespace carat
