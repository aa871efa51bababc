#include "cpu/expert_routing.h"

#include <algorithm>
#include <cmath>

namespace carat {

ExpertRouting::ExpertRouting(int experts, int experts_per_token, int max_rows)
    : experts_(experts),
      per_token_(experts_per_token),
      choices_(static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(experts_per_token)),
      visits_(choices_.size()),
      visits_of_row_(choices_.size()),
      next_visit_(static_cast<std::size_t>(experts)) {
  groups_.reserve(static_cast<std::size_t>(experts));
}

void ExpertRouting::choose(int row, std::span<float> scores, std::span<const float> expert_scale) {
  const float largest = *std::ranges::max_element(scores);
  float total = 0.f;
  for (float& score : scores) total += score = std::exp(score - largest);
  const auto choices = std::span(choices_).subspan(static_cast<std::size_t>(row * per_token_), per_token_);
  float chosen_total = 0.f;
  for (Choice& choice : choices) {
    const auto best = std::ranges::max_element(scores);
    choice = {static_cast<int>(best - scores.begin()), *best / total};
    chosen_total += choice.weight;
    *best = -1.f;  // below every probability
  }
  for (Choice& choice : choices) choice.weight = choice.weight / chosen_total * expert_scale[choice.expert];
  std::ranges::sort(choices, {}, &Choice::expert);
}

void ExpertRouting::group(int count) {
  const auto choices = std::span(choices_).first(static_cast<std::size_t>(count * per_token_));
  std::ranges::fill(next_visit_, 0);
  for (const Choice& choice : choices) ++next_visit_[choice.expert];
  groups_.clear();
  int first = 0;
  for (int expert = 0; expert < experts_; ++expert) {
    const int visits = next_visit_[expert];
    if (visits > 0) groups_.push_back({expert, first, visits});
    next_visit_[expert] = first;
    first += visits;
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const int visit = next_visit_[choices[i].expert]++;
    visits_[visit] = {static_cast<int32_t>(i) / per_token_, choices[i].weight};
    visits_of_row_[i] = visit;
  }
}

}  // namespace carat
