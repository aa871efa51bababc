// Finds the added tokens of tokenizer.json in a text before byte-pair merging, by the rules of Hugging Face
// tokenizers (leftmost, then longest; single_word, lstrip, rstrip). Used by the tokenizer.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace carat {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  // not next to a word character
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // swallows white space after it
  bool normalized = false;   // looked for in the normalized text
  bool special = false;
};

/// A stretch of a text: an added token, or text between added tokens (id -1).
struct Span {
  int32_t id;
  std::size_t begin, end;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// Looks for each token's content as it stands; contents are distinct and not empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Replaces `spans` by the spans of `text`, left to right. With skip_special the text of a special token
  /// stays text.
  void split(std::string_view text, bool skip_special, std::vector<Span>& spans) const;

 private:
  struct Match {
    std::size_t begin, end;
    const AddedToken* token;
  };
  bool next_match(std::string_view text, std::size_t from, Match& match) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> may_begin_{};             // whether some token begins with this byte
  std::unordered_map<uint64_t, uint32_t> edges_;  // trie: node << 8 | byte -> node
  std::vector<int32_t> token_at_node_ = {-1};     // index of the token that ends at this node
};

}  // namespace carat
