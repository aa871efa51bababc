#include "server/responses_request.h"

#include <utility>

#include "chat/json.h"
#include "server/api_json.h"
#include "server/chat_messages.h"

namespace carat {
namespace {

using jinja::Value;

Value required(const ApiFields& object, std::string_view name) {
  const Value* value = object.find(name);
  if (!value) object.reject(name, "is missing");
  return *value;
}

/// A text, or a list of parts of text, whatever the API calls these.
Value text_content(const Value& content, const std::string& path) {
  if (content.as_text()) return content;
  if (!content.as_list())
    bad_request(path, path, " is ", content.type_name(), ", expected a string or a list of parts");
  std::vector<Value> parts;
  for (const Value& item : content.as_list()->items) {
    const ApiFields part(item, element_path(path, parts.size()));
    const std::string type = part.required_text("type");
    const bool is_refusal = type == "refusal";
    if (!is_refusal && type != "input_text" && type != "output_text" && type != "text" &&
        type != "reasoning_text" && type != "summary_text")
      part.reject("type", "is ", in_quotes(type), ": only text is supported");
    part.required_text(is_refusal ? "refusal" : "text");
    parts.push_back(text_part(*part.find(is_refusal ? "refusal" : "text")));
  }
  return Value::list(std::move(parts));
}

/// The texts of a reasoning item in one.
Value reasoning_text(const ApiFields& item) {
  MarkedText text;
  for (const char* const name : {"content", "summary"}) {
    if (!text.empty() || !item.list(name)) continue;
    const Value parts = text_content(*item.find(name), item.path(name));
    for (const Value& part : parts.as_list()->items) text.append(*part.as_map()->find("text")->as_text());
  }
  return Value::text(std::move(text));
}

void add_message(const ApiFields& item, ChatMessages& messages) {
  const auto role = item.one_of("role", {"user", "assistant", "system", "developer"});
  if (!role) item.reject("role", "is missing");
  messages.add(*role, text_content(required(item, "content"), item.path("content")));
}

void add_item(const ApiFields& item, ChatMessages& messages) {
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    add_message(item, messages);
  } else if (type == "function_call") {
    item.required_text("call_id");
    item.required_text("name");
    messages.add_tool_call(
        chat_tool_call(*item.find("call_id"), *item.find("name"), required(item, "arguments")));
  } else if (type == "function_call_output") {
    item.required_text("call_id");
    messages.add_tool_result(*item.find("call_id"),
                             text_content(required(item, "output"), item.path("output")));
  } else if (type == "reasoning") {
    const Value text = reasoning_text(item);
    if (!text.as_text()->empty()) messages.add_reasoning(text);
  } else {
    item.reject("type", "is ", in_quotes(type),
                ": an item is a message, function_call, function_call_output or reasoning");
  }
}

Value parse_input(const ApiFields& body) {
  ChatMessages messages;
  if (body.text("instructions")) messages.add("system", *body.find("instructions"));
  const Value input = required(body, "input");
  if (input.as_text()) {
    messages.add("user", input);
    return messages.take();
  }
  const std::vector<Value>& items = *body.list("input");
  if (items.empty()) body.reject("input", "is empty");
  for (std::size_t i = 0; i < items.size(); ++i)
    add_item(ApiFields(items[i], element_path("input", i)), messages);
  if (messages.empty()) body.reject("input", "has nothing to answer");
  return messages.take();
}

/// Tools that OpenAI's own servers run are none of ours and left out.
Value parse_tools(const ApiFields& body) {
  const std::vector<Value>* list = body.list("tools");
  if (!list) return {};
  std::vector<Value> tools;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const ApiFields tool((*list)[i], element_path("tools", i));
    if (tool.required_text("type") != "function") continue;
    tool.required_text("name");
    tool.text("description");
    tool.object("parameters");
    const auto optional = [&](const char* name) { return tool.find(name) ? *tool.find(name) : Value(); };
    tools.push_back(chat_tool(*tool.find("name"), optional("description"), optional("parameters")));
  }
  return Value::list(std::move(tools));
}

