// The engine on the real reference backend: many requests in ragged steps give what transformers gives each
// alone.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "ref/ref_runner.h"
#include "support/golden.h"

namespace carat {
namespace {

class EngineOnRef : public testing::TestWithParam<const char*> {
 protected:
  Engine make_engine(int sequences, int step_tokens) const {
    auto runner = make_ref_runner(plan_, size_kv(plan_.kv_groups, 1024, sequences, step_tokens));
    return Engine(std::move(runner), nullptr, {});
  }

  const ModelPlan plan_ = load_test_plan(GetParam());
};

TEST_P(EngineOnRef, RequestsTogetherEqualTransformersAlone) {
  std::vector<Request> requests;
  std::vector<std::vector<int32_t>> expected;
  for (const GoldenPrompt& prompt : load_golden(GetParam())) {
    if (prompt.ids.size() > 900) continue;
    requests.push_back({.prompt = prompt.ids, .max_tokens = static_cast<int>(prompt.greedy.size())});
    expected.push_back(prompt.greedy);
  }
  ASSERT_GE(requests.size(), 4u);
  for (const int step_tokens : {5, 17, 64}) {
    SCOPED_TRACE(step_tokens);
    Engine engine = make_engine(4, step_tokens);
    const std::vector<Reply> replies = engine.generate(requests, {});
    for (std::size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(replies[i].tokens, expected[i]) << "request " << i;
  }
}

TEST_P(EngineOnRef, SeededSamplingDoesNotDependOnTheBatch) {
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) {
    Request request;
    for (int t = 0; t < 3 + 9 * i; ++t) request.prompt.push_back(2 + (t * 31 + i) % 500);
    request.max_tokens = 20;
    request.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = static_cast<uint64_t>(i)};
    requests.push_back(request);
  }
  Engine engine = make_engine(6, 24), alone = make_engine(1, 64);
  const std::vector<Reply> together = engine.generate(requests, {});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].tokens, alone.generate(requests[i], {}).tokens) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, EngineOnRef, testing::Values("tiny", "tiny-dense", "tiny-moe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace carat
