#include "model/rows.h"

#include <gtest/gtest.h>

#include <array>

namespace carat {

inline bool operator==(const Segment& a, const Segment& b) {
  return a.first == b.first && a.count == b.count && a.past == b.past && a.sequence == b.sequence;
}

namespace {

const std::array<int32_t, 7> kTokens{10, 11, 12, 13, 14, 15, 16};
const std::array<Segment, 3> kSegments{Segment{0, 4, 100, 2}, Segment{4, 1, 7, 0}, Segment{5, 2, 0, 1}};
const Rows kAll{kTokens, kSegments};

TEST(NarrowRows, LastRowOfAPromptSeesEverythingBeforeIt) {
  const std::array<int32_t, 1> wanted{3};
  const NarrowedRows narrowed = narrow_rows(kAll, wanted);
  EXPECT_EQ(narrowed.tokens, (std::vector<int32_t>{13}));
  EXPECT_EQ(narrowed.segments, (std::vector<Segment>{{0, 1, 103, 2}}));
}

TEST(NarrowRows, NeighboursStayOneSegmentButSequencesNeverMerge) {
  const std::array<int32_t, 6> wanted{0, 2, 3, 4, 5, 6};
  const NarrowedRows narrowed = narrow_rows(kAll, wanted);
  EXPECT_EQ(narrowed.tokens, (std::vector<int32_t>{10, 12, 13, 14, 15, 16}));
  EXPECT_EQ(narrowed.segments,
            (std::vector<Segment>{{0, 1, 100, 2}, {1, 2, 102, 2}, {3, 1, 7, 0}, {4, 2, 0, 1}}));
}

TEST(NarrowRows, NoneWantedIsAnEmptyBatch) { EXPECT_EQ(narrow_rows(kAll, {}).rows().count(), 0); }

}  // namespace
}  // namespace carat
