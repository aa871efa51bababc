// Two running averages suffice: a decode step, and what a prompt token adds to one. Measured on the steps
// themselves, they follow the machine, the model and the growing context. How a decode step depends on its
// size isn't guessed: when there are prompts and the number of decoding sequences has changed by much, one
// step goes without prompt tokens and shows it.
#include "engine/prompt_pacer.h"

#include <algorithm>

namespace carat {
namespace {

constexpr int kFewest = 4;        // a prompt goes on whatever it costs
constexpr int kFirstGuess = 8;    // until their cost is known
constexpr double kSimilar = 1.5;  // ratio of batch sizes whose decode steps count as equally long

/// A running average that follows smaller and larger values at different speeds, and takes none for more than
/// four times itself.
struct Weights {
  double down, up;
};
void average(double& running, double value, const Weights& weights) {
  constexpr double kMostJump = 4;
  const double weight = value < running ? weights.down : weights.up;
  running = running == 0 ? value : running + weight * (std::min(value, running * kMostJump) - running);
}

// Both lean to the side that lets in fewer prompt tokens: a busy machine holds steps up, which must not look
// like a slow model that a few tokens more don't matter to.
constexpr Weights kDecodeStep{0.25, 0.03}, kPromptToken{0.05, 0.25};

}  // namespace

bool PromptPacer::knows(int decoding) const {
  return decode_s_ > 0 && decoding <= kSimilar * measured_ && measured_ <= kSimilar * decoding;
}

int PromptPacer::prompt_tokens(int decoding, int room) const {
  if (slowdown_ == 0 || decoding == 0) return room;
  if (!knows(decoding)) return 0;
  if (prompt_token_s_ == 0) return std::min(room, kFirstGuess);
  // At most twice as many as ever: the first step may have gone by quickly by luck, and the next one would be
  // long.
  const double most = std::max(kFirstGuess, 2 * tried_);
  const double affordable = (slowdown_ - 1) * decode_s_ / prompt_token_s_;
  return std::min(room, std::max(kFewest, static_cast<int>(std::min(affordable, most))));
}

void PromptPacer::report(int decoding, int prompt_tokens, double seconds) {
  if (decoding == 0) return;
  if (prompt_tokens == 0) return report_decoding(decoding, seconds);
  constexpr double kLeast = 1e-9;  // a step may even be quicker than the average one without prompt tokens
  tried_ = std::max(tried_, prompt_tokens);
  if (knows(decoding))
    average(prompt_token_s_, std::max((seconds - decode_s_) / prompt_tokens, kLeast), kPromptToken);
}

void PromptPacer::report_decoding(int decoding, double seconds) {
  if (knows(decoding)) return average(decode_s_, seconds, kDecodeStep);
  // r times as many sequences take at most r times as long; a step that took longer was held up.
  const double growth = std::max(1., static_cast<double>(decoding) / std::max(1, measured_));
  decode_s_ = decode_s_ == 0 ? seconds : std::min(seconds, decode_s_ * growth);
  measured_ = decoding;
}

}  // namespace carat
