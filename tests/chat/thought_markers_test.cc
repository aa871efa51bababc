#include "chat/thought_markers.h"

#include <gtest/gtest.h>

#include "chat/chat_tokenizer.h"

namespace carat {
namespace {

TEST(ThoughtMarkers, TheLastMarkerSaysWhetherAThoughtIsOpen) {
  const auto tokenizer = chat_tokenizer();
  const ThoughtMarkers markers(*tokenizer);
  ASSERT_TRUE(markers.known());
  const auto open = [&](const std::vector<int32_t>& prompt) { return markers.open_thought(prompt); };
  const int32_t a = tokenizer->find("a");
  EXPECT_EQ(open({}), std::nullopt);
  EXPECT_EQ(open({a, a}), std::nullopt);
  EXPECT_EQ(open({a, markers.begin, a}), 1u);
  EXPECT_EQ(open({a, markers.begin, a, markers.end}), std::nullopt);
  EXPECT_EQ(open({markers.begin, markers.end, markers.begin}), 2u);
}

TEST(ThoughtMarkers, AVocabularyWithoutThemLeavesNoThoughtOpen) {
  const auto tokenizer = parse_tokenizer(small_tokenizer_json({"a"}, {}));
  const ThoughtMarkers markers(*tokenizer);
  EXPECT_FALSE(markers.known());
  EXPECT_EQ(markers.open_thought(std::vector<int32_t>{-1, 3}), std::nullopt);
}

}  // namespace
}  // namespace carat
