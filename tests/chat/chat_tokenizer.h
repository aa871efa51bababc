// A small tokenizer with the control tokens of Gemma 4, for the tests of chat/.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/small_tokenizer.h"

namespace carat {

inline const std::vector<std::string>& control_tokens() {
  static const std::vector<std::string> tokens = {
      "<eos>",      "<|turn>",      "<turn|>",      "<|think|>",        "<|channel>",
      "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
      "<|tool>",    "<tool|>",      "<|\"|>"};
  return tokens;
}

/// Bytes, single ASCII characters, and a few longer pieces.
inline std::shared_ptr<const Tokenizer> chat_tokenizer() {
  std::vector<std::string> pieces = {"▁", "\n", "€"};
  for (char c = '!'; c <= '~'; ++c) pieces.emplace_back(1, c);
  std::vector<std::pair<std::string, std::string>> merges = {
      {"t", "h"},      {"o", "u"}, {"th", "ou"}, {"g", "h"},   {"gh", "t"},
      {"thou", "ght"}, {"c", "a"}, {"l", "l"},   {"ca", "ll"}, {"call", ":"}};
  for (const auto& [left, right] : merges) pieces.push_back(left + right);
  nlohmann::json document = small_tokenizer_json(pieces, merges);
  std::size_t id = document["model"]["vocab"].size();
  for (const std::string& token : control_tokens())
    document["added_tokens"].push_back({{"id", id++}, {"content", token}, {"special", true}});
  return parse_tokenizer(document);
}

}  // namespace carat
