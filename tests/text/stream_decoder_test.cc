#include "text/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/expect_error.h"
#include "text/small_tokenizer.h"
#include "text/unicode.h"

namespace carat {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

constexpr int32_t kByte = 2;  // id of <0x00>

std::shared_ptr<const Tokenizer> letters() {
  static const auto tokenizer = parse_tokenizer(small_tokenizer_json({"a", "b", "c", "▁", "abc"}, {}));
  return tokenizer;
}
constexpr int32_t kA = 258, kB = 259, kC = 260, kSpace = 261, kAbc = 262;

/// What push() returns for each id, and finish() at the end.
std::vector<std::string> stream(const Ids& ids, std::vector<std::string> stops = {},
                                bool skip_special = false) {
  StreamDecoder decoder(letters(), std::move(stops), skip_special);
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(decoder.push(id));
  pieces.push_back(decoder.finish());
  return pieces;
}

TEST(StreamDecoder, TextAppearsAtOnce) {
  EXPECT_THAT(stream({kA, kSpace, kAbc}), ElementsAre("a", " ", "abc", ""));
}

TEST(StreamDecoder, CharacterOfSeveralBytePiecesComesWhole) {
  const Ids emoji = {kByte + 0xF0, kByte + 0x9F, kByte + 0x98, kByte + 0x80};
  EXPECT_THAT(stream(emoji), ElementsAre("", "", "", "", "😀"));
  Ids then_text = emoji;
  then_text.push_back(kA);
  EXPECT_THAT(stream(then_text), ElementsAre("", "", "", "", "😀a", ""));
}

TEST(StreamDecoder, InvalidBytesDoNotStallTheStream) {
  EXPECT_THAT(stream({kByte + 0xE3, kA}), ElementsAre("", "\uFFFDa", ""));
  EXPECT_THAT(stream({kByte + 0xFF, kByte + 0xFF, kByte + 0x41}),
              ElementsAre("\uFFFD", "\uFFFD", "\uFFFD", ""));
  EXPECT_THAT(stream({kByte + 0xE3, kByte + 0x81}), ElementsAre("", "", "\uFFFD\uFFFD"));
}

TEST(StreamDecoder, SkippedAndUnknownTokensAreSilent) {
  EXPECT_THAT(stream({kA, 1, 9999, -1}, {}, true), ElementsAre("a", "", "", "", ""));
  EXPECT_THAT(stream({kA, 1}, {}, false), ElementsAre("a", "<bos>", ""));
  EXPECT_THAT(stream({kByte + 0xC3, 1, kByte + 0xA9}, {}, true), ElementsAre("", "", "", "é"));
}

TEST(StreamDecoder, StopStringAcrossTokensIsNeverShown) {
  EXPECT_THAT(stream({kC, kA, kB, kC, kA}, {"abc"}), ElementsAre("c", "", "", "", "", ""));
  EXPECT_THAT(stream({kA, kB, kA}, {"abc"}), ElementsAre("", "", "ab", "a"));
  EXPECT_THAT(stream({kA, kA, kB, kC}, {"abc"}), ElementsAre("", "a", "", "", ""));
  EXPECT_THAT(stream({kAbc, kA}, {"b"}), ElementsAre("a", "", ""));
}

TEST(StreamDecoder, StopsOnceAndForAll) {
  StreamDecoder decoder(letters(), {"b"}, false);
  EXPECT_EQ(decoder.push(kA), "a");
  EXPECT_FALSE(decoder.stopped());
  EXPECT_EQ(decoder.push(kB), "");
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(decoder.push(kA), "");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, StopStringThatEndsFirstCounts) {
  EXPECT_THAT(stream({kAbc}, {"abc", "b"}), ElementsAre("a", ""));
  EXPECT_THAT(stream({kA, kB, kC}, {"abc", "b"}), ElementsAre("", "a", "", ""));
  EXPECT_THAT(stream({kAbc}, {"bc", "abc", "c"}), ElementsAre("", ""));  // all end together: the longest
}

TEST(StreamDecoder, StopStringsAreValidated) {
  expect_error(ErrorKind::invalid_argument, {"empty"}, [] { StreamDecoder(letters(), {""}, false); });
  expect_error(ErrorKind::invalid_argument, {"UTF-8"}, [] { StreamDecoder(letters(), {"\x80"}, false); });
}

/// Ids that often make byte runs, valid and not.
Ids random_ids(std::mt19937& random) {
  Ids ids(1 + random() % 20);
  for (int32_t& id : ids) {
    const auto pick = static_cast<int32_t>(random() % 1000);
    const Ids common = {
        kByte + 0xC3, kByte + 0xA9, kByte + 0xE2, kByte + 0x96, kByte + 0x81, kA, kB, kC, kSpace, kAbc, 1};
    id = pick < 300 ? pick : common[static_cast<std::size_t>(pick) % common.size()];
  }
  return ids;
}

TEST(StreamDecoder, JoinedPiecesEqualDecodeCutAtTheStopString) {
  std::mt19937 random(2);
  const std::vector<std::vector<std::string>> stop_sets = {
      {}, {"ab"}, {"abc", "b c", "é"}, {" \uFFFD", "aa", "cc"}};
  for (int round = 0; round < 20'000; ++round) {
    const Ids ids = random_ids(random);
    const bool skip_special = round % 2 == 0;
    const auto& stops = stop_sets[static_cast<std::size_t>(round) % stop_sets.size()];
    std::string joined;
    for (const std::string& piece : stream(ids, stops, skip_special)) {
      EXPECT_TRUE(is_valid_utf8(piece));
      joined += piece;
    }
    std::string expected = letters()->decode(ids, skip_special);
    for (std::size_t end = 1; end <= expected.size();
         ++end) {  // the stop string that ends first, the longest
      std::size_t longest = 0;
      for (const std::string& stop : stops)
        if (std::string_view(expected).substr(0, end).ends_with(stop))
          longest = std::max(longest, stop.size());
      if (longest > 0) expected.resize(end - longest);
    }
    ASSERT_EQ(joined, expected) << testing::PrintToString(ids);
  }
}

}  // namespace
}  // namespace carat
