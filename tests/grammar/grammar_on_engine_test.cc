// Constrained requests on the engine with the demo model, which knows no JSON.
#include "engine/engine.h"
#include "grammar/masked_reply.h"
#include "grammar/random_schema.h"
#include "ref/ref_runner.h"
#include "support/golden.h"

namespace carat {
namespace {

const char* const kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},
        "mood":{"enum":["happy","sad"]},"age":{"type":"integer","minimum":1,"maximum":99},
        "tags":{"type":"array","items":{"type":"string","maxLength":8},"maxItems":2}},
        "required":["name","mood","age"],"additionalProperties":false})";

std::vector<Reply> replies_with(DraftMethod draft) {
  const ModelPlan plan = load_test_plan("demo");
  auto runner = make_ref_runner(plan, size_kv(plan.kv_groups, 512, 4, 64));
  EngineOptions options;
  options.eos_tokens = {kEos};
  options.draft = draft;
  Engine engine(std::move(runner), demo_tokenizer(), options);
  std::vector<Request> requests;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Request request;
    request.prompt = demo_tokenizer()->encode("Once upon a time", SpecialTokens::as_text);
    request.prompt.insert(request.prompt.begin(), 2);
    request.max_tokens = 120;
    request.sampling.temperature = seed == 0 ? 0.f : 1.f;
    request.sampling.seed = seed;
    request.samples = seed == 2 ? 2 : 1;
    request.mask = make_mask(demo_compiler().json_schema(kSchema, Thinking::off));
    requests.push_back(request);
  }
  return engine.generate(requests, {});
}

TEST(GrammarOnEngine, RepliesValidateWithAndWithoutDrafts) {
  const Json schema = Json::parse(kSchema);
  const std::vector<Reply> plain = replies_with(DraftMethod::none),
                           drafted = replies_with(DraftMethod::ngram);
  ASSERT_EQ(plain.size(), 4u);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].finish, FinishReason::stop) << plain[i].error << plain[i].text;
    const Json value = Json::parse(plain[i].text, nullptr, false);
    EXPECT_TRUE(!value.is_discarded() && validates(value, schema)) << plain[i].text;
    EXPECT_EQ(drafted[i].tokens, plain[i].tokens);
  }
}

}  // namespace
}  // namespace carat
