#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace carat {
namespace {

/// Where the white space that ends at `end` begins, but not before `floor`.
std::size_t white_space_begin(std::string_view text, std::size_t floor, std::size_t end) {
  while (end > floor && is_white_space(character_before(text, end))) {
    do --end;
    while ((static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u);
  }
  return end;
}

std::size_t white_space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_white_space(character_at(text, begin)))
    begin += character_bytes(text, begin);
  return begin;
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_word_character(character_before(text, begin))) &&
         (end == text.size() || !is_word_character(character_at(text, end)));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    uint32_t node = 0;
    for (const char c : tokens_[i].content) {
      const auto next_node = static_cast<uint32_t>(token_at_node_.size());
      const auto [edge, is_new] =
          edges_.try_emplace(uint64_t{node} << 8 | static_cast<unsigned char>(c), next_node);
      if (is_new) token_at_node_.push_back(-1);
      node = edge->second;
    }
    token_at_node_[node] = static_cast<int32_t>(i);
    may_begin_[static_cast<unsigned char>(tokens_[i].content[0])] = true;
  }
}

bool AddedTokenMatcher::next_match(std::string_view text, std::size_t from, Match& match) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!may_begin_[static_cast<unsigned char>(text[begin])]) continue;
    int32_t longest = -1;
    uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[at]));
      if (edge == edges_.end()) break;
      node = edge->second;
      if (token_at_node_[node] >= 0) longest = token_at_node_[node];
    }
    if (longest >= 0) {
      const AddedToken& token = tokens_[static_cast<std::size_t>(longest)];
      match = {begin, begin + token.content.size(), &token};
      return true;
    }
  }
  return false;
}

void AddedTokenMatcher::split(std::string_view text, bool skip_special, std::vector<Span>& spans) const {
  spans.clear();
  std::size_t done = 0;       // everything before is in `spans`
  std::size_t space_end = 0;  // end of the white space swallowed last, so that a run of it is read once
  Match match{};
  for (std::size_t from = 0; next_match(text, from, match); from = match.end) {
    const AddedToken& token = *match.token;
    if (skip_special && token.special) continue;
    if (token.single_word && !is_single_word(text, match.begin, match.end)) continue;
    std::size_t begin = match.begin, end = match.end;
    if (token.lstrip) begin = std::max(done, white_space_begin(text, done, begin));
    if (token.rstrip) end = space_end = end < space_end ? space_end : white_space_end(text, end);
    if (done < begin) spans.push_back({-1, done, begin});
    // A token inside white space that the one before has swallowed counts again, unless lstrip leaves nothing
    // of it.
    if (begin < end) spans.push_back({token.id, begin, end});
    done = end;
  }
  if (done != text.size()) spans.push_back({-1, done, text.size()});
}

}  // namespace carat
