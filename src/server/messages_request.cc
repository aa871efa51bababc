#include "server/messages_request.h"

#include <utility>

#include "server/chat_messages.h"

namespace carat {
namespace {

using jinja::Value;

Value required(const ApiFields& object, std::string_view name) {
  const Value* value = object.find(name);
  if (!value) object.reject(name, "is missing");
  return *value;
}

Value required_text(const ApiFields& object, std::string_view name) {
  object.required_text(name);
  return required(object, name);
}

/// A text, or a list of blocks of text.
Value text_content(const Value& content, const std::string& path) {
  if (content.as_text()) return content;
  if (!content.as_list())
    bad_request(path, path, " is ", content.type_name(), ", expected a string or a list of blocks");
  std::vector<Value> parts;
  for (const Value& block : content.as_list()->items) {
    const ApiFields fields(block, element_path(path, parts.size()));
    if (const std::string type = fields.required_text("type"); type != "text")
      fields.reject("type", "is ", in_quotes(type), ": only text is supported here");
    parts.push_back(text_part(required_text(fields, "text")));
  }
  return Value::list(std::move(parts));
}

/// What a message of the assistant consists of, in order.
void add_assistant_block(const ApiFields& block, ChatMessages& messages) {
  const std::string type = block.required_text("type");
  if (type == "text") {
    messages.add("assistant", required_text(block, "text"));
  } else if (type == "thinking") {
    messages.add_reasoning(required_text(block, "thinking"));
  } else if (type == "tool_use") {
    if (!block.object("input")) block.reject("input", "is missing");
    messages.add_tool_call(
        chat_tool_call(required_text(block, "id"), required_text(block, "name"), required(block, "input")));
  } else if (type != "redacted_thinking") {
    block.reject("type", "is ", in_quotes(type), ": an assistant's block is text, thinking or tool_use");
  }
}

/// Results of tools come before what the user says, as the API demands it of clients.
void add_user_blocks(const std::vector<Value>& blocks, const std::string& path, ChatMessages& messages) {
  std::vector<Value> parts;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ApiFields block(blocks[i], element_path(path, i));
    const std::string type = block.required_text("type");
    if (type == "tool_result") {
      const Value* content = block.find("content");
      messages.add_tool_result(required_text(block, "tool_use_id"),
                               content ? text_content(*content, block.path("content")) : plain_text(""));
    } else if (type == "text") {
      parts.push_back(text_part(required_text(block, "text")));
    } else {
      block.reject("type", "is ", in_quotes(type), ": a user's block is text or tool_result");
    }
  }
  if (!parts.empty()) messages.add("user", Value::list(std::move(parts)));
}

Value parse_messages(const ApiFields& body) {
  ChatMessages messages;
  if (const Value* system = body.find("system")) messages.add("system", text_content(*system, "system"));
  const std::vector<Value>* list = body.list("messages");
  if (!list) body.reject("messages", "is missing");
  if (list->empty()) body.reject("messages", "is empty");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const ApiFields message((*list)[i], element_path("messages", i));
    const auto role = message.one_of("role", {"user", "assistant", "system"});
    if (!role) message.reject("role", "is missing");
    const Value content = required(message, "content");
    const std::string path = message.path("content");
    if (!content.as_list() || *role == "system") {
      messages.add(*role, text_content(content, path));
    } else if (*role == "user") {
      add_user_blocks(content.as_list()->items, path, messages);
    } else {
      for (std::size_t b = 0; b < content.as_list()->items.size(); ++b)
        add_assistant_block(ApiFields(content.as_list()->items[b], element_path(path, b)), messages);
    }
  }
  return messages.take();
}

/// Tools that the API's own servers run are none of ours and left out.
Value parse_tools(const ApiFields& body) {
  const std::vector<Value>* list = body.list("tools");
  if (!list) return {};
  std::vector<Value> tools;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const ApiFields tool((*list)[i], element_path("tools", i));
    if (tool.text("type").value_or("custom") != "custom") continue;
    tool.text("description");
    if (!tool.object("input_schema")) tool.reject("input_schema", "is missing");
    const Value* description = tool.find("description");
    tools.push_back(chat_tool(required_text(tool, "name"), description ? *description : Value(),
                              *tool.find("input_schema")));
  }
  return Value::list(std::move(tools));
}

void parse_tool_choice(const ApiFields& body, ChatRequest& request) {
  const std::optional<ApiFields> choice = body.object("tool_choice");
  if (!choice) return;
  const auto type = choice->one_of("type", {"auto", "any", "tool", "none"});
  if (!type) choice->reject("type", "is missing");
  if (*type == "none") request.tool_choice.kind = ToolChoice::Kind::none;
  if (*type == "any") request.tool_choice.kind = ToolChoice::Kind::required;
  if (*type == "tool") request.tool_choice = {ToolChoice::Kind::named, choice->required_text("name")};
  request.parallel_tool_calls = !choice->boolean("disable_parallel_tool_use").value_or(false);
}

void parse_thinking(const ApiFields& body, ChatRequest& request) {
  const std::optional<ApiFields> thinking = body.object("thinking");
  if (!thinking) return;
  const auto type = thinking->one_of("type", {"enabled", "disabled", "adaptive"});
  request.thinking = type != "disabled";
  if (const auto budget = thinking->integer("budget_tokens", 1, 1 << 30); budget && *request.thinking)
    request.thinking_budget = static_cast<int>(*budget);
}

/// output_config.format, and the name it had before.
ReplyFormat parse_format(const ApiFields& body) {
  const std::optional<ApiFields> config = body.object("output_config");
  const std::optional<ApiFields> format =
      config && config->find("format") ? config->object("format") : body.object("output_format");
  if (!format) return {};
  format->one_of("type", {"json_schema"});
  if (!format->object("schema")) format->reject("schema", "is missing");
  return {ReplyFormat::Kind::json_schema, *format->find("schema")};
}

}  // namespace

ChatRequest parse_messages_request(const ApiFields& body, const ServedModel& model, bool counts_only) {
  ChatRequest request;
  request.model = body.text("model").value_or("");
  model.require_name(request.model);
  request.conversation.messages = parse_messages(body);
  request.conversation.tools = parse_tools(body);
  request.conversation.continue_final_message = ends_with_assistant_text(request.conversation.messages);
  parse_tool_choice(body, request);
  parse_thinking(body, request);
  request.format = parse_format(body);
  if (counts_only) return request;
  request.options = parse_reply_options(body, model);
  request.options.stop = body.texts("stop_sequences");
  check_stop_strings(request.options.stop, "stop_sequences");
  request.options.max_tokens = parse_max_tokens(body, {"max_tokens"});
  if (!request.options.max_tokens) body.reject("max_tokens", "is missing");
  request.options.samples = 1;
  body.ignore({"anthropic_version", "anthropic_beta", "container", "context_management", "betas"});
  if (model.refuses_unknown_fields) body.refuse_unknown();
  return request;
}

}  // namespace carat
