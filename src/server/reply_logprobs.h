// Log-probabilities as OpenAI's APIs show them: one form for chats and responses, an older one for
// completions.
#pragma once
#include <span>
#include <string>

#include "server/api_json.h"
#include "server/reply_choice.h"
#include "text/tokenizer.h"

namespace carat {

/// The list of {token, logprob, bytes, top_logprobs} of a chat.
void write_chat_logprobs(std::span<const ReplyToken> tokens, const Tokenizer& tokenizer, JsonText& json);

/// The object {tokens, token_logprobs, top_logprobs, text_offset} of a completion. `offset`, the characters
/// of the text before these tokens, is moved behind them; `skip_special`: special tokens have no text.
void write_completion_logprobs(std::span<const ReplyToken> tokens, const Tokenizer& tokenizer,
                               bool skip_special, std::size_t& offset, JsonText& json);

/// Code points of valid UTF-8.
std::size_t count_characters(std::string_view text);

}  // namespace carat
