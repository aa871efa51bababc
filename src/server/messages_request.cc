#include "server/messages_request.h"

#include <utility>

#include "server/chat_messages.h"

namespace carat {
namespace {

using jinja::Value;

/// What a message of the assistant consists of, in order.
void add_assistant_block(const ApiFields& block, ChatMessages& messages) {
  const std::string type = block.required_text("type");
  if (type == "text") {
    messages.add("assistant", block.required_text_value("text"));
  } else if (type == "thinking") {
    messages.add_reasoning(block.required_text_value("thinking"));
  } else if (type == "tool_use") {
    messages.add_tool_call(chat_tool_call(block.required_text_value("id"), block.required_text_value("name"),
                                          block.required_map("input")));
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
      messages.add_tool_result(
          block.required_text_value("tool_use_id"),
          content ? text_content(*content, block.path("content"), {"text"}) : plain_text(""));
    } else if (type == "text") {
      parts.push_back(text_part(block.required_text_value("text")));
    } else {
      block.reject("type", "is ", in_quotes(type), ": a user's block is text or tool_result");
    }
  }
  if (!parts.empty()) messages.add("user", Value::list(std::move(parts)));
}

Value parse_messages(const ApiFields& body) {
  ChatMessages messages;
  if (const Value* system = body.find("system"))
    messages.add("system", text_content(*system, "system", {"text"}));
  const std::vector<Value>* list = body.list("messages");
  if (!list) body.reject("messages", "is missing");
  if (list->empty()) body.reject("messages", "is empty");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const ApiFields message((*list)[i], element_path("messages", i));
    const std::string role = message.required_one_of("role", {"user", "assistant", "system"});
    const Value content = message.required("content");
    const std::string path = message.path("content");
    if (!content.as_list() || role == "system") {
      messages.add(role, text_content(content, path, {"text"}));
    } else if (role == "user") {
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
    const Value* description = tool.find("description");
    tools.push_back(chat_tool(tool.required_text_value("name"), description ? *description : Value(),
                              tool.required_map("input_schema")));
  }
  return Value::list(std::move(tools));
}

void parse_tool_choice(const ApiFields& body, ChatRequest& request) {
  const std::optional<ApiFields> choice = body.object("tool_choice");
  if (!choice) return;
  const std::string type = choice->required_one_of("type", {"auto", "any", "tool", "none"});
  if (type == "none") request.tool_choice.kind = ToolChoice::Kind::none;
  if (type == "any") request.tool_choice.kind = ToolChoice::Kind::required;
  if (type == "tool") request.tool_choice = {ToolChoice::Kind::named, choice->required_text("name")};
  request.parallel_tool_calls = !choice->boolean("disable_parallel_tool_use").value_or(false);
}

/// output_config.format, and the name it had before.
ReplyFormat parse_format(const ApiFields& body) {
  const std::optional<ApiFields> config = body.object("output_config");
  const std::optional<ApiFields> format =
      config && config->find("format") ? config->object("format") : body.object("output_format");
  if (!format) return {};
  format->required_one_of("type", {"json_schema"});
  return {ReplyFormat::Kind::json_schema, format->required_map("schema")};
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
  parse_thinking_object(body, request);
  request.format = parse_format(body);
  if (counts_only) {
    body.ignore_fields_of_replies();
  } else {
    request.options = parse_reply_options(body, model);
    parse_stop(body, "stop_sequences", request.options);
    request.options.max_tokens = parse_max_tokens(body, {"max_tokens"});
    if (!request.options.max_tokens) body.reject("max_tokens", "is missing");
  }
  body.ignore({"anthropic_version", "anthropic_beta", "betas", "container", "context_management", "metadata",
               "service_tier"});
  body.refuse_rest(model.refuses_unknown_fields);
  return request;
}

}  // namespace carat
