// Builds the messages and tools of a chat out of those of other APIs. Texts keep the origin they came with.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat/value.h"

namespace carat {

/// A text of our own.
jinja::Value plain_text(std::string_view text);

/// {"role": role, "content": content}
jinja::Value chat_message(std::string_view role, jinja::Value content);

/// {"type": "text", "text": text}
jinja::Value text_part(jinja::Value text);

/// A text, or a list of parts of text of these types, as parts of ours. `path` names `content` in errors.
jinja::Value text_content(const jinja::Value& content, const std::string& path,
                          std::initializer_list<std::string_view> types);

/// {"id", "type": "function", "function": {"name", "arguments"}}
jinja::Value chat_tool_call(jinja::Value id, jinja::Value name, jinja::Value arguments);

/// {"type": "function", "function": {"name", "description", "parameters"}}; the last two may be undefined.
jinja::Value chat_tool(jinja::Value name, jinja::Value description, jinja::Value parameters);

/// Messages in the making. What the assistant thinks, says and calls in a row is one message.
class ChatMessages {
 public:
  void add(std::string_view role, jinja::Value content);
  void add_reasoning(jinja::Value text);
  void add_tool_call(jinja::Value call);
  void add_tool_result(jinja::Value call_id, jinja::Value content);
  bool empty() const { return messages_.empty() && open_.size() == 0; }
  jinja::Value take();

 private:
  /// The assistant's message that is being put together.
  jinja::Map& open();
  void close();

  std::vector<jinja::Value> messages_;
  jinja::Map open_;                  // empty: none
  std::vector<jinja::Value> calls_;  // of the open message
};

}  // namespace carat
