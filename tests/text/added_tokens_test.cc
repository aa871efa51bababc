#include "text/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carat {
namespace {

using testing::ElementsAre;

/// The spans of `text`: added tokens as their ids, the text between in quotes.
std::vector<std::string> split(std::vector<AddedToken> tokens, std::string_view text,
                               bool skip_special = false) {
  std::vector<Span> spans;
  AddedTokenMatcher(std::move(tokens)).split(text, skip_special, spans);
  std::vector<std::string> shown;
  for (const Span& span : spans)
    shown.push_back(span.id >= 0 ? std::to_string(span.id)
                                 : '"' + std::string(text.substr(span.begin, span.end - span.begin)) + '"');
  return shown;
}

TEST(AddedTokens, LeftmostThenLongestMatches) {
  const std::vector<AddedToken> tokens = {
      {.content = "ab", .id = 1}, {.content = "abcd", .id = 2}, {.content = "bcdef", .id = 3}};
  EXPECT_THAT(split(tokens, "abcdef"), ElementsAre("2", "\"ef\""));
  EXPECT_THAT(split(tokens, "xabc"), ElementsAre("\"x\"", "1", "\"c\""));
  EXPECT_THAT(split(tokens, "abab"), ElementsAre("1", "1"));
  EXPECT_THAT(split(tokens, ""), ElementsAre());
}

TEST(AddedTokens, WithoutTokensAllIsText) { EXPECT_THAT(split({}, "abc"), ElementsAre("\"abc\"")); }

TEST(AddedTokens, SpecialTokensCanStayText) {
  const std::vector<AddedToken> tokens = {{.content = "<a>", .id = 1, .special = true},
                                          {.content = "b", .id = 2}};
  EXPECT_THAT(split(tokens, "<a>b", true), ElementsAre("\"<a>\"", "2"));
  EXPECT_THAT(split(tokens, "<a>b", false), ElementsAre("1", "2"));
}

TEST(AddedTokens, SingleWordNeedsWordBoundaries) {
  const std::vector<AddedToken> tokens = {{.content = "foo", .id = 1, .single_word = true}};
  EXPECT_THAT(split(tokens, "foo"), ElementsAre("1"));
  EXPECT_THAT(split(tokens, "-foo."), ElementsAre("\"-\"", "1", "\".\""));
  EXPECT_THAT(split(tokens, "foot"), ElementsAre("\"foot\""));
  EXPECT_THAT(split(tokens, "éfoo foo_"), ElementsAre("\"éfoo foo_\""));
}

TEST(AddedTokens, StripSwallowsWhiteSpace) {
  const std::vector<AddedToken> left = {{.content = "x", .id = 1, .lstrip = true}};
  const std::vector<AddedToken> right = {{.content = "x", .id = 1, .rstrip = true}};
  EXPECT_THAT(split(left, "a \n\u3000x b"), ElementsAre("\"a\"", "1", "\" b\""));
  EXPECT_THAT(split(right, "a x \n\u3000b"), ElementsAre("\"a \"", "1", "\"b\""));
}

TEST(AddedTokens, TokenInSwallowedWhiteSpaceCountsAgain) {
  const std::vector<AddedToken> tokens = {{.content = "\n", .id = 1, .rstrip = true}};
  EXPECT_THAT(split(tokens, "\n\n\n"), ElementsAre("1", "1", "1"));
}

TEST(AddedTokens, MegabyteOfSwallowedWhiteSpaceIsReadOnce) {
  const std::vector<AddedToken> tokens = {{.content = "\n", .id = 1, .lstrip = true, .rstrip = true}};
  EXPECT_EQ(split(tokens, std::string(1'000'000, '\n')).size(), 1u);
}

}  // namespace
}  // namespace carat
