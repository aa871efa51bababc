#include "server/chat_request.h"

#include <algorithm>

namespace carat {
namespace {

using jinja::Map;
using jinja::Value;

constexpr std::size_t kMostToolNameBytes = 256;
constexpr int kMostBudget = 1 << 30;

void check_tool(const ApiFields& tool) {
  const std::string type = tool.text("type").value_or("function");
  if (type != "function")
    tool.reject("type", "is ", in_quotes(type), ": only tools of type function are supported");
  const ApiFields function(tool.required_map("function"), tool.path("function"));
  const std::string name = function.required_text("name");
  if (name.empty() || name.size() > kMostToolNameBytes)
    function.reject("name", "must have 1 to ", kMostToolNameBytes, " bytes");
  function.text("description");
  function.object("parameters");
}

bool has_tool(const Value& tools, const std::string& name) {
  return tools.as_list() && std::ranges::any_of(tools.as_list()->items, [&](const Value& tool) {
           return tool.as_map()->find("function")->as_map()->find("name")->as_text()->bytes() == name;
         });
}

/// OpenAI's {"type": "json_schema", "json_schema": {"schema"}}, and llama.cpp's {"type": "json_object",
/// "schema"}.
ReplyFormat parse_response_format(const ApiFields& body) {
  const std::optional<ApiFields> format = body.object("response_format");
  if (!format) return {};
  const std::string type = format->required_text("type");
  if (type == "text") return {};
  if (type == "json_object" && format->find("schema"))
    return {ReplyFormat::Kind::json_schema, format->required_map("schema")};
  if (type == "json_object") return {ReplyFormat::Kind::json_object};
  if (type != "json_schema")
    format->reject("type", "is ", in_quotes(type), ", expected text, json_object or json_schema");
  const std::optional<ApiFields> named = format->object("json_schema");
  return {ReplyFormat::Kind::json_schema, (named ? *named : *format).required_map("schema")};
}

void parse_thinking(const ApiFields& body, ChatRequest& request) {
  set_thinking(body, "reasoning_effort", request);
  if (const auto reasoning = body.object("reasoning")) set_thinking(*reasoning, "effort", request);
  parse_thinking_object(body, request);
  if (const auto arguments = body.object("chat_template_kwargs")) {
    if (const auto thinking = arguments->boolean("enable_thinking")) request.thinking = *thinking;
    for (const Map::Entry& entry : arguments->map().entries())
      request.conversation.variables.set(*entry.key.as_text(), entry.value);
  }
  for (const std::string_view name : {"thinking_budget", "thinking_token_budget", "thinking_budget_tokens"})
    if (const auto budget = body.integer(name, 0, kMostBudget)) {
      if (!request.thinking_budget) request.thinking_budget = static_cast<int>(*budget);
    }
  if (request.thinking_budget == 0) request.thinking = false;
}

void parse_logprobs(const ApiFields& body, ReplyParameters& options) {
  const bool wanted = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, kMostLogprobs);
  if (top.value_or(0) > 0 && !wanted) body.reject("top_logprobs", "needs logprobs to be true");
  if (wanted) options.request.logprobs = static_cast<int>(top.value_or(0));
}

void check_modalities(const ApiFields& body) {
  if (const auto* modalities = body.list("modalities"))
    for (const Value& each : *modalities)
      if (!each.as_text() || each.as_text()->bytes() != "text")
        body.reject("modalities", "may contain only \"text\"");
}

}  // namespace

ToolChoice parse_tool_choice(const ApiFields& body, const Value& tools) {
  const Value* field = body.find("tool_choice");
  if (!field) return {};
  ToolChoice choice;
  if (field->as_map()) {
    const ApiFields object(*field, "tool_choice");
    object.one_of("type", {"function"});
    const std::optional<ApiFields> function = object.object("function");
    choice = {ToolChoice::Kind::named,
              function ? function->required_text("name") : object.required_text("name")};
  } else {
    const auto kind = body.one_of("tool_choice", {"none", "auto", "required"});
    if (*kind == "none") choice.kind = ToolChoice::Kind::none;
    if (*kind == "required") choice.kind = ToolChoice::Kind::required;
  }
  if (choice.kind == ToolChoice::Kind::named && !has_tool(tools, choice.name))
    bad_request("tool_choice", "tool_choice names ", in_quotes(choice.name),
                ", which is not among the tools");
  if (choice.kind == ToolChoice::Kind::required && !tools.truth())
    bad_request("tool_choice", "tool_choice is required, but there are no tools");
  return choice;
}

bool ends_with_assistant_text(const Value& messages) {
  const jinja::List* list = messages.as_list();
  if (!list || list->items.empty() || !list->items.back().as_map()) return false;
  const Map& last = *list->items.back().as_map();
  const Value *role = last.find("role"), *content = last.find("content"), *calls = last.find("tool_calls");
  return role && role->as_text() && role->as_text()->bytes() == "assistant" && content && content->truth() &&
         !(calls && calls->truth());
}

void set_thinking(const ApiFields& object, std::string_view field, ChatRequest& request) {
  const auto effort = object.one_of(field, {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (effort) request.thinking = *effort != "none";
}

void parse_thinking_object(const ApiFields& body, ChatRequest& request) {
  const std::optional<ApiFields> thinking = body.object("thinking");
  if (!thinking) return;
  request.thinking = thinking->required_one_of("type", {"enabled", "disabled", "adaptive"}) != "disabled";
  if (const auto budget = thinking->integer("budget_tokens", 1, kMostBudget); budget && *request.thinking)
    request.thinking_budget = static_cast<int>(*budget);
}

void parse_conversation(const ApiFields& body, ChatRequest& request) {
  Conversation& conversation = request.conversation;
  if (!body.list("messages")) body.reject("messages", "is missing");
  conversation.messages = *body.find("messages");
  if (const auto* tools = body.list("tools")) {
    for (std::size_t i = 0; i < tools->size(); ++i)
      check_tool(ApiFields((*tools)[i], element_path("tools", i)));
    conversation.tools = *body.find("tools");
  }
  parse_thinking(body, request);
  const auto prompt_for_reply = body.boolean("add_generation_prompt");
  const auto continues = body.boolean("continue_final_message");
  if (continues.value_or(false) && prompt_for_reply.value_or(false))
    body.reject("continue_final_message", "and add_generation_prompt exclude each other");
  conversation.add_generation_prompt = prompt_for_reply.value_or(true);
  conversation.continue_final_message =
      continues.value_or(!prompt_for_reply.has_value() && ends_with_assistant_text(conversation.messages));
}

ChatRequest parse_chat_request(const ApiFields& body, const ServedModel& model) {
  ChatRequest request;
  request.model = body.text("model").value_or("");
  model.require_name(request.model);
  check_modalities(body);
  parse_conversation(body, request);
  request.options = parse_reply_options(body, model);
  parse_stop(body, "stop", request.options);
  parse_choices(body, model, request.options);
  request.options.max_tokens = parse_max_tokens(body, {"max_completion_tokens", "max_tokens"});
  parse_logprobs(body, request.options);
  request.tool_choice = parse_tool_choice(body, request.conversation.tools);
  request.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  request.format = parse_response_format(body);
  body.ignore({"verbosity", "prediction"});
  body.refuse_rest(model.refuses_unknown_fields);
  return request;
}

}  // namespace carat
