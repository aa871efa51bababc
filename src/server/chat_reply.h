// The replies of /v1/chat/completions: a chat.completion object, or chunks of one.
#pragma once
#include <memory>
#include <vector>

#include "server/chat_request.h"
#include "server/reply_sink.h"

namespace carat {

/// `prompt`: shown to clients that ask for token ids.
std::unique_ptr<ReplySink> make_chat_sink(const ChatRequest& request, std::vector<int32_t> prompt,
                                          std::shared_ptr<const ServedModel> model,
                                          std::shared_ptr<HttpExchange> exchange);

}  // namespace carat
