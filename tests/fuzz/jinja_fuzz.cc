// Any bytes as a chat template, rendered for a small conversation. The input is the template, or the
// template, a zero byte and the JSON of its variables.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "chat/jinja.h"
#include "chat/json.h"
#include "text/unicode.h"

namespace carat {
namespace {

constexpr std::string_view kVariables =
    R"({"bos_token": "<bos>", "add_generation_prompt": true, "enable_thinking": true,
        "messages": [{"role": "system", "content": "s"},
                     {"role": "user", "content": [{"type": "text", "text": "é"}]},
                     {"role": "assistant", "tool_calls": [
                       {"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]}],
        "tools": [{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]})";

/// Small enough that no input takes long.
constexpr jinja::RenderLimits kLimits = {.steps = 20'000, .text_bytes = 1 << 20, .depth = 1000};

void render(std::string_view source, std::string_view json) {
  const jinja::Value variables = jinja::parse_json(json, Origin::user, "variables");
  const auto chat_template = jinja::Template::parse(source, "template");
  if (!variables.as_map()) return;
  const MarkedText text = chat_template->render(*variables.as_map(), 0, kLimits);
  CHECK(is_valid_utf8(text.bytes()));
  CHECK(text.empty() ? text.runs().empty() : text.runs().back().end == text.size());
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t source_end = std::min(input.find('\0'), size);
  try {
    carat::render(input.substr(0, source_end),
                  source_end < size ? input.substr(source_end + 1) : carat::kVariables);
  } catch (const carat::Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
