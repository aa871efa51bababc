// Any bytes as a JSON schema. What compiles allows something, and leads on for a few tokens.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"

namespace carat {
namespace {

constexpr int32_t kEos = 0;

/// An eos, the tokens of tool calls, all bytes, and a few words.
std::shared_ptr<const Tokenizer> small_tokenizer() {
  std::vector<std::string> pieces = {"<eos>", "<|tool_call>", "<tool_call|>", "<|\\\"|>"};
  std::string vocabulary, added;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    added +=
        (i > 0 ? "," : "") + ("{\"id\":" + std::to_string(i)) + ",\"content\":\"" + pieces[i] +
        "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}";
  for (int byte = 0; byte < 256; ++byte) {
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    pieces.push_back(std::string("<0x") + kHex[static_cast<std::size_t>(byte / 16)] +
                     kHex[static_cast<std::size_t>(byte % 16)] + '>');
  }
  for (const char* const word : {"{\\\"", "\\\":", "\\\",", "},", "\\u2581\\\"", "true", "12"})
    pieces.push_back(word);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    vocabulary += (i > 0 ? ",\"" : "\"") + pieces[i] + "\":" + std::to_string(i);
  const std::string json =
      "{\"added_tokens\":[" + added +
      "],\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"},"
      "\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":null,"
      "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{" +
      vocabulary + "},\"merges\":[]}}";
  return Tokenizer::parse(json, "small");
}

void follow(const std::shared_ptr<const Grammar>& grammar, const Tokenizer& tokenizer) {
  constexpr std::size_t kTokens = 12;
  const auto mask = make_mask(grammar);
  std::vector<int32_t> reply;
  while (reply.size() < kTokens && (reply.empty() || reply.back() != kEos)) {
    std::vector<uint32_t> words(static_cast<std::size_t>(tokenizer.vocab_size()) / 32 + 1);
    mask->allow_after(reply, words);
    int32_t last = -1;
    for (int32_t token = 0; token < tokenizer.vocab_size(); ++token)
      if (words[static_cast<std::size_t>(token) / 32] >> token % 32 & 1) last = token;
    CHECK(last >= 0);
    reply.push_back(last);
  }
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizer = carat::small_tokenizer();
  static carat::GrammarCompiler compiler(tokenizer, {carat::kEos}, 0);
  const std::string_view schema(reinterpret_cast<const char*>(data), size);
  try {
    carat::follow(compiler.json_schema(schema, carat::Thinking::off), *tokenizer);
    const std::vector<carat::ToolGrammar> tools = {{"f", std::string(schema)}};
    carat::follow(compiler.tool_calls(tools, true, carat::Thinking::off), *tokenizer);
  } catch (const carat::Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
