#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace carat {
namespace {

using nlohmann::json;

TEST(Bench, JsonHasEveryFigureAndTheSettings) {
  const Finished finished = run_program({"bench", kTestData + "tiny", "--json", "--device", "ref", "--prompt",
                                         "20", "--context", "40", "-n", "5", "--batch", "2"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  const json report = json::parse(finished.out);
  for (const char* key : {"load_s", "first_token_s", "prefill_tok_s", "decode_tok_s", "ms_per_token",
                          "mean_step_ms", "bytes_per_token", "prompt_operations", "peak_rss_bytes"}) {
    ASSERT_TRUE(report.contains(key)) << key;
    EXPECT_GT(report[key].get<double>(), 0) << key;
  }
  ASSERT_TRUE(report.contains("read_bandwidth_bytes_s"));
  ASSERT_TRUE(report.contains("bandwidth_fraction"));
  if (!report["read_bandwidth_bytes_s"].is_null()) {
    EXPECT_GT(report["read_bandwidth_bytes_s"], 0);
  }
  EXPECT_TRUE(report["matrix_fraction"].is_null());  // of GPUs
  EXPECT_EQ(report["format"], "bf16");
  EXPECT_EQ(report["device"], "ref");
  EXPECT_EQ(report["prompt"], 20);
  EXPECT_EQ(report["context"], 40);
  EXPECT_EQ(report["tokens"], 5);
  EXPECT_EQ(report["batch"], 2);
}

TEST(Bench, DecodingFromACacheIsNoFractionOfTheMemorysBandwidth) {
  const Finished finished = run_program({"bench", kTestData + "tiny", "--prompt", "4", "-n", "4"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out.find("% of the read bandwidth"), std::string::npos) << finished.out;
}

TEST(Bench, PhasesAreThoseOfEachStep) {
  const Finished finished =
      run_program({"bench", kTestData + "tiny", "--json", "--phases", "--prompt", "20", "-n", "5"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const json phases = json::parse(finished.out).at("phases");
  EXPECT_EQ(phases["decoding"]["steps"], 4);
  EXPECT_EQ(phases["prompts"]["steps"], 1);
  for (const char* kind : {"decoding", "prompts"}) {
    const json& attention = phases[kind]["phases"]["attention"];
    EXPECT_EQ(attention["times"], phases[kind]["phases"]["q k v"]["times"]) << kind;
    EXPECT_GT(attention["ms"], 0) << kind;
    EXPECT_EQ(phases[kind]["phases"]["head"]["times"], 1) << kind;
  }
  const Finished refused = run_program({"bench", kTestData + "tiny", "--phases", "--device", "ref"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("doesn't tell the phases"), std::string::npos) << refused.err;
}

TEST(Bench, TextReportNeedsNoSecondToken) {
  const Finished finished = run_program({"bench", kTestData + "tiny-moe", "--prompt", "1", "-n", "1"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("prefill"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace carat
