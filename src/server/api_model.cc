#include "server/api_model.h"

#include <algorithm>
#include <utility>

#include "server/api_error.h"

namespace carat {

void ServedModel::require_name(const std::string& name) const {
  if (accepts_any_name || name.empty() || std::ranges::find(names, name) != names.end()) return;
  throw ApiError(
      404, "model", "model_not_found",
      "the model " + in_quotes(name) + " does not exist; this server has " + in_quotes(names.front()));
}

std::vector<int32_t> turn_ends(const Tokenizer& tokenizer) {
  std::vector<int32_t> ends;
  for (const char* const end : {"<turn|>", "<|tool_response>"})
    if (const int32_t id = tokenizer.find(end); tokenizer.is_special(id)) ends.push_back(id);
  return ends;
}

std::shared_ptr<GrammarCompiler> make_grammars(const std::shared_ptr<const Tokenizer>& tokenizer,
                                               std::vector<int32_t> eos_tokens) {
  for (const int32_t end : turn_ends(*tokenizer))
    if (std::ranges::find(eos_tokens, end) == eos_tokens.end()) eos_tokens.push_back(end);
  return std::make_shared<GrammarCompiler>(tokenizer, std::move(eos_tokens));
}

}  // namespace carat
