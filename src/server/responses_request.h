// OpenAI's Responses API: the body of /v1/responses as a chat. Nothing is stored.
#pragma once
#include <string>

#include "server/chat_request.h"

namespace carat {

struct ResponsesRequest {
  ChatRequest chat;
  std::string echo;  // the JSON members of the request that a response repeats, without braces
};

/// Throws ApiError.
ResponsesRequest parse_responses_request(const ApiFields& body, const ServedModel& model);

}  // namespace carat
