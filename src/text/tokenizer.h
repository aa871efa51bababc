// Gemma's tokenizer from tokenizer.json: byte-pair merges in rank order with byte fallback, ids equal to
// those of Hugging Face tokenizers. Immutable after loading; safe to use from any thread.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

enum class SpecialTokens {
  as_text,   // text of users and tools: "<turn|>" is seven characters, never the control token
  recognise  // text we wrote ourselves, such as a chat template
};

class Tokenizer {
 public:
  /// Throws Error{not_found}, Error{corrupt} or Error{unsupported} (a pipeline that is not Gemma's), naming
  /// the file.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& tokenizer_json);
  static std::shared_ptr<const Tokenizer> parse(std::string_view json, const std::string& source_name);
  virtual ~Tokenizer() = default;

  /// Appends the ids of `text` to `ids`. Adds no bos. Near-linear in text.size() whatever the text. Invalid
  /// UTF-8 is read as Python does with errors="replace". as_text equals `encode_special_tokens = True` of
  /// Hugging Face. Throws Error{invalid_argument} for 2 GB and more, counted with U+FFFD in place of invalid
  /// bytes.
  virtual void encode(std::string_view text, SpecialTokens special, std::vector<int32_t>& ids) const = 0;
  std::vector<int32_t> encode(std::string_view text, SpecialTokens special) const;

  /// The text of `ids`: U+2581 becomes a space, byte pieces become bytes. A run of byte pieces that is
  /// not valid UTF-8 as a whole becomes one U+FFFD per byte. Ids outside the vocabulary are left out.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  /// The raw bytes one id stands for in a stream (a byte piece gives its byte); the piece's name for special
  /// tokens.
  virtual std::string_view token_bytes(int32_t id) const = 0;
  /// The vocabulary entry as stored, such as "▁the" or "<0x0A>"; empty for an id that is not in the
  /// vocabulary.
  virtual std::string_view piece(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  /// Whether the id is a byte piece such as "<0x0A>"; decode() looks at runs of these as a whole.
  virtual bool is_byte(int32_t id) const = 0;
  /// -1 when the vocabulary has no such piece.
  virtual int32_t find(std::string_view piece) const = 0;
  virtual int32_t vocab_size() const = 0;
  /// Whether the tokenizer's own post-processor puts bos first when special tokens are added.
  virtual bool adds_bos() const = 0;
};

}  // namespace carat
