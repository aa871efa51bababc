// The replies of /v1/completions: a text_completion object, or pieces of one.
#pragma once
#include <memory>

#include "server/completions_request.h"
#include "server/reply_sink.h"

namespace carat {

std::unique_ptr<ReplySink> make_completions_sink(CompletionsRequest request,
                                                 std::shared_ptr<const ServedModel> model,
                                                 std::shared_ptr<HttpExchange> exchange);

}  // namespace carat
