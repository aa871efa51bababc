#include "server/reply_logprobs.h"

#include <algorithm>
#include <set>

#include "text/unicode.h"

namespace carat {
namespace {

/// JSON has no minus infinity, and clients expect a number.
double shown(float logprob) {
  constexpr float kImpossible = -9999.f;
  return std::max(logprob, kImpossible);
}

void write_chat_token(int32_t id, float logprob, const Tokenizer& tokenizer, JsonText& json) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  json.field("token", bytes).field("logprob", shown(logprob));
  json.name("bytes").array([&] {
    for (const char byte : bytes) json.integer(static_cast<unsigned char>(byte));
  });
}

/// A part of a character is written as its bytes, so that different tokens have different names.
std::string completion_name(int32_t id, const Tokenizer& tokenizer) {
  static constexpr char kHex[] = "0123456789abcdef";
  const std::string_view bytes = tokenizer.token_bytes(id);
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return name;
}

void write_alternatives(const ReplyToken& token, const Tokenizer& tokenizer, JsonText& json) {
  std::set<std::string> names;
  const auto add = [&](int32_t id, float logprob) {
    std::string name = completion_name(id, tokenizer);
    if (names.insert(name).second) json.field(name, shown(logprob));
  };
  json.object([&] {
    for (const TokenLogprob& best : token.logprobs->best) add(best.token, best.logprob);
    add(token.id, token.logprobs->drawn);
  });
}

}  // namespace

void write_chat_logprobs(std::span<const ReplyToken> tokens, const Tokenizer& tokenizer, JsonText& json) {
  json.array([&] {
    for (const ReplyToken& token : tokens) {
      if (!token.logprobs) continue;
      json.object([&] {
        write_chat_token(token.id, token.logprobs->drawn, tokenizer, json);
        json.name("top_logprobs").array([&] {
          for (const TokenLogprob& best : token.logprobs->best)
            json.object([&] { write_chat_token(best.token, best.logprob, tokenizer, json); });
        });
      });
    }
  });
}

void write_completion_logprobs(std::span<const ReplyToken> tokens, const Tokenizer& tokenizer,
                               bool skip_special, std::size_t& offset, JsonText& json) {
  json.object([&] {
    json.name("tokens").array([&] {
      for (const ReplyToken& token : tokens) json.text(completion_name(token.id, tokenizer));
    });
    json.name("token_logprobs").array([&] {
      for (const ReplyToken& token : tokens) json.number(shown(token.logprobs->drawn));
    });
    json.name("top_logprobs").array([&] {
      for (const ReplyToken& token : tokens) write_alternatives(token, tokenizer, json);
    });
    json.name("text_offset").array([&] {
      for (const ReplyToken& token : tokens) {
        json.integer(static_cast<int64_t>(offset));
        const bool is_shown = !skip_special || !tokenizer.is_special(token.id);
        if (is_shown) offset += count_characters(tokenizer.token_bytes(token.id));
      }
    });
  });
}

std::size_t count_characters(std::string_view text) {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

}  // namespace carat
