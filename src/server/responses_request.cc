#include "server/responses_request.h"

#include <utility>

#include "chat/json.h"
#include "server/api_json.h"
#include "server/chat_messages.h"

namespace carat {
namespace {

using jinja::Value;

/// The parts of text under all the names that the API has for them.
Value text_of(const ApiFields& item, std::string_view name) {
  return text_content(item.required(name), item.path(name),
                      {"input_text", "output_text", "text", "reasoning_text", "summary_text", "refusal"});
}

/// The texts of a reasoning item in one; where a client has kept none, what it was given to bring back.
Value reasoning_text(const ApiFields& item) {
  MarkedText text;
  for (const char* const name : {"content", "summary"}) {
    if (!text.empty() || !item.list(name)) continue;
    const Value parts = text_of(item, name);
    for (const Value& part : parts.as_list()->items) text.append(*part.as_map()->find("text")->as_text());
  }
  if (!text.empty() || !item.text("encrypted_content")) return Value::text(std::move(text));
  const MarkedText& kept = *item.find("encrypted_content")->as_text();
  const bool is_ours = kept.bytes().starts_with(kKeptReasoning);
  return Value::text(is_ours ? kept.part(kKeptReasoning.size(), kept.size()) : MarkedText());
}

void add_item(const ApiFields& item, ChatMessages& messages) {
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    const std::string role = item.required_one_of("role", {"user", "assistant", "system", "developer"});
    messages.add(role, text_of(item, "content"));
  } else if (type == "function_call") {
    messages.add_tool_call(chat_tool_call(item.required_text_value("call_id"),
                                          item.required_text_value("name"), item.required("arguments")));
  } else if (type == "function_call_output") {
    messages.add_tool_result(item.required_text_value("call_id"), text_of(item, "output"));
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
  const Value input = body.required("input");
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
    tool.text("description");
    tool.object("parameters");
    const auto optional = [&](const char* name) { return tool.find(name) ? *tool.find(name) : Value(); };
    tools.push_back(
        chat_tool(tool.required_text_value("name"), optional("description"), optional("parameters")));
  }
  return Value::list(std::move(tools));
}

ReplyFormat parse_format(const ApiFields& body) {
  const std::optional<ApiFields> text = body.object("text");
  const std::optional<ApiFields> format = text ? text->object("format") : std::nullopt;
  if (!format) return {};
  const std::string type = format->required_one_of("type", {"text", "json_object", "json_schema"});
  if (type == "text") return {};
  if (type == "json_object") return {ReplyFormat::Kind::json_object};
  return {ReplyFormat::Kind::json_schema, format->required_map("schema")};
}

void refuse_state(const ApiFields& body) {
  if (body.boolean("store").value_or(false))
    body.reject("store", "is true, but this server stores nothing: send the whole input each time");
  for (const std::string_view name : {"previous_response_id", "conversation", "prompt"})
    if (body.find(name)) body.reject(name, "is not supported: this server stores nothing");
  if (body.boolean("background").value_or(false)) body.reject("background", "is not supported");
}

/// What the API has beyond a chat and this server hasn't.
void refuse_unsupported(const ApiFields& body) {
  if (body.one_of("truncation", {"auto", "disabled"}) == "auto")
    body.reject("truncation", "is \"auto\", but this server never cuts a prompt: send a shorter one");
  if (body.find("max_tool_calls"))
    body.reject("max_tool_calls", "is not supported: set parallel_tool_calls to false for one call");
}

void parse_include(const ApiFields& body, ResponsesRequest& request) {
  const std::vector<Value>* include = body.list("include");
  if (!include) return;
  for (std::size_t i = 0; i < include->size(); ++i) {
    const std::string what = (*include)[i].as_text() ? (*include)[i].as_text()->bytes() : "";
    if (what == "message.output_text.logprobs") {
      request.chat.options.request.logprobs = 0;
    } else if (what == "reasoning.encrypted_content") {
      request.keeps_reasoning = true;
    } else {
      const std::string path = element_path("include", i);
      bad_request(path, path, " must be message.output_text.logprobs or reasoning.encrypted_content");
    }
  }
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
    json.field("temperature", request.options.request.sampling.temperature);
    repeat("text", R"({"format":{"type":"text"}})");
    repeat("tool_choice", R"("auto")");
    repeat("tools", "[]");
    json.field("top_logprobs", request.options.request.logprobs.value_or(0));
    json.field("top_p", request.options.request.sampling.top_p);
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
  refuse_unsupported(body);
  chat.conversation.messages = parse_input(body);
  chat.conversation.tools = parse_tools(body);
  chat.conversation.continue_final_message = ends_with_assistant_text(chat.conversation.messages);
  chat.tool_choice = parse_tool_choice(body, chat.conversation.tools);
  chat.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  if (const auto reasoning = body.object("reasoning")) set_thinking(*reasoning, "effort", chat);
  chat.format = parse_format(body);
  chat.options = parse_reply_options(body, model);
  parse_stop(body, "stop", chat.options);
  body.object("stream_options");  // usage always comes with the last event
  chat.options.max_tokens = parse_max_tokens(body, {"max_output_tokens"});
  parse_include(body, request);
  if (const auto top = body.integer("top_logprobs", 0, kMostLogprobs); top && *top > 0)
    chat.options.request.logprobs = static_cast<int>(*top);
  request.echo = echoed_members(body, chat);
  body.refuse_rest(model.refuses_unknown_fields);
  return request;
}

}  // namespace carat
