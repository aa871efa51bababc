#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace carat {
namespace {

const std::string kText = "Once upon a time there was a little girl who lived in a wood with her mother.\n";

nlohmann::json evaluate(std::vector<std::string> more) {
  std::vector<std::string> args{"eval", kDemoModel, "-", "--json"};
  args.insert(args.end(), more.begin(), more.end());
  const Finished finished = run_program(args, kText + kText + kText);
  EXPECT_EQ(finished.code, 0) << finished.err;
  return nlohmann::json::parse(finished.out);
}

TEST(Eval, GivesThePerplexityOfAText) {
  const auto report = evaluate({});
  EXPECT_GT(report.at("perplexity"), 1.0);
  EXPECT_LT(report.at("perplexity"), 100.0);  // the demo model was trained on such text; chance would be 4096
  EXPECT_GT(report.at("tokens"), 40);
  EXPECT_FALSE(report.contains("against"));
}

TEST(Eval, IsTheSameOnEveryBackendAndForEveryStepSize) {
  const double cpu = evaluate({"--device", "cpu", "-t", "2"}).at("perplexity");
  const double ref = evaluate({"--device", "ref"}).at("perplexity");
  EXPECT_NEAR(cpu, ref, 1e-3 * ref);
}

TEST(Eval, ShortWindowsPredictWorse) {
  EXPECT_GT(evaluate({"-c", "4"}).at("perplexity"), evaluate({"-c", "64"}).at("perplexity"));
  EXPECT_EQ(evaluate({"-n", "10"}).at("tokens"), 10);
}

TEST(Eval, MeasuresWhatAFormatLoses) {
  const auto same = evaluate({"--format", "bf16", "--against", "bf16"}).at("against");
  EXPECT_NEAR(same.at("mean_kl"), 0.0, 1e-6);
  EXPECT_EQ(same.at("same_top_1"), 1.0);
  const auto int8 = evaluate({"--format", "int8", "--against", "bf16"}).at("against");
  const auto int4 = evaluate({"--format", "int4", "--against", "bf16"}).at("against");
  EXPECT_GT(int8.at("mean_kl"), 0.0);
  EXPECT_LT(int8.at("mean_kl"), 1e-3);
  EXPECT_GT(int4.at("mean_kl"), int8.at("mean_kl"));
  EXPECT_GE(int4.at("worst_kl"), int4.at("mean_kl"));
}

TEST(Eval, RefusesAnEmptyTextAndABackendWithoutFormats) {
  expect_one_line_error(run_program({"eval", kDemoModel, "-"}), 1, "no text");
  expect_one_line_error(run_program({"eval", kDemoModel, "-", "--device", "ref", "--against", "int8"}, kText),
                        1, "--against has no effect");
  expect_one_line_error(run_program({"eval", kDemoModel, "no-such-file"}), 1, "no-such-file");
  expect_one_line_error(run_program({"eval", kDemoModel, "/dev/zero"}), 1, "/dev/zero");
}

TEST(Eval, ReportsSayWhatWasMeasured) {
  const auto report = evaluate({"--format", "int8", "--against", "bf16", "-c", "64"});
  EXPECT_EQ(report.at("model"), kDemoModel);
  EXPECT_EQ(report.at("format"), "int8");
  EXPECT_EQ(report.at("device"), "cpu");
  EXPECT_EQ(report.at("context"), 64);
  EXPECT_LT(report.at("against").at("worst_kl_token"), report.at("tokens"));
  EXPECT_EQ(evaluate({}).at("format"), "bf16");
}

TEST(Eval, OnePredictionHasNoErrorEstimate) {
  EXPECT_EQ(evaluate({"-n", "1"}).at("perplexity_error"), nullptr);
  const Finished text = run_program({"eval", kDemoModel, "-", "-n", "1"}, kText);
  EXPECT_THAT(text.out, testing::EndsWith(" over 1 token\n"));
  EXPECT_THAT(text.out, testing::Not(testing::HasSubstr("+-")));
}

TEST(Eval, QuantisedWeightsHaveNothingToCompareWith) {
  const TempDirectory directory;
  const std::string copy = directory.path() / "int4";
  ASSERT_EQ(run_program({"quantize", kDemoModel, copy, "--format", "int4"}).code, 0);
  expect_one_line_error(run_program({"eval", copy, "-", "--against", "bf16"}, kText), 1,
                        "holds int4 weights, which can't be compared with another format; drop --against");
}

TEST(Eval, WarnsOfBytesThatAreNotUtf8) {
  const Finished finished = run_program({"eval", kDemoModel, "-"}, "Once upon\xff a time");
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.err, testing::HasSubstr("carat: warning: standard input: byte 9 is not UTF-8"));
  EXPECT_EQ(run_program({"eval", kDemoModel, "-"}, kText).err, "");
}

}  // namespace
}  // namespace carat
