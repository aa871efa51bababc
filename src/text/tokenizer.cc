#include "text/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_piece.h"
#include "text/byte_run.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace carat {
namespace {

std::string replace_markers(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t marker = std::min(piece.find(kSpaceMarker, at), piece.size());
    text += piece.substr(at, marker - at);
    if (marker < piece.size()) text += ' ';
    at = marker + kSpaceMarker.size();
  }
  return text;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(TokenizerFile file, const std::string& source)
      : vocabulary_(check(Vocabulary(std::move(file.pieces)), source)),
        bpe_(vocabulary_, file, source),
        adds_bos_(file.adds_bos) {
    add_tokens(std::move(file.added_tokens), source);
    fill_token_bytes();
  }

  void encode(std::string_view text, SpecialTokens special, std::vector<int32_t>& ids) const override {
    check_size(text.size());
    std::string valid;
    if (!is_valid_utf8(text)) text = valid = replace_invalid_utf8(text);
    check_size(text.size());  // again: a bad byte has become three
    const bool as_text = special == SpecialTokens::as_text;
    std::vector<Span> spans;
    raw_matcher_.split(text, as_text, spans);
    for (const Span& span : spans) {
      if (span.id >= 0) {
        ids.push_back(span.id);
      } else {
        encode_between(text.substr(span.begin, span.end - span.begin), as_text, ids);
      }
    }
  }

  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text;
    ByteRun run;
    for (const int32_t id : ids) {
      if (!has(id) || (skip_special && is_special(id))) continue;
      if (is_byte(id)) {
        run.push(token_bytes(id)[0], text);
      } else {
        run.end(text);
        text += token_bytes(id);
      }
    }
    run.end(text);
    return text;
  }

  std::string_view token_bytes(int32_t id) const override {
    return has(id) ? token_bytes_[static_cast<std::size_t>(id)] : std::string_view();
  }
  std::string_view piece(int32_t id) const override { return has(id) ? vocabulary_[id] : std::string_view(); }
  bool is_special(int32_t id) const override {
    return has(id) && (kinds_[static_cast<std::size_t>(id)] & kSpecial);
  }
  bool is_byte(int32_t id) const override {
    return has(id) && (kinds_[static_cast<std::size_t>(id)] & kByte);
  }
  int32_t find(std::string_view piece) const override { return vocabulary_.find(piece); }
  int32_t vocab_size() const override { return vocabulary_.size(); }
  bool adds_bos() const override { return adds_bos_; }

 private:
  static constexpr std::size_t kMaxTextBytes = std::numeric_limits<int32_t>::max();
  static constexpr uint8_t kSpecial = 1, kByte = 2;

  static Vocabulary check(Vocabulary vocabulary, const std::string& source) {
    if (const int32_t id = vocabulary.duplicate(); id >= 0)
      fail(ErrorKind::corrupt, source, ": model.vocab: ", in_quotes(vocabulary[id]), " appears twice");
    return vocabulary;
  }

  static void check_size(std::size_t bytes) {
    if (bytes > kMaxTextBytes)
      fail(ErrorKind::invalid_argument, "text of ", bytes, " bytes; the most is ", kMaxTextBytes);
  }

  bool has(int32_t id) const { return id >= 0 && id < vocabulary_.size(); }

  void add_tokens(std::vector<AddedToken> tokens, const std::string& source) {
    std::vector<AddedToken> raw, normalized;
    for (AddedToken& token : tokens) {
      int32_t id = vocabulary_.find(token.content);
      if (id < 0) id = vocabulary_.add(token.content);
      if (id != token.id)
        fail(ErrorKind::corrupt, source, ": added_tokens: ", in_quotes(token.content), " has id ", token.id,
             ", but by model.vocab and the added tokens before it must have ", id);
      kinds_.resize(static_cast<std::size_t>(vocabulary_.size()));
      // Hugging Face tokenizers decode such a token under its normalized name and then don't know it as
      // special.
      const bool has_other_name = token.normalized && token.content.find(' ') != std::string::npos;
      if (token.special && !has_other_name) kinds_[static_cast<std::size_t>(id)] |= kSpecial;
      if (token.normalized) token.content = replace_spaces(token.content);
      (token.normalized ? normalized : raw).push_back(std::move(token));
    }
    raw_matcher_ = AddedTokenMatcher(std::move(raw));
    normalized_matcher_ = AddedTokenMatcher(std::move(normalized));
  }

  void fill_token_bytes() {
    kinds_.resize(static_cast<std::size_t>(vocabulary_.size()));
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      if (const int byte = byte_of_piece(vocabulary_[id]); byte >= 0) {
        kinds_[static_cast<std::size_t>(id)] |= kByte;
        token_bytes_.push_back(std::string(1, static_cast<char>(byte)));
      } else {
        token_bytes_.push_back(replace_markers(vocabulary_[id]));
      }
    }
  }

  /// `text` is free of the added tokens that are looked for before normalization.
  void encode_between(std::string_view text, bool as_text, std::vector<int32_t>& ids) const {
    if (normalized_matcher_.empty()) return bpe_.encode(text, ids);
    const std::string normalized = replace_spaces(text);
    std::vector<Span> spans;
    normalized_matcher_.split(normalized, as_text, spans);
    for (const Span& span : spans) {
      if (span.id >= 0) {
        ids.push_back(span.id);
      } else {
        bpe_.encode(std::string_view(normalized).substr(span.begin, span.end - span.begin), ids);
      }
    }
  }

  Vocabulary vocabulary_;
  Bpe bpe_;
  AddedTokenMatcher raw_matcher_, normalized_matcher_;
  StringList token_bytes_;
  std::vector<uint8_t> kinds_;  // by id: kSpecial, kByte
  bool adds_bos_;
};

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  const MappedFile file(tokenizer_json, kMostTokenizerBytes);
  return parse(file.text(), tokenizer_json.string());
}

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, const std::string& source_name) {
  return std::make_shared<BpeTokenizer>(read_tokenizer_json(json, source_name), source_name);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int32_t> ids;
  encode(text, special, ids);
  return ids;
}

}  // namespace carat
