#include "chat/thought_markers.h"

#include <algorithm>

namespace carat {

std::optional<std::size_t> ThoughtMarkers::open_thought(std::span<const int32_t> prompt) const {
  if (!known()) return std::nullopt;
  const auto is_marker = [&](int32_t id) { return id == begin || id == end; };
  const auto last = std::find_if(prompt.rbegin(), prompt.rend(), is_marker);
  if (last == prompt.rend() || *last == end) return std::nullopt;
  return static_cast<std::size_t>(prompt.rend() - last) - 1;
}

}  // namespace carat
