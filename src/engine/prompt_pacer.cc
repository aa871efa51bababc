// Two running averages suffice: a decode step, and what a prompt token adds to one. Measured on the steps
// themselves, they follow the machine, the model and a growing context. How they depend on the batch and the
// context isn't guessed: where one of these has changed by much, the cost is measured anew, by one step
// without prompt tokens or by one with few.
#include "engine/prompt_pacer.h"

#include <algorithm>

namespace carat {
namespace {

constexpr int kFewest = 4;        // a prompt goes on whatever it costs
constexpr int kFirstGuess = 8;    // until their cost is known
constexpr double kSimilar = 1.5;  // ratio of sizes whose costs count as equal
constexpr double kMostJump = 2;   // no measurement is taken for more than so many times the average
/// Tokens of context that cost a prompt token about as much as all else: below, costs hardly differ.
constexpr int kShortContext = 1024;

}  // namespace

bool PromptPacer::Cost::known_at(int at) const {
  return seconds > 0 && at <= kSimilar * size && size <= kSimilar * at;
}

void PromptPacer::Cost::add(int at, double value, double down, double up) {
  if (seconds == 0) {
    seconds = value;
  } else if (known_at(at)) {
    const double weight = value < seconds ? down : up;
    seconds += weight * (std::min(value, seconds * kMostJump) - seconds);
  } else {
    // What is n times as large takes at most n times as long; a step that took longer was held up.
    seconds = std::min(value, seconds * std::max(1., static_cast<double>(at) / size));
  }
  size = at;
}

int PromptPacer::prompt_tokens(const Load& load, int room) const {
  if (slowdown_ == 0 || load.decoding == 0) return room;
  if (!decode_step_.known_at(load.decoding)) return 0;
  if (!prompt_token_.known_at(load.context + kShortContext)) return std::min(room, kFirstGuess);
  const double affordable = (slowdown_ - 1) * decode_step_.seconds / prompt_token_.seconds;
  return std::min(room, std::max(kFewest, static_cast<int>(std::min<double>(affordable, most_))));
}

// Both averages lean to the side that lets in fewer prompt tokens: a busy machine holds steps up, which must
// not look like a slow model that a few tokens more don't matter to.
void PromptPacer::report(const Load& load, int prompt_tokens, double seconds) {
  if (load.decoding == 0) return;
  if (prompt_tokens > 0 && !decode_step_.known_at(load.decoding)) return;  // nothing to compare with
  if (prompt_tokens == 0) return decode_step_.add(load.decoding, seconds, 0.25, 0.03);
  const int context = load.context + kShortContext;
  const int before = prompt_token_.known_at(context) ? most_ : 0;
  // With prompt tokens a step isn't quicker: what was measured without them had been held up.
  decode_step_.seconds = std::min(decode_step_.seconds, seconds);
  most_ = seconds > slowdown_ * decode_step_.seconds ? std::max(kFirstGuess, prompt_tokens / 2)
                                                     : std::max({before, kFirstGuess, 2 * prompt_tokens});
  const double least = decode_step_.seconds / 1000;  // where the difference is lost in the noise
  prompt_token_.add(context, std::max((seconds - decode_step_.seconds) / prompt_tokens, least), 0.05, 0.25);
}

}  // namespace carat
