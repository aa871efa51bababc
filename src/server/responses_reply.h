// The replies of /v1/responses: OpenAI's response object, or its typed events.
#pragma once
#include <memory>

#include "server/reply_sink.h"
#include "server/responses_request.h"

namespace carat {

std::unique_ptr<ReplySink> make_responses_sink(const ResponsesRequest& request,
                                               std::shared_ptr<const ServedModel> model,
                                               std::shared_ptr<HttpExchange> exchange);

}  // namespace carat
