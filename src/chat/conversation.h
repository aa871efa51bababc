// What a client asks a chat model to answer, in the form of OpenAI's API. Used by chat templates and by
// whoever fills it in from a request or a prompt.
#pragma once
#include "chat/value.h"

namespace carat {

/// Values made by jinja::parse_json(..., Origin::user) never become control tokens.
struct Conversation {
  /// A list of mappings: `role` (system, developer, user, assistant, tool), `content` (a text, a list of text
  /// parts, null or absent), and for assistant `reasoning_content` and `tool_calls`, for tool `tool_call_id`
  /// and `name`.
  jinja::Value messages;
  /// A list of mappings, {"type": "function", "function": {...}}; undefined, none or empty without tools.
  jinja::Value tools;
  /// More variables for the template, such as enable_thinking (chat_template_kwargs).
  jinja::Map variables;
  bool add_generation_prompt = true;
  /// The last message, of the assistant, is to be continued: the prompt ends with its text.
  bool continue_final_message = false;
};

/// The messages as templates expect them: nulls left out, arguments of tool calls as mappings (the API has
/// them as JSON texts; empty and null mean none), the reasoning under each of its names. Throws
/// Error{invalid_argument} that names the message and the field, also for content other than text.
jinja::Value normalized_messages(const jinja::Value& messages);

}  // namespace carat
