// The form that a chat's reply must have -> the grammar that holds the model to it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "server/chat_request.h"

namespace carat {

/// Null when any reply will do. A required tool call goes before a form of the answer. Throws ApiError{400}
/// for a schema that can't be guaranteed, and when the server has no grammars. May take some tenths of a
/// second.
std::shared_ptr<TokenMask> make_reply_mask(const ChatRequest& request, std::span<const int32_t> prompt,
                                           const ServedModel& model);

}  // namespace carat
