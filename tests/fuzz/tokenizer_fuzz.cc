// Any bytes as tokenizer.json, then a text and ids for the tokenizer it gives. The input is the JSON, a zero
// byte, and the text, whose bytes also serve as ids.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace carat {
namespace {

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const SpecialTokens special : {SpecialTokens::as_text, SpecialTokens::recognise}) {
    for (const int32_t id : tokenizer.encode(text, special)) CHECK(id >= 0 && id < tokenizer.vocab_size());
  }
}

void check_ids(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  const std::string decoded = tokenizer->decode(ids, true);
  CHECK(is_valid_utf8(decoded));
  StreamDecoder decoder(tokenizer, {}, true);
  std::string joined;
  for (const int32_t id : ids) joined += decoder.push(id);
  joined += decoder.finish();
  CHECK(joined == decoded);
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t json_end = std::min(input.find('\0'), size);
  const std::string_view text = json_end < size ? input.substr(json_end + 1) : "a <b>\n\xC3";
  try {
    const auto tokenizer = carat::Tokenizer::parse(input.substr(0, json_end), "fuzz");
    carat::check_text(*tokenizer, text);
    carat::check_ids(tokenizer, text);
  } catch (const carat::Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
