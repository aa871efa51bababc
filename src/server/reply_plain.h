// GET /generate: the text of a reply, as it grows, and nothing around it.
#pragma once
#include <memory>
#include <string_view>

#include "server/api_options.h"
#include "server/reply_sink.h"

namespace carat {

/// The parameters of a query, percent-decoded; numbers, true and false as such. Throws ApiError for one that
/// is not UTF-8.
jinja::Value parse_query(std::string_view query);

/// Those of a completion, of which one is wanted.
ReplyParameters parse_plain_options(const ApiFields& query, const ServedModel& model);

std::unique_ptr<ReplySink> make_plain_sink(std::shared_ptr<HttpExchange> exchange);

}  // namespace carat
