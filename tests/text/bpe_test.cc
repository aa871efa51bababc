#include "text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "text/small_tokenizer.h"

namespace carat {
namespace {

using Ids = std::vector<int32_t>;
using Merges = std::vector<std::pair<std::string, std::string>>;

/// The definition: merge the leftmost pair of the lowest rank until none is left. Quadratic, without any
/// cutting.
std::vector<std::string> merge_by_definition(std::vector<std::string> symbols, const Merges& merges) {
  while (true) {
    std::size_t best_rank = merges.size(), best_at = 0;
    for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
      const auto found = std::ranges::find(merges, std::pair(symbols[at], symbols[at + 1]));
      const auto rank = static_cast<std::size_t>(found - merges.begin());
      if (rank < best_rank) best_rank = rank, best_at = at;
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

Ids encode(const nlohmann::json& document, std::string_view text) {
  return parse_tokenizer(document)->encode(text, SpecialTokens::as_text);
}

TEST(Bpe, EqualsTheDefinitionForRandomMerges) {
  std::mt19937 random(1);
  const std::vector<std::string> alphabet = {"a", "b", "▁", "\n", "é", "漢"};
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> pieces = alphabet;
    Merges merges;
    for (int i = 0; i < 12; ++i) {
      const std::pair merge(pick(pieces), pick(pieces));
      if (std::ranges::find(merges, merge) != merges.end()) continue;
      merges.push_back(merge);
      const std::string joined = merge.first + merge.second;
      if (std::ranges::find(pieces, joined) == pieces.end()) pieces.push_back(joined);
    }
    std::ranges::shuffle(merges, random);
    const auto tokenizer = parse_tokenizer(small_tokenizer_json(pieces, merges));
    for (int i = 0; i < 20; ++i) {
      std::vector<std::string> symbols;
      std::string text;
      for (int j = 0; j < 30; ++j) text += symbols.emplace_back(pick(alphabet));
      Ids expected;
      for (const std::string& piece : merge_by_definition(symbols, merges))
        expected.push_back(tokenizer->find(piece));
      EXPECT_EQ(tokenizer->encode(text, SpecialTokens::as_text), expected) << text;
    }
  }
}

TEST(Bpe, RankGoesBeforePosition) {
  const auto document = small_tokenizer_json({"a", "b", "c", "ab", "bc"}, {{"b", "c"}, {"a", "b"}});
  EXPECT_THAT(encode(document, "abc"), testing::ElementsAre(258, 262));
}

TEST(Bpe, LeftmostOfEqualRankGoesFirst) {
  const auto document = small_tokenizer_json({"a", "aa"}, {{"a", "a"}});
  EXPECT_THAT(encode(document, "aaa"), testing::ElementsAre(259, 258));
}

TEST(Bpe, PieceWithoutAMergePathIsNotUsed) {
  EXPECT_THAT(encode(small_tokenizer_json({"a", "b", "ab"}, {}), "ab"), testing::ElementsAre(258, 259));
}

TEST(Bpe, IgnoreMergesTakesAWholePiece) {
  auto document = small_tokenizer_json({"a", "b", "▁", "a▁b"}, {});
  document["model"]["ignore_merges"] = true;
  EXPECT_THAT(encode(document, "a b"), testing::ElementsAre(261));
  EXPECT_THAT(encode(document, "a ba"), testing::ElementsAre(258, 260, 259, 258));
}

TEST(Bpe, CharactersThatAreNoPiecesBecomeBytes) {
  const auto document = small_tokenizer_json({"a"}, {});
  EXPECT_THAT(encode(document, "aé"), testing::ElementsAre(258, 2 + 0xC3, 2 + 0xA9));
  EXPECT_THAT(encode(document, " "), testing::ElementsAre(2 + 0xE2, 2 + 0x96, 2 + 0x81));  // U+2581
}

TEST(Bpe, MergesOfBytePiecesAreApplied) {
  const auto document = small_tokenizer_json({"a", "a<0xC3>"}, {{"a", "<0xC3>"}});
  EXPECT_THAT(encode(document, "aé"), testing::ElementsAre(259, 2 + 0xA9));
}

/// The document without the byte piece `byte`; "a" takes its id.
nlohmann::json without_byte(int byte) {
  auto document = small_tokenizer_json({}, {});
  auto& vocab = document["model"]["vocab"];
  vocab["a"] = vocab[byte_piece(byte)];
  vocab.erase(byte_piece(byte));
  return document;
}

TEST(Bpe, CharactersWithoutBytePiecesBecomeUnk) {
  auto document = without_byte(0xA9);
  const int32_t a = 2 + 0xA9;
  EXPECT_THAT(encode(document, "éé"), testing::ElementsAre(0));
  EXPECT_THAT(encode(document, "éaé"), testing::ElementsAre(0, a, 0));
  EXPECT_THAT(encode(document, "éöa"), testing::ElementsAre(2 + 0xC3, 2 + 0xB6, 0, a));  // as Hugging Face
  document["model"]["fuse_unk"] = false;
  EXPECT_THAT(encode(document, "éé"), testing::ElementsAre(0, 0));
  document["model"]["unk_token"] = nullptr;
  EXPECT_THAT(encode(document, "éaé"), testing::ElementsAre(a));
}

}  // namespace
}  // namespace carat
