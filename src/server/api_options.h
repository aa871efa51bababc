// The fields that all endpoints which generate have in common: sampling, limits, and what comes back.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api_fields.h"
#include "server/api_model.h"

namespace carat {

struct ReplyParameters {
  Request request;                // but for the prompt, what follows here, and a mask
  std::optional<int> max_tokens;  // none: as many as the context holds
  std::vector<std::string> stop;  // replies look for them where they count

  bool stream = false;
  bool include_usage = false;  // in a stream
  bool timings = false;
  bool return_token_ids = false;
  bool skip_special_tokens = true;  // of plain text; what a chat's reply consists of, its control tokens say
};

// What all throw is ApiError.

/// What every endpoint has that generates; the rest is read by these below, where it is there.
ReplyParameters parse_reply_options(const ApiFields& body, const ServedModel& model);

/// The strings that end a reply, from the field of that name.
void parse_stop(const ApiFields& body, std::string_view name, ReplyParameters& options);

/// What OpenAI's APIs with choices have: their number, and what else comes with them.
void parse_choices(const ApiFields& body, const ServedModel& model, ReplyParameters& options);

/// Of one of these fields, the first that is there.
std::optional<int> parse_max_tokens(const ApiFields& body, std::initializer_list<std::string_view> names);

/// The engine's request for `prompt`. Throws ApiError{400, context_length_exceeded}, naming `field`, for a
/// prompt that doesn't fit.
Request to_request(const ReplyParameters& options, std::vector<int32_t> prompt, const std::string& field,
                   const ServedModel& model);

}  // namespace carat