void parse_tool_choice(const ApiFields& body, ChatRequest& request) {
  const Value* field = body.find("tool_choice");
  if (!field) return;
  if (field->as_map()) {
    const ApiFields choice(*field, "tool_choice");
    if (const std::string type = choice.required_text("type"); type != "function")
      choice.reject("type", "is ", in_quotes(type), ": only function is supported");
    request.tool_choice = {ToolChoice::Kind::named, choice.required_text("name")};
    return;
  }
  const auto kind = body.one_of("tool_choice", {"none", "auto", "required"});
  if (*kind == "none") request.tool_choice.kind = ToolChoice::Kind::none;
  if (*kind == "required") request.tool_choice.kind = ToolChoice::Kind::required;
}

ReplyFormat parse_format(const ApiFields& body) {
  const std::optional<ApiFields> text = body.object("text");
  const std::optional<ApiFields> format = text ? text->object("format") : std::nullopt;
  if (!format) return {};
  const std::string type = format->required_text("type");
  if (type == "text") return {};
  if (type == "json_object") return {ReplyFormat::Kind::json_object};
  if (type != "json_schema")
    format->reject("type", "is ", in_quotes(type), ", expected text, json_object or json_schema");
  if (!format->object("schema")) format->reject("schema", "is missing");
  return {ReplyFormat::Kind::json_schema, *format->find("schema")};
}

void refuse_state(const ApiFields& body) {
  if (body.boolean("store").value_or(false))
    body.reject("store", "is true, but this server stores nothing: send the whole input each time");
  for (const std::string_view name : {"previous_response_id", "conversation", "prompt"})
    if (body.find(name)) body.reject(name, "is not supported: this server stores nothing");
  if (body.boolean("background").value_or(false)) body.reject("background", "is not supported");
}

/// Request members that come back in the response, with the API's defaults.
std::string echoed_members(const ApiFields& body, const ChatRequest& request) {
  JsonText json;
  json.object([&] {
    const auto repeat = [&](const char* name, std::string_view fallback) {
      const Value* value = body.find(name);
      const jinja::JsonStyle compact{.item_separator = ",", .key_separator = ":"};
      json.name(name).raw(value ? jinja::to_json(*value, compact).bytes() : std::string(fallback));
    };
    repeat("instructions", "null");
    repeat("max_output_tokens", "null");
    repeat("metadata", "{}");
    json.field("parallel_tool_calls", request.parallel_tool_calls);
    json.field("previous_response_id", nullptr);
    repeat("reasoning", R"({"effort":null,"summary":null})");
    json.field("store", false);
    json.field("temperature", static_cast<double>(request.options.sampling.temperature));
    repeat("text", R"({"format":{"type":"text"}})");
    repeat("tool_choice", R"("auto")");
    repeat("tools", "[]");
    json.field("top_logprobs", request.options.logprobs.value_or(0));
    json.field("top_p", static_cast<double>(request.options.sampling.top_p));
    repeat("truncation", R"("disabled")");
    repeat("user", "null");
  });
  const std::string object = json.take();
  return object.substr(1, object.size() - 2);
}

}  // namespace

ResponsesRequest parse_responses_request(const ApiFields& body, const ServedModel& model) {
  ResponsesRequest request;
  ChatRequest& chat = request.chat;
  chat.model = body.text("model").value_or("");
  model.require_name(chat.model);
  refuse_state(body);
  chat.conversation.messages = parse_input(body);
  chat.conversation.tools = parse_tools(body);
  chat.conversation.continue_final_message = ends_with_assistant_text(chat.conversation.messages);
  parse_tool_choice(body, chat);
  chat.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  if (const auto reasoning = body.object("reasoning")) set_thinking(*reasoning, "effort", chat);
  chat.format = parse_format(body);
  chat.options = parse_reply_options(body, model);
  chat.options.samples = 1;
  chat.options.max_tokens = parse_max_tokens(body, {"max_output_tokens"});
  if (const auto* include = body.list("include"))
    for (const Value& each : *include)
      if (each.as_text() && each.as_text()->bytes() == "message.output_text.logprobs")
        chat.options.logprobs = 0;
  if (const auto top = body.integer("top_logprobs", 0, kMostLogprobs); top && *top > 0)
    chat.options.logprobs = static_cast<int>(*top);
  request.echo = echoed_members(body, chat);
  body.ignore({"max_tool_calls", "verbosity"});
  if (model.refuses_unknown_fields) body.refuse_unknown();
  return request;
}

}  // namespace carat
