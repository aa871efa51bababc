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
                          "bytes_per_token", "peak_rss_bytes"}) {
    ASSERT_TRUE(report.contains(key)) << key;
    EXPECT_GT(report[key].get<double>(), 0) << key;
  }
  ASSERT_TRUE(report.contains("read_bandwidth_bytes_s"));
  ASSERT_TRUE(report.contains("bandwidth_fraction"));
  if (!report["read_bandwidth_bytes_s"].is_null()) {
    EXPECT_GT(report["read_bandwidth_bytes_s"], 0);
    EXPECT_GT(report["bandwidth_fraction"], 0);
  }
  EXPECT_EQ(report["device"], "ref");
  EXPECT_EQ(report["prompt"], 20);
  EXPECT_EQ(report["context"], 40);
  EXPECT_EQ(report["tokens"], 5);
  EXPECT_EQ(report["batch"], 2);
}

TEST(Bench, TextReportNeedsNoSecondToken) {
  const Finished finished = run_program({"bench", kTestData + "tiny-moe", "--prompt", "1", "-n", "1"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("prefill"), std::string::npos) << finished.out;
}

}  // namespace
}  // namespace carat
