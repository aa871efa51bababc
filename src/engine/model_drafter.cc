#include "engine/model_drafter.h"

#include <algorithm>
#include <array>

namespace carat {

void ModelDrafter::draft(std::span<DraftWish> wishes) const {
  std::vector<DraftWish*> served;
  std::vector<int32_t> tokens, logit_rows, past;
  int count = 0;
  for (DraftWish& wish : wishes) {
    const Sequence& s = *wish.sequence;
    if (wish.most == 0 || s.last_draw.step != step_) continue;
    served.push_back(&wish);
    tokens.push_back(s.tokens.back());
    logit_rows.push_back(s.last_draw.row);
    past.push_back(s.cached);
    count = std::max(count, wish.most);
  }
  if (served.empty()) return;
  std::array<std::vector<int32_t>, kKvGroups> tables;
  DraftRows rows{tokens, logit_rows, past, {}};
  for (int g = 0; g < kKvGroups; ++g) {
    std::size_t stride = 0;
    for (const DraftWish* wish : served) stride = std::max(stride, wish->sequence->pages.table[g].size());
    for (const DraftWish* wish : served) {
      std::vector<int32_t> table = wish->sequence->pages.table[g];
      table.resize(stride, -1);
      tables[g].insert(tables[g].end(), table.begin(), table.end());
    }
    rows.page_tables[g] = {tables[g], static_cast<int>(stride)};
  }
  const std::vector<int32_t> guesses = runner_.draft(rows, count);
  for (std::size_t i = 0; i < served.size(); ++i) {
    const auto first = guesses.begin() + static_cast<std::ptrdiff_t>(i) * count;
    served[i]->drafts.assign(first, first + served[i]->most);
  }
}

}  // namespace carat
