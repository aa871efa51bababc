#include "server/chat_thinking.h"

#include <algorithm>
#include <utility>

#include "chat/thought_markers.h"
#include "grammar/reply_paths.h"

namespace carat {
namespace {

/// Behind some tokens of a reply.
struct Thought {
  bool open;
  int used;  // tokens of all thoughts so far
};

class ThinkingLimit final : public TokenMask {
 public:
  ThinkingLimit(int budget, ThoughtMarkers markers, bool begins_open, std::shared_ptr<TokenMask> otherwise)
      : budget_(budget),
        markers_(markers),
        thoughts_({.open = begins_open, .used = 0}),
        otherwise_(std::move(otherwise)) {}

  void allow_after(std::span<const int32_t> reply, std::span<uint32_t> allowed) override {
    const Thought thought = thoughts_.after(reply, [this](Thought before, int32_t token) {
      const bool open = token == markers_.begin || (before.open && token != markers_.end);
      return Thought{.open = open, .used = before.used + (open ? 1 : 0)};
    });
    const auto end = static_cast<std::size_t>(markers_.end);
    if (thought.open && thought.used >= budget_)
      allowed[end / 32] |= 1u << end % 32;
    else if (otherwise_)
      otherwise_->allow_after(reply, allowed);
    else
      std::ranges::fill(allowed, ~0u);
  }

 private:
  const int budget_;
  const ThoughtMarkers markers_;
  ReplyPaths<Thought> thoughts_;
  const std::shared_ptr<TokenMask> otherwise_;
};

}  // namespace

std::shared_ptr<TokenMask> limit_thinking(int budget, const Tokenizer& tokenizer,
                                          std::span<const int32_t> prompt,
                                          std::shared_ptr<TokenMask> otherwise) {
  const ThoughtMarkers markers(tokenizer);
  if (!markers.known()) return otherwise;
  return std::make_shared<ThinkingLimit>(budget, markers, markers.open_thought(prompt).has_value(),
                                         std::move(otherwise));
}

}  // namespace carat
