// Any bytes as the body of a request: every API parses them and renders the chat, or refuses them. The first
// byte picks the API.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/api_error.h"
#include "server/chat_prompt.h"
#include "server/completions_request.h"
#include "server/messages_request.h"
#include "server/reply_plain.h"
#include "server/responses_request.h"
#include "text/byte_piece.h"
#include "text/unicode.h"

namespace carat {
namespace {

/// A vocabulary of the bytes and Gemma's turn tokens.
std::string tokenizer_json() {
  std::string vocabulary = R"("<unk>": 0)", added;
  int id = 1;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary += ", \"" + byte_piece(byte) + "\": " + std::to_string(id++);
  for (const char* const token : {"<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>"})
    added += ", {\"id\": " + std::to_string(id++) + ", \"content\": \"" + token + "\", \"special\": true}";
  return R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true})" + added +
         R"(], "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Sequence", "decoders": [
              {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
              {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "merges": [], "vocab": {)" +
         vocabulary + "}}}";
}

ServedModel served_model() {
  ServedModel model;
  model.tokenizer = Tokenizer::parse(tokenizer_json(), "fuzz");
  model.bos = model.tokenizer->find("<bos>");
  model.chat_template = ChatTemplate::load("/nonexistent", model.tokenizer, {model.bos, false});
  model.names = {"m"};
  model.accepts_any_name = true;
  model.vocab = model.tokenizer->vocab_size();
  return model;
}

void parse_and_render(std::string_view input, const ServedModel& model) {
  const char api = input.empty() ? '\0' : input.front();
  const std::string_view body = input.substr(input.empty() ? 0 : 1);
  if (api % 8 == 7) {
    parse_plain_options(ApiFields(parse_query(body), ""), model);
    return;
  }
  const ApiFields fields(parse_body(body, Origin::user), "");
  switch (api % 4) {
    case 0:
      make_chat_prompt(parse_chat_request(fields, model), model);
      break;
    case 1:
      make_chat_prompt(parse_messages_request(fields, model, /*counts_only=*/false), model);
      break;
    case 2:
      make_chat_prompt(parse_responses_request(fields, model).chat, model);
      break;
    default:
      parse_completions_request(fields, model);
  }
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const carat::ServedModel model = carat::served_model();
  try {
    carat::parse_and_render({reinterpret_cast<const char*>(data), size}, model);
  } catch (const carat::ApiError& error) {
    // Whatever the client did is the client's mistake, and the answer is text.
    CHECK(error.status >= 400 && error.status < 500);
    CHECK(carat::is_valid_utf8(carat::openai_error_json(error)));
  }
  return 0;
}
