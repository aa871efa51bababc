// Text of the user -> prompt ids of a checkpoint: continued as it is, or as turns of a chat.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "api/loaded_model.h"
#include "chat/chat_template.h"
#include "text/tokenizer.h"

namespace carat {

/// How a conversation becomes a prompt of this checkpoint, for all that take one: its own chat template or a
/// built-in one. Throws and warns as ChatTemplate::load() does.
std::shared_ptr<const ChatTemplate> load_chat_template(const LoadedModel& model,
                                                       std::shared_ptr<const Tokenizer> tokenizer,
                                                       const WarningSink& warn);

/// A message whose content is `text` all through, for Conversation::messages.
jinja::Value text_message(std::string_view role, std::string_view text);

/// The conversation and the beginning of the model's turn. Throws Error{invalid_argument} for what is wrong
/// with the messages, and for `think` when the template has no thinking.
std::vector<int32_t> encode_chat(const ChatTemplate& chat_template, Conversation conversation, bool think);

/// Exactly one bos. The text may name special tokens.
std::vector<int32_t> encode_continuation(const Tokenizer& tokenizer, std::string_view text, int32_t bos);

}  // namespace carat
