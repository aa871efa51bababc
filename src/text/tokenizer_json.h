// Reads tokenizer.json and refuses every pipeline whose ids the tokenizer could not reproduce exactly.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/vocabulary.h"

namespace carat {

/// The contents of tokenizer.json that matter for ids. The pipeline itself is fixed: " " becomes U+2581,
/// added tokens are cut out, every stretch between them is one word for byte-pair encoding.
struct TokenizerFile {
  StringList pieces;  // by id, 0 .. size-1 without gaps; added tokens that are not pieces take the ids after
  StringList merge_parts;  // left and right piece of each merge, in rank order
  std::vector<AddedToken> added_tokens;
  bool has_unk_token = false;
  std::string unk_token;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool adds_bos = false;
};

/// Gemma's has 33 MB.
inline constexpr std::size_t kMostTokenizerBytes = std::size_t{512} << 20;

/// Throws Error{corrupt} or Error{unsupported}, naming `source` and the part.
TokenizerFile read_tokenizer_json(std::string_view json, const std::string& source);

}  // namespace carat
