// Which experts each token of a step goes to, grouped by expert: one pass over an expert's weights serves all
// its tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace carat {

class ExpertRouting {
 public:
  /// One token's visit to one expert. Visits are numbered by expert, then by token.
  struct Visit {
    int32_t row;
    float weight;
  };
  struct Group {
    int expert, first_visit, visits;
  };

  ExpertRouting() = default;
  ExpertRouting(int experts, int experts_per_token, int max_rows);

  /// Chooses row `row`'s experts from its router scores [experts], which are turned into probabilities:
  /// softmax, the best `experts_per_token` (equal ones by number) renormalised to 1, times expert_scale.
  void choose(int row, std::span<float> scores, std::span<const float> expert_scale);
  /// Groups the choices of rows [0, count).
  void group(int count);

  std::span<const Group> groups() const { return groups_; }
  std::span<const Visit> visits() const { return visits_; }
  /// The visits of one row, by ascending expert: the order in which their results are summed.
  std::span<const int32_t> visits_of(int row) const {
    return std::span(visits_of_row_).subspan(static_cast<std::size_t>(row * per_token_), per_token_);
  }

 private:
  struct Choice {
    int expert;
    float weight;
  };

  int experts_ = 0;
  int per_token_ = 0;
  std::vector<Choice> choices_;  // [rows, per_token], by ascending expert
  std::vector<Visit> visits_;
  std::vector<Group> groups_;
  std::vector<int32_t> visits_of_row_;  // [rows, per_token]
  std::vector<int32_t> next_visit_;     // [experts]
};

}  // namespace carat
