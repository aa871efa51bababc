#include "engine/drafter.h"

#include <algorithm>

#include "engine/prompt_lookup.h"
#include "engine/suffix_automaton.h"

namespace carat {

std::vector<int32_t> repeat_from(std::span<const int32_t> tokens, std::size_t position, int count) {
  std::vector<int32_t> repeated;
  for (int i = 0; i < count; ++i, ++position) {
    repeated.push_back(position < tokens.size() ? tokens[position] : repeated[position - tokens.size()]);
  }
  return repeated;
}

std::unique_ptr<Drafter> make_drafter(DraftMethod method) {
  switch (method) {
    case DraftMethod::none:
    case DraftMethod::model:
      return nullptr;
    case DraftMethod::ngram:
      return std::make_unique<PromptLookup>();
    case DraftMethod::suffix:
      return std::make_unique<SuffixDrafter>();
  }
  return nullptr;
}

int DraftLength::next() {
  if (pause_ == 0) return length_;
  --pause_;
  return 0;
}

void DraftLength::report(int drafted, int accepted) {
  constexpr int kPatience = 2, kLongestPauseBits = 5;
  if (drafted == 0) return;
  failures_ = accepted == 0 ? failures_ + 1 : 0;
  if (failures_ > kPatience) pause_ = 1 << std::min(failures_ - kPatience, kLongestPauseBits);
  length_ =
      accepted == drafted ? std::min(most_, std::max(length_, drafted) * 2) : std::min(most_, accepted + 1);
}

}  // namespace carat
