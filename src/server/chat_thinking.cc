#include "server/chat_thinking.h"

#include <algorithm>
#include <utility>

namespace carat {
namespace {

class ThinkingLimit final : public TokenMask {
 public:
  ThinkingLimit(int budget, int32_t begin, int32_t end, bool begins_open,
                std::shared_ptr<TokenMask> otherwise)
      : budget_(budget),
        begin_(begin),
        end_(end),
        begins_open_(begins_open),
        otherwise_(std::move(otherwise)) {}

  void allow_after(std::span<const int32_t> reply, std::span<uint32_t> allowed) override {
    bool open = begins_open_;
    int used = 0;  // by all thoughts of the reply
    for (const int32_t token : reply) {
      if (token == begin_) open = true;
      if (token == end_) open = false;
      used += open ? 1 : 0;
    }
    const auto id = static_cast<std::size_t>(end_);
    if (open && used >= budget_)
      allowed[id / 32] |= 1u << id % 32;
    else if (otherwise_)
      otherwise_->allow_after(reply, allowed);
    else
      std::ranges::fill(allowed, ~0u);
  }

 private:
  const int budget_;
  const int32_t begin_, end_;
  const bool begins_open_;
  const std::shared_ptr<TokenMask> otherwise_;
};

}  // namespace

bool ends_inside_thought(std::span<const int32_t> prompt, const Tokenizer& tokenizer) {
  const int32_t begin = tokenizer.find("<|channel>"), end = tokenizer.find("<channel|>");
  const auto is_marker = [&](int32_t id) { return id >= 0 && (id == begin || id == end); };
  const auto last = std::find_if(prompt.rbegin(), prompt.rend(), is_marker);
  return last != prompt.rend() && *last == begin;
}

std::shared_ptr<TokenMask> limit_thinking(int budget, const Tokenizer& tokenizer,
                                          std::span<const int32_t> prompt,
                                          std::shared_ptr<TokenMask> otherwise) {
  const int32_t begin = tokenizer.find("<|channel>"), end = tokenizer.find("<channel|>");
  if (begin < 0 || end < 0) return otherwise;
  const bool begins_open = ends_inside_thought(prompt, tokenizer);
  return std::make_shared<ThinkingLimit>(budget, begin, end, begins_open, std::move(otherwise));
}

}  // namespace carat
