#include "server/chat_grammar.h"

#include <string>
#include <vector>

#include "chat/json.h"
#include "grammar/grammar.h"

namespace carat {
namespace {

using jinja::Map;
using jinja::Value;

std::string json_text(const Value& value) { return jinja::to_json(value).bytes(); }

/// What may stand before the answer.
Thinking thinking_of(const ChatRequest& request, std::span<const int32_t> prompt, const ServedModel& model) {
  const Value* variable = request.conversation.variables.find("enable_thinking");
  const bool wanted = request.thinking.value_or(variable && variable->truth());
  return thinking_behind(prompt, *model.tokenizer, wanted && model.chat_template->can_think());
}

/// All tools, or the one that the client names.
std::vector<ToolGrammar> callable_tools(const ChatRequest& request) {
  const jinja::List* all = request.conversation.tools.as_list();
  std::vector<ToolGrammar> tools;
  for (std::size_t i = 0; all && i < all->items.size(); ++i) {
    const Value& tool = all->items[i];
    const Map& function = *tool.as_map()->find("function")->as_map();
    const std::string& name = function.find("name")->as_text()->bytes();
    if (request.tool_choice.kind == ToolChoice::Kind::named && name != request.tool_choice.name) continue;
    const Value* parameters = function.find("parameters");
    tools.push_back({name, parameters && parameters->as_map() ? json_text(*parameters) : ""});
  }
  if (tools.empty()) bad_request("tool_choice", "tool_choice: there is no such tool to call");
  return tools;
}

std::shared_ptr<const Grammar> compile(const ChatRequest& request, Thinking thinking, bool calls_tools,
                                       GrammarCompiler& grammars) {
  if (calls_tools) {
    const bool parallel =
        request.parallel_tool_calls && request.tool_choice.kind == ToolChoice::Kind::required;
    return grammars.tool_calls(callable_tools(request), parallel, thinking);
  }
  if (request.format.kind == ReplyFormat::Kind::json_object) return grammars.json_object(thinking);
  return grammars.json_schema(json_text(request.format.schema), thinking);
}

}  // namespace

std::shared_ptr<TokenMask> make_reply_mask(const ChatRequest& request, std::span<const int32_t> prompt,
                                           const ServedModel& model) {
  const bool calls_tools = request.tool_choice.kind == ToolChoice::Kind::required ||
                           request.tool_choice.kind == ToolChoice::Kind::named;
  if (!calls_tools && request.format.kind == ReplyFormat::Kind::text) return nullptr;
  const std::string field = calls_tools ? "tools" : "response_format";
  if (!model.grammars) bad_request(field, field, ": this server doesn't constrain replies");
  if (request.options.request.min_tokens > 0)
    bad_request("min_tokens", "min_tokens can't be combined with tool_choice or response_format");
  try {
    return make_mask(compile(request, thinking_of(request, prompt, model), calls_tools, *model.grammars));
  } catch (const SchemaError& error) {
    throw ApiError(400, field, "invalid_schema", field + ": " + error.what());
  } catch (const Error& error) {
    ApiError refused = to_api_error(error);
    if (refused.param.empty()) refused.param = field;
    throw refused;
  }
}

}  // namespace carat
