// The line below a reply on standard error: what it took. Used by `carat run`, with a prompt and in a chat.
#pragma once
#include <string>

#include "carat/reply.h"

namespace carat {

struct ReplySummary {
  int prompt_tokens, cached_tokens, reply_tokens, drafted_tokens, accepted_tokens;
  double first_token_s, total_s;  // since the request
  FinishReason finish;            // cancelled: by the user
  std::string drawn;              // "greedy", "seed 1"; may be empty
};
void print_footer(const ReplySummary& reply);

}  // namespace carat
