// The replies of /v1/messages: Anthropic's message object, or the events of one.
#pragma once
#include <memory>

#include "server/chat_request.h"
#include "server/reply_sink.h"

namespace carat {

std::unique_ptr<ReplySink> make_messages_sink(const ChatRequest& request, int prompt_tokens,
                                              const ServedModel& model,
                                              std::shared_ptr<HttpExchange> exchange);

}  // namespace carat
