// Anthropic's Messages API: the body of /v1/messages as a chat.
#pragma once
#include "server/chat_request.h"

namespace carat {

/// Throws ApiError. `counts_only`: for count_tokens, whose body has no limits.
ChatRequest parse_messages_request(const ApiFields& body, const ServedModel& model, bool counts_only);

}  // namespace carat
