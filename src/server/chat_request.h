// What a client asks of a chat, whichever API it speaks: /v1/chat/completions, /v1/responses and /v1/messages
// all become this.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "chat/conversation.h"
#include "server/api_fields.h"
#include "server/api_options.h"

namespace carat {

struct ToolChoice {
  enum class Kind { none, automatic, required, named };
  Kind kind = Kind::automatic;
  std::string name = {};  // of Kind::named
};

/// The form of the answer.
struct ReplyFormat {
  enum class Kind { text, json_object, json_schema };
  Kind kind = Kind::text;
  jinja::Value schema = {};  // of Kind::json_schema
};

struct ChatRequest {
  std::string model;
  Conversation conversation;
  ReplyParameters options;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  ReplyFormat format;
  std::optional<bool> thinking;        // none: as the template does by itself
  std::optional<int> thinking_budget;  // tokens of reasoning, then the thought is closed
};

/// The body of /v1/chat/completions. Throws ApiError.
ChatRequest parse_chat_request(const ApiFields& body, const ServedModel& model);

/// Only what makes a prompt: messages, tools and template arguments. Also for /tokenize and /apply-template.
void parse_conversation(const ApiFields& body, ChatRequest& request);

/// OpenAI's tool_choice in either of its APIs; `tools` are those that there are. Throws ApiError.
ToolChoice parse_tool_choice(const ApiFields& body, const jinja::Value& tools);

/// A text or a list of parts ends the last message, which is the assistant's and calls no tool: the reply
/// goes on with it.
bool ends_with_assistant_text(const jinja::Value& messages);

/// Turns thinking on or off by the name of an effort: "none" is off, any other on. Throws for an unknown one.
void set_thinking(const ApiFields& object, std::string_view field, ChatRequest& request);

/// Anthropic's `thinking`, {"type": "enabled", "budget_tokens": 100}, which clients send to chats as well.
void parse_thinking_object(const ApiFields& body, ChatRequest& request);

}  // namespace carat
