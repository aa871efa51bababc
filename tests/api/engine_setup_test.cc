#include "api/engine_setup.h"

#include <gtest/gtest.h>

#include "api/demo_model.h"
#include "engine/engine.h"
#include "engine/kv_budget.h"
#include "support/expect_error.h"

namespace carat {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

std::size_t kv_bytes_of(Runner& runner) { return kv_bytes(runner.info().kv_groups, runner.info().limits, 4); }

std::unique_ptr<Engine> demo_engine(EngineSetup setup) {
  setup.device.device = "ref";
  LoadedModel model = load_model(kDemoModel, {});
  return make_engine(std::move(model), nullptr, setup);
}

TEST(KvMemory, IsAShareOrAnAmount) {
  EXPECT_EQ(parse_kv_memory("0.9")->share, 0.9);
  EXPECT_EQ(parse_kv_memory("1")->share, 1.0);
  EXPECT_EQ(parse_kv_memory("50%")->share, 0.5);
  EXPECT_EQ(parse_kv_memory("8GiB")->bytes, std::size_t{8} << 30);
  EXPECT_EQ(parse_kv_memory("8g")->bytes, std::size_t{8} << 30);
  EXPECT_EQ(parse_kv_memory("1.5MB")->bytes, 1'500'000u);
  EXPECT_EQ(parse_kv_memory("4096B")->bytes, 4096u);
  EXPECT_EQ(parse_kv_memory("2KiB")->bytes, 2048u);
  for (const char* wrong :
       {"", "0", "-1", "1.5", "101%", "GiB", "8 GiB", "8Gib", "8QB", "nan", "inf", "9999999TiB"})
    EXPECT_FALSE(parse_kv_memory(wrong)) << wrong;
}

TEST(EngineSetup, PagesTakeTheMemoryThatWasGiven) {
  EngineSetup setup;
  setup.device.kv_memory = "64MiB";
  const auto engine = demo_engine(setup);
  const std::size_t bytes = kv_bytes_of(engine->runner());
  EXPECT_LE(bytes, 64 * kMebibyte);
  EXPECT_GT(bytes, 48 * kMebibyte);
  EXPECT_EQ(engine->max_context(), 8192);
}

TEST(EngineSetup, ContextIsAsLongAsTheMemoryAllowsUnlessAskedFor) {
  EngineSetup setup;
  setup.device.kv_memory = "6MiB";
  const int longest = demo_engine(setup)->max_context();
  EXPECT_LT(longest, 8192);
  EXPECT_GT(longest, 256);
  setup.context = 8192;
  expect_error(ErrorKind::invalid_argument, {"6 MiB can't hold a context of 8192 tokens"},
               [&] { demo_engine(setup); });
  setup.context = 9000;
  expect_error(ErrorKind::invalid_argument, {"9000", "only 8192 positions"}, [&] { demo_engine(setup); });
}

TEST(EngineSetup, WithoutAnAmountSequencesGetWhatTheyCanUse) {
  EngineSetup setup;
  setup.context = 512;
  setup.max_sequences = 2;
  const auto engine = demo_engine(setup);
  EXPECT_EQ(engine->max_context(), 512);
  EXPECT_EQ(engine->runner().info().limits.pages[kFullGroup], 2 * 2 * 512 / 32);
}

TEST(EngineSetup, StepsAreAsLargeAsSuitsTheDeviceUnlessAskedFor) {
  EngineSetup setup;
  EXPECT_EQ(demo_engine(setup)->runner().info().limits.max_step_tokens, 512);
  setup.device.device = "cuda:1";
  EXPECT_EQ(step_tokens(setup), 2048);
  setup.max_step_tokens = 6;
  EXPECT_EQ(step_tokens(setup), 6);
  setup.draft = "ngram";
  EXPECT_EQ(step_tokens(setup), 1 + setup.draft_tokens);
}

TEST(EngineSetup, ImpossibleNumbersAreRefusedAndNamed) {
  const auto rejects = [](const char* what, const EngineSetup& wrong) {
    for (const char* const draft : {"", "ngram"}) {
      EngineSetup setup = wrong;
      setup.draft = draft;
      setup.device.device = "ref";
      expect_error(ErrorKind::invalid_argument, {what, "must be at least"},
                   [&] { make_engine(load_model(kDemoModel, {}), nullptr, setup); });
      if (setup.context == 0) setup.context = 64;
      expect_error(ErrorKind::invalid_argument, {what, "must be at least"},
                   [&] { make_single_engine(load_model(kDemoModel, {}), nullptr, setup); });
    }
  };
  rejects("context is -1", {.device = {}, .context = -1, .draft = {}});
  rejects("number of sequences is 0", {.device = {}, .max_sequences = 0, .draft = {}});
  rejects("number of sequences is -3", {.device = {}, .max_sequences = -3, .draft = {}});
  rejects("tokens per step is -5", {.device = {}, .max_step_tokens = -5, .draft = {}});
  rejects("number of waiting replies is -1", {.device = {}, .max_waiting = -1, .draft = {}});
}

TEST(EngineSetup, ExactPagesMustFit) {
  const LoadedModel model = load_model(kDemoModel, {});
  DeviceOptions device{.device = "ref", .isa = {}, .format = {}, .kv_memory = "1MiB"};
  expect_error(ErrorKind::out_of_memory, {"K and V of 4 sequences of 8000 tokens need", "1 MiB are allowed"},
               [&] { exact_kv(model.plan, device, 8000, 4, 512); });
  device.kv_memory = "1GiB";
  EXPECT_EQ(exact_kv(model.plan, device, 8000, 4, 512).max_sequences, 4);
}

}  // namespace
}  // namespace carat
