#include "server/chat_messages.h"

#include <utility>

#include "server/api_fields.h"

namespace carat {

using jinja::Map;
using jinja::Value;

Value plain_text(std::string_view text) { return Value::text(text, Origin::chat_template); }

Value chat_message(std::string_view role, Value content) {
  Map message;
  message.set("role", plain_text(role));
  message.set("content", std::move(content));
  return Value::map(std::move(message));
}

Value text_part(Value text) {
  Map part;
  part.set("type", plain_text("text"));
  part.set("text", std::move(text));
  return Value::map(std::move(part));
}

Value text_content(const Value& content, const std::string& path,
                   std::initializer_list<std::string_view> types) {
  if (content.as_text()) return content;
  if (!content.as_list())
    bad_request(path, path, " is ", content.type_name(), ", expected a string or a list of parts");
  std::vector<Value> parts;
  for (const Value& item : content.as_list()->items) {
    const ApiFields part(item, element_path(path, parts.size()));
    const std::string type = part.required_one_of("type", types);
    parts.push_back(text_part(part.required_text_value(type == "refusal" ? "refusal" : "text")));
  }
  return Value::list(std::move(parts));
}

Value chat_tool_call(Value id, Value name, Value arguments) {
  Map function, call;
  function.set("name", std::move(name));
  function.set("arguments", std::move(arguments));
  call.set("id", std::move(id));
  call.set("type", plain_text("function"));
  call.set("function", Value::map(std::move(function)));
  return Value::map(std::move(call));
}

Value chat_tool(Value name, Value description, Value parameters) {
  Map function, tool;
  function.set("name", std::move(name));
  if (!description.is_undefined()) function.set("description", std::move(description));
  if (!parameters.is_undefined()) function.set("parameters", std::move(parameters));
  tool.set("type", plain_text("function"));
  tool.set("function", Value::map(std::move(function)));
  return Value::map(std::move(tool));
}

void ChatMessages::add(std::string_view role, Value content) {
  if (role != "assistant") {
    close();
    messages_.push_back(chat_message(role, std::move(content)));
    return;
  }
  if (open_.find("content") || !calls_.empty()) close();
  open().set("content", std::move(content));
}

void ChatMessages::add_reasoning(Value text) {
  if (open_.find("content") || open_.find("reasoning_content") || !calls_.empty()) close();
  open().set("reasoning_content", std::move(text));
}

void ChatMessages::add_tool_call(Value call) {
  open();
  calls_.push_back(std::move(call));
}

void ChatMessages::add_tool_result(Value call_id, Value content) {
  close();
  Map message;
  message.set("role", plain_text("tool"));
  message.set("tool_call_id", std::move(call_id));
  message.set("content", std::move(content));
  messages_.push_back(Value::map(std::move(message)));
}

Map& ChatMessages::open() {
  if (open_.size() == 0) open_.set("role", plain_text("assistant"));
  return open_;
}

void ChatMessages::close() {
  if (open_.size() == 0) return;
  if (!calls_.empty()) open_.set("tool_calls", Value::list(std::exchange(calls_, {})));
  messages_.push_back(Value::map(std::exchange(open_, {})));
}

Value ChatMessages::take() {
  close();
  return Value::list(std::move(messages_));
}

}  // namespace carat
