// `carat tokenize`: text -> token ids, as the model would see them.
#include <nlohmann/json.hpp>
#include <string>

#include "api/loaded_model.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/streams.h"

namespace carat {
namespace {

class IdEncoder {
 public:
  explicit IdEncoder(const TokenizeOptions& options)
      : tokenizer_(load_tokenizer(options.model)),
        special_(options.no_special ? SpecialTokens::as_text : SpecialTokens::recognise) {
    if (!options.bos) return;
    bos_ = tokenizer_->find("<bos>");
    if (bos_ < 0) fail(ErrorKind::invalid_argument, "--bos: the vocabulary has no <bos>");
  }

  std::vector<int32_t> encode(std::string_view text) const {
    std::vector<int32_t> ids;
    if (bos_ >= 0) ids.push_back(bos_);
    tokenizer_->encode(text, special_, ids);
    return ids;
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  SpecialTokens special_;
  int32_t bos_ = -1;
};

/// "1,2,3" with the given separator.
std::string join(const std::vector<int32_t>& ids, const char* separator) {
  std::string text;
  for (const int32_t id : ids) {
    if (!text.empty()) text += separator;
    text += std::to_string(id);
  }
  return text;
}

/// One JSON array of ids per line, written when a buffer is full or the input has to be waited for.
void encode_json_lines(const IdEncoder& encoder) {
  constexpr std::size_t kBufferBytes = 1 << 16;
  LineReader lines;
  std::string line, out;
  for (int number = 1; lines.next(line); ++number) {
    const auto text = nlohmann::json::parse(line, nullptr, false);
    if (!text.is_string() || line.find('\0') != line.npos) {  // the library takes it for the end
      write_stdout(out);                                      // of the lines before
      fail(ErrorKind::corrupt, "standard input, line ", number,
           ": not a JSON string (write \"Hello\", with quotes): ", in_quotes(line, 60));
    }
    out += "[" + join(encoder.encode(text.get_ref<const std::string&>()), ", ") + "]\n";
    if (out.size() < kBufferBytes && lines.has_line()) continue;
    if (!write_stdout(out)) return;
    out.clear();
  }
  write_stdout(out);
}

/// One line per token: id, then the piece with its control characters as JSON escapes.
std::string list_pieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    const nlohmann::json piece = std::string(tokenizer.piece(id));
    text += std::to_string(id) + "\t" + printable(piece.dump()) + "\n";
  }
  return text;
}

}  // namespace

int tokenize_command(const TokenizeOptions& options) {
  const IdEncoder encoder(options);
  if (options.jsonl) {
    encode_json_lines(encoder);
    return 0;
  }
  const auto ids = encoder.encode(options.text ? *options.text : read_stdin());
  write_stdout(options.pieces ? list_pieces(encoder.tokenizer(), ids) : join(ids, " ") + "\n");
  return 0;
}

}  // namespace carat
