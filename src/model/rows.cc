#include "model/rows.h"

#include "base/error.h"

namespace carat {

NarrowedRows narrow_rows(const Rows& all, std::span<const int32_t> wanted) {
  NarrowedRows narrowed;
  narrowed.tokens.reserve(wanted.size());
  std::size_t next = 0;
  for (const Segment& segment : all.segments) {
    int32_t previous = -2;  // the row before the open run, never a neighbour at the start of a segment
    for (; next < wanted.size() && wanted[next] < segment.first + segment.count; ++next) {
      const int32_t row = wanted[next];
      CHECK(row >= segment.first);
      if (row == previous + 1) {
        ++narrowed.segments.back().count;
      } else {
        narrowed.segments.push_back({static_cast<int32_t>(narrowed.tokens.size()), 1,
                                     segment.past + row - segment.first, segment.sequence});
      }
      narrowed.tokens.push_back(all.tokens[static_cast<std::size_t>(row)]);
      previous = row;
    }
  }
  CHECK(next == wanted.size());
  return narrowed;
}

}  // namespace carat
