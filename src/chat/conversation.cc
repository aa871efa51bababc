#include "chat/conversation.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/json.h"
#include "chat/python_text.h"

namespace carat {
namespace {

using jinja::List;
using jinja::Map;
using jinja::Value;

template <class... Parts>
[[noreturn]] void reject(const Parts&... parts) {
  fail(ErrorKind::invalid_argument, parts...);
}

std::string element(const std::string& where, std::size_t i) { return where + "[" + std::to_string(i) + "]"; }

const List& require_list(const Value& value, const std::string& where) {
  if (!value.as_list()) reject(where, " is ", value.type_name(), ", expected a list");
  return *value.as_list();
}

const Map& require_map(const Value& value, const std::string& where) {
  if (!value.as_map()) reject(where, " is ", value.type_name(), ", expected an object");
  return *value.as_map();
}

const MarkedText& require_text(const Value* value, const std::string& where) {
  if (!value) reject(where, " is missing");
  if (!value->as_text()) reject(where, " is ", value->type_name(), ", expected a string");
  return *value->as_text();
}

Value text_part(const Value& value, const std::string& where) {
  Map part = require_map(value, where);
  const Value* type = part.find("type");
  if (type && !type->is_none() && require_text(type, where + ".type").bytes() != "text")
    reject(where, " is of type ", in_quotes(type->as_text()->bytes()), ": only text is supported");
  require_text(part.find("text"), where + ".text");
  part.set("type", Value::text("text", Origin::chat_template));
  return Value::map(std::move(part));
}

Value content(const Value& value, const std::string& where) {
  if (value.as_text()) return value;
  if (!value.as_list()) reject(where, " is ", value.type_name(), ", expected a string or a list of parts");
  std::vector<Value> parts;
  for (const Value& part : value.as_list()->items)
    parts.push_back(text_part(part, element(where, parts.size())));
  return Value::list(std::move(parts));
}

/// A mapping, whatever form of arguments a client sends back.
Value arguments(const Value* value, const std::string& where) {
  if (!value || value->is_none()) return Value::map({});
  if (value->as_map()) return *value;
  const MarkedText& text = require_text(value, where);
  if (strip(text.bytes()).empty()) return Value::map({});
  const Value parsed = jinja::parse_json(text.bytes(), text.origin_at(0), where);
  if (parsed.is_none()) return Value::map({});
  if (!parsed.as_map()) reject(where, " is the JSON of ", parsed.type_name(), ", expected an object");
  return parsed;
}

Value tool_call(const Value& value, const std::string& where) {
  Map call = require_map(value, where);
  const Value* function_value = call.find("function");
  if (!function_value) reject(where, ".function is missing");
  Map function = require_map(*function_value, where + ".function");
  require_text(function.find("name"), where + ".function.name");
  for (const std::string_view name : {"id", "type"})
    if (const Value* text = call.find(name); text && !text->is_none())
      require_text(text, where + "." + std::string(name));
  function.set("arguments", arguments(function.find("arguments"), where + ".function.arguments"));
  call.set("function", Value::map(std::move(function)));
  return Value::map(std::move(call));
}

Value tool_calls(const Value& value, const std::string& where) {
  std::vector<Value> calls;
  for (const Value& call : require_list(value, where).items)
    calls.push_back(tool_call(call, element(where, calls.size())));
  return Value::list(std::move(calls));
}

/// Clients and templates don't agree on the name.
void spread_reasoning(Map& message, const std::string& where) {
  static constexpr std::array<std::string_view, 3> kNames = {"reasoning_content", "reasoning", "thinking"};
  for (const std::string_view name : kNames) {
    const Value* found = message.find(name);
    if (!found) continue;
    const Value reasoning = *found;
    require_text(&reasoning, where + "." + std::string(name));
    for (const std::string_view other : kNames)
      if (!message.find(other)) message.set(other, reasoning);
    return;
  }
}

Value normalized_message(const Value& value, const std::string& where) {
  static constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                             "tool"};
  Map message;
  for (const Map::Entry& entry : require_map(value, where).entries()) {
    const std::string& name = entry.key.as_text()->bytes();
    if (entry.value.is_none()) continue;
    if (name == "name" || name == "tool_call_id") require_text(&entry.value, where + "." + name);
    if (name == "content")
      message.set(name, content(entry.value, where + ".content"));
    else if (name == "tool_calls")
      message.set(name, tool_calls(entry.value, where + ".tool_calls"));
    else
      message.set(*entry.key.as_text(), entry.value);
  }
  const std::string& role = require_text(message.find("role"), where + ".role").bytes();
  if (std::ranges::find(kRoles, role) == kRoles.end())
    reject(where, ".role is ", in_quotes(role), ", expected system, developer, user, assistant or tool");
  spread_reasoning(message, where);
  return Value::map(std::move(message));
}

}  // namespace

Value normalized_messages(const Value& messages) {
  const List& list = require_list(messages, "messages");
  if (list.items.empty()) reject("messages is empty");
  std::vector<Value> result;
  for (const Value& message : list.items)
    result.push_back(normalized_message(message, element("messages", result.size())));
  return Value::list(std::move(result));
}

}  // namespace carat
