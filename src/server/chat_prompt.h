// A chat request -> what the engine is to run, and how its tokens are to be read.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "chat/output_parser.h"
#include "server/chat_request.h"

namespace carat {

struct ChatPrompt {
  std::string text;  // as the template rendered it
  std::vector<int32_t> ids;
};

/// Throws ApiError naming the message at fault.
ChatPrompt make_chat_prompt(const ChatRequest& request, const ServedModel& model);

struct ChatRun {
  Request request;
  OutputOptions output;
};

/// Throws ApiError, also for a form of the reply that can't be guaranteed.
ChatRun make_chat_run(const ChatRequest& request, const ServedModel& model);

}  // namespace carat
