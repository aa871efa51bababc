#include "engine/page_pool.h"

#include "base/error.h"

namespace carat {

PagePool::PagePool(int pages) : pages_(static_cast<std::size_t>(pages)) {
  for (int32_t page = pages - 1; page >= 0; --page) empty_.push_back(page);
}

int32_t PagePool::take() {
  CHECK(available() > 0);
  if (empty_.empty()) forget(kept_.front());
  const int32_t page = empty_.back();
  empty_.pop_back();
  pages_[page].holders = 1;
  return page;
}

void PagePool::hold(int32_t page) {
  Page& p = pages_[page];
  if (p.holders == 0) {
    CHECK(p.kept);
    kept_.erase(p.place);
  }
  ++p.holders;
}

void PagePool::drop(int32_t page, Line line) {
  Page& p = pages_[page];
  CHECK(p.holders > 0);
  if (--p.holders > 0) return;
  if (!p.kept) {
    empty_.push_back(page);
    return;
  }
  p.place = kept_.insert(line == Line::back ? kept_.end() : kept_.begin(), page);
}

void PagePool::forget(int32_t page) {
  Page& p = pages_[page];
  if (!p.kept) return;
  p.kept = false;
  if (p.holders > 0) return;
  kept_.erase(p.place);
  empty_.push_back(page);
}

}  // namespace carat
