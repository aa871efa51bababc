// Guesses how a text goes on, so that one step can check several tokens. A wrong guess costs time and never
// changes a reply: each position's token is drawn from its own logits as without drafts, and the drafts are
// accepted as far as they are what was drawn.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace carat {

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Up to `most` tokens that may follow `tokens`, which begins with the `tokens` of the call before.
  virtual std::vector<int32_t> draft(std::span<const int32_t> tokens, int most) = 0;
};

/// `count` tokens as they stand in `tokens` from `position` on; a text that runs up to its end is taken to
/// repeat itself.
std::vector<int32_t> repeat_from(std::span<const int32_t> tokens, std::size_t position, int count);

enum class DraftMethod {
  none,
  ngram,   // prompt lookup: what followed the last few tokens when they occurred before
  suffix,  // what followed the longest repeated end of the text
  model    // a drafter that the runner has beside the model, see RunnerInfo::drafts
};

/// One per sequence; null for DraftMethod::none, and for DraftMethod::model, which guesses for all at once.
std::unique_ptr<Drafter> make_drafter(DraftMethod method);

/// How many tokens are worth guessing, from what became of the guesses before: up while all are accepted,
/// down to one more than were accepted, and a growing pause after several that were useless.
class DraftLength {
 public:
  explicit DraftLength(int most) : most_(most), length_(most < 4 ? most : 4) {}

  /// For the next step; 0 during a pause.
  int next();
  void report(int drafted, int accepted);

 private:
  int most_;
  int length_;
  int failures_ = 0;  // in a row
  int pause_ = 0;     // steps left without drafts
};

}  // namespace carat
