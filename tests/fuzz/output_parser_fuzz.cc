// Any tokens as the output of a model: bytes 0 to 127 are control tokens, pieces and byte tokens of a small
// vocabulary, the others raw byte tokens. Also the same bytes as the text of a tool call.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/json.h"
#include "chat/output_parser.h"
#include "text/byte_piece.h"
#include "text/unicode.h"

namespace carat {
namespace {

constexpr std::string_view kPieces[] = {"thought", "th", "ought", "call:", "f",    "▁", "\\n",
                                        "{",       "}",  "[",     "]",     ":",    ",", "a",
                                        "1",       "€",  "'",     "\\\"",  "true", "E", "N"};
constexpr std::string_view kControlTokens[] = {
    "<eos>",        "<turn|>",      "<|channel>",       "<channel|>",
    "<|tool_call>", "<tool_call|>", "<|tool_response>", "<|\\\"|>"};

/// A vocabulary of the pieces, the bytes and the control tokens above.
std::string tokenizer_json() {
  std::string vocabulary = R"("<unk>": 0)", added;
  int id = 1;
  for (const std::string_view piece : kPieces)
    vocabulary += ", \"" + std::string(piece) + "\": " + std::to_string(id++);
  for (int byte = 0; byte < 256; ++byte)
    vocabulary += ", \"" + byte_piece(byte) + "\": " + std::to_string(id++);
  for (const std::string_view token : kControlTokens)
    added += ", {\"id\": " + std::to_string(id++) + ", \"content\": \"" + std::string(token) +
             "\", \"special\": true}";
  return R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true})" + added +
         R"(], "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Sequence", "decoders": [
              {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
              {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "merges": [],
              "vocab": {)" +
         vocabulary + "}}}";
}

void check_calls(const std::vector<ToolCall>& calls) {
  for (const ToolCall& call : calls) {
    CHECK(!call.name.empty() && is_valid_utf8(call.arguments));
    CHECK(jinja::parse_json(call.arguments, Origin::user, "arguments").as_map());
  }
}

void parse_tokens(std::string_view bytes) {
  static const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::parse(tokenizer_json(), "fuzz");
  const int32_t pieces = 1 + static_cast<int32_t>(std::size(kPieces)), controls = pieces + 256;
  OutputParser parser(tokenizer, {.tool_calls = true, .stop_strings = {"EN", "fa1"}}, {});
  std::string content;
  const auto check = [&](const OutputDelta& delta) {
    CHECK(is_valid_utf8(delta.content) && is_valid_utf8(delta.reasoning));
    check_calls(delta.tool_calls);
    content += delta.content;
  };
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const int32_t token = byte < 40    ? controls + byte % 8
                          : byte < 128 ? 1 + byte % (pieces - 1)
                                       : pieces + byte;
    const bool stopped = parser.stopped();
    const OutputDelta delta = parser.push(token);
    CHECK(!stopped || delta.empty());
    check(delta);
  }
  check(parser.finish());
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  carat::parse_tokens(input);
  if (const auto calls = carat::parse_tool_calls(carat::replace_invalid_utf8(input)))
    carat::check_calls(*calls);
  return 0;
}
