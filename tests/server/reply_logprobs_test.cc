#include "server/reply_logprobs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/chat_tokenizer.h"

namespace carat {
namespace {

TEST(ReplyLogprobs, OffsetsCountTheCharactersOfTheText) {
  const auto tokenizer = chat_tokenizer();
  std::vector<ReplyToken> tokens;
  for (const char* const piece : {"€", "<turn|>", "a", "a"})
    tokens.push_back({tokenizer->find(piece), TokenLogprobs{}});
  const auto offsets = [&](bool skip_special) {
    JsonText json;
    std::size_t offset = 3;
    write_completion_logprobs(tokens, *tokenizer, skip_special, offset, json);
    nlohmann::json list = nlohmann::json::parse(json.take()).at("text_offset");
    list.push_back(offset);
    return list.get<std::vector<int>>();
  };
  EXPECT_EQ(offsets(/*skip_special=*/true), (std::vector{3, 4, 4, 5, 6}));
  EXPECT_EQ(offsets(/*skip_special=*/false), (std::vector{3, 4, 11, 12, 13}));
}

}  // namespace
}  // namespace carat
