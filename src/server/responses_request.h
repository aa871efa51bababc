// OpenAI's Responses API: the body of /v1/responses as a chat. Nothing is stored.
#pragma once
#include <string>
#include <string_view>

#include "server/chat_request.h"

namespace carat {

/// How `encrypted_content` of a reasoning item begins, behind which the reasoning is as it is: clients that
/// keep nothing else of an item bring it back for the next turn.
inline constexpr std::string_view kKeptReasoning = "carat:";

struct ResponsesRequest {
  ChatRequest chat;
  bool keeps_reasoning = false;  // reasoning comes back in the form that clients keep; see kKeptReasoning
  std::string echo;              // the JSON members of the request that a response repeats, without braces
};

/// Throws ApiError.
ResponsesRequest parse_responses_request(const ApiFields& body, const ServedModel& model);

}  // namespace carat
