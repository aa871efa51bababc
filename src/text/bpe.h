// Byte-pair encoding of one stretch of text: merges in rank order, with byte fallback. The text is cut where
// no merge can ever join the characters on both sides, which changes no id; the short words this gives are
// cached.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_table.h"
#include "text/tokenizer_json.h"
#include "text/vocabulary.h"

namespace carat {

class Bpe {
 public:
  /// `vocabulary` holds the model's pieces alone, without added tokens. Throws Error{corrupt}.
  Bpe(Vocabulary vocabulary, const TokenizerFile& file, const std::string& source);
  ~Bpe();

  /// Appends the ids of `text`, valid UTF-8 in which a space and U+2581 are the same.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  static constexpr uint32_t kNoRank = 0xFFFFFFFFu;

  struct Merge {
    uint32_t rank = kNoRank;
    int32_t result = -1;
  };
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // neighbours that are not merged away; -1 at the ends
    Merge merge;             // with the next symbol
  };
  struct Workspace {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // rank << 32 | index of the left symbol
  };
  class WordCache;

  void read_merges(const TokenizerFile& file, const std::string& source);
  void read_byte_pieces();
  void add_join(std::string_view left, std::string_view right);
  std::size_t word_end(std::string_view text, std::size_t begin) const;
  void encode_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& ids) const;
  void read_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  void merge_symbols(Workspace& workspace) const;
  std::unique_ptr<WordCache> borrow_cache() const;
  void give_back(std::unique_ptr<WordCache> cache) const;

  Vocabulary vocabulary_;
  PairTable<Merge> merges_;             // by the ids of left and right
  std::array<int32_t, 128> ascii_ids_;  // of one-character pieces; -1: no such piece; ' ' stands for U+2581
  std::array<int32_t, 256> byte_ids_;   // of the pieces <0x00> .. <0xFF>; -1: no such piece
  int32_t unk_id_ = -1;                 // -1: characters without pieces vanish
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;  // a whole stretch that is a piece is that piece

  bool cuts_words_ = true;
  std::array<std::bitset<128>, 128> ascii_joins_;  // [left][right]: some merge joins these characters
  PairTable<bool> joins_;                          // the same for other characters

  mutable std::mutex idle_caches_mutex_;
  mutable std::vector<std::unique_ptr<WordCache>>
      idle_caches_;  // one per thread that encodes at the same time
};

}  // namespace carat
