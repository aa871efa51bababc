#include "cli/footer.h"

#include <cstdio>

namespace carat {

void print_footer(const ReplySummary& reply) {
  constexpr int kTooFewToTime = 2;  // one step says nothing about a rate
  const double decode_s = reply.total_s - reply.first_token_s;
  std::fprintf(stderr, "%d prompt tokens", reply.prompt_tokens);
  if (reply.cached_tokens > 0) std::fprintf(stderr, " (%d cached)", reply.cached_tokens);
  std::fprintf(stderr, ", %d generated", reply.reply_tokens);
  if (reply.reply_tokens > kTooFewToTime && decode_s > 0)
    std::fprintf(stderr, ", %.1f tok/s", (reply.reply_tokens - 1) / decode_s);
  if (reply.reply_tokens > 0) std::fprintf(stderr, ", first token after %.2f s", reply.first_token_s);
  if (!reply.drawn.empty()) std::fprintf(stderr, ", %s", reply.drawn.c_str());
  if (reply.drafted_tokens > 0)
    std::fprintf(stderr, ", %d of %d drafts accepted", reply.accepted_tokens, reply.drafted_tokens);
  if (reply.finish == FinishReason::length) std::fputs(" (ended by the length limit)", stderr);
  if (reply.finish == FinishReason::cancelled) std::fputs(" (stopped)", stderr);
  std::fputc('\n', stderr);
}

}  // namespace carat
