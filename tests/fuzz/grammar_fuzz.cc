// Any bytes as a JSON schema. What compiles allows something, and leads on for a few tokens.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
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
  nlohmann::json vocabulary = nlohmann::json::object(), added = nlohmann::json::array();
  const auto add = [&](const std::string& piece) { vocabulary[piece] = vocabulary.size(); };
  for (const char* const piece : {"<eos>", "<|tool_call>", "<tool_call|>", "<|\"|>"}) {
    added.push_back({{"id", vocabulary.size()},
                     {"content", piece},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    add(piece);
  }
  add("<unk>");
  for (std::size_t byte = 0; byte < 256; ++byte) {
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + '>');
  }
  for (const char* const word : {"{\"", "\":", "\",", "},", "\u2581\"", "true", "12"}) add(word);
  nlohmann::json file = nlohmann::json::parse(
      R"({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
          "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
          "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                    "merges": []}})");
  file["added_tokens"] = added;
  file["model"]["vocab"] = vocabulary;
  return Tokenizer::parse(file.dump(), "small");
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
