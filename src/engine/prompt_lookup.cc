#include "engine/prompt_lookup.h"

#include <algorithm>

namespace carat {

std::vector<int32_t> PromptLookup::draft(std::span<const int32_t> tokens, int most) {
  constexpr std::size_t kShortest = 2, kLongest = 4;
  const std::size_t size = tokens.size();
  std::size_t best_length = kShortest - 1, best_end = 0;
  for (std::size_t end = size - 1; end >= kShortest && best_length < kLongest; --end) {
    std::size_t length = 0;
    while (length < std::min(kLongest, end) && tokens[end - 1 - length] == tokens[size - 1 - length])
      ++length;
    if (length > best_length) {
      best_length = length;
      best_end = end;
    }
  }
  if (best_end == 0) return {};
  return repeat_from(tokens, best_end, most);
}

}  // namespace carat
