#include "engine/suffix_automaton.h"

namespace carat {

int SuffixAutomaton::follow(int state, int32_t token) const {
  if (state == 0) {
    const auto found = first_.find(token);
    return found == first_.end() ? -1 : found->second;
  }
  for (const auto& [label, to] : states_[state].next) {
    if (label == token) return to;
  }
  return -1;
}

void SuffixAutomaton::set_next(int state, int32_t token, int to) {
  if (state == 0) {
    first_[token] = to;
    return;
  }
  for (auto& [label, target] : states_[state].next) {
    if (label == token) {
      target = to;
      return;
    }
  }
  states_[state].next.emplace_back(token, to);
}

/// The part of class `target` that can be reached by `token` from `state` becomes a class of its own.
int SuffixAutomaton::split(int state, int32_t token, int target) {
  const int copy = static_cast<int>(states_.size());
  states_.push_back(states_[target]);
  states_[copy].length = states_[state].length + 1;
  states_[target].link = copy;
  for (int s = state; s >= 0 && follow(s, token) == target; s = states_[s].link) set_next(s, token, copy);
  return copy;
}

void SuffixAutomaton::append(int32_t token) {
  const int whole = static_cast<int>(states_.size());
  states_.push_back({.length = ++size_, .link = 0, .end = size_, .next = {}});
  int state = last_;
  for (; state >= 0 && follow(state, token) < 0; state = states_[state].link) set_next(state, token, whole);
  if (state >= 0) {
    const int target = follow(state, token);
    states_[whole].link =
        states_[target].length == states_[state].length + 1 ? target : split(state, token, target);
  }
  last_ = whole;
  State& repeated = states_[states_[whole].link];
  repeat_ = {repeated.length, repeated.end};
  repeated.end = size_;
}

std::vector<int32_t> SuffixDrafter::draft(std::span<const int32_t> tokens, int most) {
  constexpr int kShortest = 2;
  for (const int32_t token : tokens.subspan(text_.size())) text_.append(token);
  const SuffixAutomaton::Repeat repeat = text_.longest_repeat();
  if (repeat.length < kShortest) return {};
  return repeat_from(tokens, repeat.next, most);
}

}  // namespace carat
