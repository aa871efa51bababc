#include "cli/prompt.h"

#include <system_error>

#include "base/mapped_file.h"
#include "io/json_object.h"

namespace carat {
namespace {

constexpr std::string_view kTurnStart = "<|turn>", kTurnEnd = "<turn|>";

/// A dangling link is there: opening it says so.
bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::symlink_status(file, ignored).type() != std::filesystem::file_type::not_found;
}

/// Empty when the checkpoint has none. Of a list of named templates the text of all: only what they contain
/// matters.
std::string chat_template(const std::filesystem::path& directory) {
  if (const auto file = directory / "chat_template.jinja"; is_there(file))
    return std::string(MappedFile(file, kMostConfigBytes).text());
  const auto file = directory / "tokenizer_config.json";
  if (!is_there(file)) return {};
  const JsonObject config = JsonObject::parse(MappedFile(file, kMostConfigBytes).text(), file.string());
  if (!config.has("chat_template")) return {};
  std::string all;
  const std::vector<JsonObject> named = config.objects("chat_template");
  for (const JsonObject& entry : named) all += entry.string("template", "");
  return named.empty() ? config.string("chat_template", "") : all;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

PromptFormat prompt_format(const std::filesystem::path& directory, const Tokenizer& tokenizer) {
  if (tokenizer.find(kTurnStart) < 0 || tokenizer.find(kTurnEnd) < 0) return PromptFormat::continuation;
  const std::string source = chat_template(directory);
  if (source.empty()) return PromptFormat::continuation;
  // Templates of the larger models contain this literal, with the newline as Jinja's escape; those of E2B and
  // E4B don't, and these leak their reasoning when it is added.
  const bool empty_thought = source.find(R"(<|channel>thought\n<channel|>)") != std::string::npos ||
                             source.find("<|channel>thought\n<channel|>") != std::string::npos;
  return empty_thought ? PromptFormat::turn_no_thought : PromptFormat::turn;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, PromptFormat format,
                                   int32_t bos) {
  std::vector<int32_t> ids{bos};
  if (format == PromptFormat::continuation) {
    tokenizer.encode(text, SpecialTokens::recognise, ids);
    if (ids.size() > 1 && ids[1] == bos) ids.erase(ids.begin());
    return ids;
  }
  // No merge joins a newline with what follows, so encoding the parts apart gives the ids of the whole.
  tokenizer.encode("<|turn>user\n", SpecialTokens::recognise, ids);
  tokenizer.encode(trim(text), SpecialTokens::as_text, ids);
  tokenizer.encode("<turn|>\n<|turn>model\n", SpecialTokens::recognise, ids);
  if (format == PromptFormat::turn_no_thought)
    tokenizer.encode("<|channel>thought\n<channel|>", SpecialTokens::recognise, ids);
  return ids;
}

}  // namespace carat
