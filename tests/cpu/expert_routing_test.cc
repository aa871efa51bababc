#include "cpu/expert_routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace carat {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

TEST(ExpertRouting, RenormalisesTheBestAndThenScalesEachExpert) {
  ExpertRouting routing(4, 2, 1);
  std::vector<float> scores{0.f, std::log(3.f), std::log(2.f), std::log(6.f)};
  routing.choose(0, scores, std::vector<float>{1.f, 10.f, 1.f, 2.f});
  routing.group(1);
  ASSERT_EQ(routing.groups().size(), 2u);
  EXPECT_EQ(routing.groups()[0].expert, 1);
  EXPECT_EQ(routing.groups()[1].expert, 3);
  EXPECT_NEAR(routing.visits()[0].weight, 3.f / 9 * 10, 1e-5f);
  EXPECT_NEAR(routing.visits()[1].weight, 6.f / 9 * 2, 1e-5f);
}

TEST(ExpertRouting, EqualScoresGoToTheLowerExpert) {
  ExpertRouting routing(5, 2, 1);
  std::vector<float> scores(5, 1.f);
  routing.choose(0, scores, std::vector<float>(5, 1.f));
  routing.group(1);
  EXPECT_EQ(routing.groups()[0].expert, 0);
  EXPECT_EQ(routing.groups()[1].expert, 1);
}

TEST(ExpertRouting, GroupsTokensByExpert) {
  ExpertRouting routing(3, 2, 4);
  const std::vector<float> ones(3, 1.f);
  for (int row = 0; row < 4; ++row) {
    std::vector<float> scores(3, 1.f);
    scores[static_cast<std::size_t>(row % 3)] = -5.f;  // the expert that is left out
    routing.choose(row, scores, ones);
  }
  routing.group(4);
  std::vector<std::vector<int>> rows_of;
  for (const auto& group : routing.groups()) {
    rows_of.emplace_back();
    for (int i = 0; i < group.visits; ++i) {
      rows_of.back().push_back(routing.visits()[static_cast<std::size_t>(group.first_visit + i)].row);
    }
  }
  EXPECT_THAT(rows_of, ElementsAre(ElementsAre(1, 2), ElementsAre(0, 2, 3), ElementsAre(0, 1, 3)));
  for (int row = 0; row < 4; ++row) {
    for (const int32_t visit : routing.visits_of(row)) {
      EXPECT_EQ(routing.visits()[static_cast<std::size_t>(visit)].row, row);
    }
    EXPECT_LT(routing.visits_of(row)[0], routing.visits_of(row)[1]);
  }
}

TEST(ExpertRouting, ForgetsRowsOfEarlierSteps) {
  ExpertRouting routing(2, 1, 3);
  const std::vector<float> ones(2, 1.f);
  for (int row = 0; row < 3; ++row) {
    std::vector<float> scores{0.f, 1.f};
    routing.choose(row, scores, ones);
  }
  routing.group(3);
  std::vector<float> scores{1.f, 0.f};
  routing.choose(0, scores, ones);
  routing.group(1);
  ASSERT_EQ(routing.groups().size(), 1u);
  EXPECT_EQ(routing.groups()[0].expert, 0);
  EXPECT_EQ(routing.groups()[0].visits, 1);
}

}  // namespace
}  // namespace carat
