#include "grammar/token_trie.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace carat::grammar {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  std::vector<std::pair<std::string_view, int32_t>> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (!bytes.empty() && !tokenizer.is_special(id)) tokens.emplace_back(bytes, id);
  }
  std::ranges::sort(tokens);
  beginning_.assign(256, 0);
  std::vector<uint32_t> path{0};  // nodes of the last token, the root first
  bytes_.push_back(0), first_id_.push_back(0), behind_.push_back(0);
  std::string_view last;
  for (const auto& [bytes, id] : tokens) {
    const auto shared = static_cast<std::size_t>(std::ranges::mismatch(last, bytes).in1 - last.begin());
    for (; path.size() > shared + 1; path.pop_back()) behind_[path.back()] = size();
    for (std::size_t at = shared; at < bytes.size(); ++at) {
      path.push_back(size());
      bytes_.push_back(static_cast<uint8_t>(bytes[at]));
      first_id_.push_back(static_cast<uint32_t>(ids_.size()));
      behind_.push_back(0);
    }
    ids_.push_back(id);
    ++beginning_[static_cast<uint8_t>(bytes[0])];
    const auto is_first = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    most_characters_ =
        std::max(most_characters_, static_cast<uint32_t>(std::ranges::count_if(bytes, is_first)));
    last = bytes;
  }
  for (; !path.empty(); path.pop_back()) behind_[path.back()] = size();
  first_id_.push_back(static_cast<uint32_t>(ids_.size()));
  for (std::size_t byte = 1; byte < 256; ++byte) beginning_[byte] += beginning_[byte - 1];
}

}  // namespace carat::grammar
