// Text of the user -> prompt ids of a checkpoint: continued as it is, or as the user's turn of a chat.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "cli/loaded_model.h"
#include "text/tokenizer.h"

namespace carat {

/// Null when the checkpoint has no chat template of its own, or no turn markers among its special tokens: one
/// without the other doesn't make a chat model. Throws Error as ChatTemplate::load() does.
std::shared_ptr<const ChatTemplate> load_chat_template(const LoadedModel& model,
                                                       std::shared_ptr<const Tokenizer> tokenizer);

/// The user's turn and the beginning of the model's. `text` is text all through. Throws
/// Error{invalid_argument} for `think` when the template has no thinking.
std::vector<int32_t> encode_turn(const ChatTemplate& chat_template, std::string_view text, bool think);

/// Exactly one bos. The text may name special tokens.
std::vector<int32_t> encode_continuation(const Tokenizer& tokenizer, std::string_view text, int32_t bos);

}  // namespace carat
