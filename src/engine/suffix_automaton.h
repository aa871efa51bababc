// The suffix automaton of a growing text (Blumer et al. 1985): all of its substrings in at most two states
// per token, extended in constant time per token on average. Used to find the longest end of the text that
// has occurred before, however long it is.
#pragma once
#include <unordered_map>
#include <utility>

#include "engine/drafter.h"

namespace carat {

class SuffixAutomaton {
 public:
  SuffixAutomaton() : states_(1) {}

  void append(int32_t token);
  int size() const { return size_; }

  /// The longest end of the text that has occurred before, and where the text went on after it.
  struct Repeat {
    int length = 0;
    int next = 0;  // position after an earlier occurrence; meaningless for length 0
  };
  Repeat longest_repeat() const { return repeat_; }

 private:
  /// A class of substrings that end at the same positions; state 0 is the empty one.
  struct State {
    int length = 0;  // of the longest
    int link = -1;   // the class of its longest suffix that ends at more positions
    int end = 0;     // after an occurrence: the latest one that was seen as longest repeat, else the first
    std::vector<std::pair<int32_t, int>> next;  // token -> state, not of state 0
  };

  int follow(int state, int32_t token) const;
  void set_next(int state, int32_t token, int to);
  int split(int state, int32_t token, int target);

  std::vector<State> states_;
  std::unordered_map<int32_t, int> first_;  // transitions of state 0, which may have very many
  int last_ = 0;                            // the whole text
  int size_ = 0;
  Repeat repeat_;
};

class SuffixDrafter final : public Drafter {
 public:
  std::vector<int32_t> draft(std::span<const int32_t> tokens, int most) override;

 private:
  SuffixAutomaton text_;
};

}  // namespace carat
