// The pages of one KV group: how many sequences hold each, and in which order those that nobody holds are
// handed out again. Pages are numbers here; KvPages says what they are for.
#pragma once
#include <cstdint>
#include <list>
#include <vector>

namespace carat {

class PagePool {
 public:
  /// Where a kept page waits once nobody holds it.
  enum class Line { back, front };

  explicit PagePool(int pages);

  int total() const { return static_cast<int>(pages_.size()); }
  /// Pages that take() can still hand out.
  int available() const { return static_cast<int>(empty_.size() + kept_.size()); }

  /// A page that nobody holds, now held once: an empty one, else the first in the line of the kept ones,
  /// which loses its content. There must be one.
  int32_t take();
  void hold(int32_t page);
  /// The reverse of take() and hold(). A kept page that nobody holds any more gets in line.
  void drop(int32_t page, Line line = Line::back);
  int holders(int32_t page) const { return pages_[page].holders; }

  /// Whether the page's content is worth keeping when nobody holds it. take() forgets it.
  void keep(int32_t page) { pages_[page].kept = true; }
  void forget(int32_t page);

 private:
  struct Page {
    int holders = 0;
    bool kept = false;
    std::list<int32_t>::iterator place = {};  // in kept_, while kept and not held
  };
  std::vector<Page> pages_;
  std::vector<int32_t> empty_;  // neither held nor kept; the last one is handed out next
  std::list<int32_t> kept_;     // kept and not held; the first one is handed out next
};

}  // namespace carat
