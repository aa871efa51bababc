// What a client asks of /v1/completions: texts or tokens to continue, without any chat.
#pragma once
#include <string>
#include <vector>

#include "server/api_options.h"

namespace carat {

struct CompletionPrompt {
  std::vector<int32_t> ids;
  std::string text;  // for `echo`
};

struct CompletionsRequest {
  std::string model;
  std::vector<CompletionPrompt> prompts;
  ReplyParameters options;
  bool echo = false;
};

/// Throws ApiError.
CompletionsRequest parse_completions_request(const ApiFields& body, const ServedModel& model);

/// The ids of a text to be continued: exactly one bos, or what `add_special_tokens: false` in `body` leaves
/// of that. The text may name special tokens. Throws ApiError when there are none at all.
std::vector<int32_t> encode_raw(std::string_view text, const ApiFields& body, const ServedModel& model);

}  // namespace carat
