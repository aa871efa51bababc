#include "engine/step_builder.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace carat {

void StepBuilder::clear() {
  tokens_.clear();
  segments_.clear();
  sequences_.clear();
  logit_rows_.clear();
  sampling_.clear();
  return_logits_ = false;
}

int StepBuilder::add(std::span<const int32_t> tokens, int past, const SequencePages& pages) {
  const int first = this->tokens();
  segments_.push_back(
      {first, static_cast<int32_t>(tokens.size()), past, static_cast<int32_t>(sequences_.size())});
  sequences_.push_back(&pages);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return first;
}

void StepBuilder::want_token(int row, const RowSampling& how) {
  want_logits(row);
  sampling_.push_back(how);
}

StepInput StepBuilder::input() {
  CHECK(sampling_.empty() || sampling_.size() == logit_rows_.size());
  StepInput step;
  step.tokens = tokens_;
  step.segments = segments_;
  step.logit_rows = logit_rows_;
  step.sampling = sampling_;
  step.return_logits = !logit_rows_.empty() && (return_logits_ || sampling_.empty());
  for (int g = 0; g < kKvGroups; ++g) {
    std::size_t stride = 0;
    for (const SequencePages* pages : sequences_) stride = std::max(stride, pages->table[g].size());
    std::vector<int32_t>& flat = page_tables_[g];
    flat.assign(stride * sequences_.size(), -1);
    for (std::size_t row = 0; row < sequences_.size(); ++row) {
      std::ranges::copy(sequences_[row]->table[g], flat.begin() + static_cast<std::ptrdiff_t>(row * stride));
    }
    step.page_tables[g] = {flat, static_cast<int>(stride)};
  }
  return step;
}

}  // namespace carat
