#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace carat {
namespace {

using nlohmann::json;

json inspect(const std::string& model) {
  const Finished finished = run_program({"inspect", model, "--json"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  return json::parse(finished.out);
}

TEST(Inspect, DescribesEveryVariant) {
  for (const auto& [name, feature] : std::vector<std::pair<std::string, std::string>>{
           {"tiny", "per-layer embeddings"}, {"tiny-dense", "K = V"}, {"tiny-moe", "mixture of experts"}}) {
    SCOPED_TRACE(name);
    const json config = json::parse(read_text(kTestData + name + "/config.json"))["text_config"];
    const json report = inspect(kTestData + name);
    EXPECT_EQ(report["layers"].size(), config["num_hidden_layers"]);
    EXPECT_EQ(report["hidden_size"], config["hidden_size"]);
    EXPECT_EQ(report["vocab_size"], config["vocab_size"]);
    EXPECT_EQ(report["layers"][0]["attention"], "sliding");
    EXPECT_EQ(report["layers"][0]["window"], config["sliding_window"]);
    EXPECT_EQ(report["layers"].back()["attention"], "full");
    EXPECT_NE(report["features"].dump().find('"' + feature + '"'), std::string::npos) << report["features"];
    EXPECT_GT(report["bytes_per_token"], 0);
    EXPECT_LE(report["active_parameters"], report["parameters"]);
    EXPECT_EQ(report["tensors"]["bytes_by_dtype"]["BF16"], report["tensors"]["bytes"]);
    EXPECT_LE(report["weight_bytes"], report["tensors"]["bytes"]);
  }
}

TEST(Inspect, SharedLayersPointAtTheirDonorAndCostNoKv) {
  const json report = inspect(kTestData + "tiny");
  int owners = 0;
  for (const json& layer : report["layers"]) owners += layer["kv_from_layer"] == layer["index"];
  EXPECT_LT(owners, static_cast<int>(report["layers"].size()));
  const json& groups = report["kv_groups"];
  EXPECT_EQ(groups["full"]["layers"].get<int>() + groups["sliding"]["layers"].get<int>(), owners);
  const json& full = groups["full"];
  EXPECT_EQ(full["kv_bytes_per_token"].get<int>(),
            2 * 4 * full["layers"].get<int>() * full["kv_heads"].get<int>() * full["head_dim"].get<int>());
}

TEST(Inspect, SlidingLayersStopGrowingAtTheirWindow) {
  const json report = inspect(kTestData + "tiny"), &groups = report["kv_groups"];
  for (const json& memory : report["memory"]) {
    const int64_t context = memory["context"], window = groups["sliding"]["window"];
    EXPECT_EQ(memory["kv_bytes"],
              groups["full"]["kv_bytes_per_token"].get<int64_t>() * context +
                  groups["sliding"]["kv_bytes_per_token"].get<int64_t>() * std::min(context, window));
  }
}

TEST(Inspect, QuantisedCopyHasItsFormatAndSmallerKv) {
  const TempDirectory directory;
  const std::string copy = directory.path() / "int4";
  ASSERT_EQ(run_program({"quantize", kTestData + "tiny", copy, "--format", "int4"}).code, 0);
  const json report = inspect(copy);
  EXPECT_EQ(report["format"], "int4 (head int8)");
  EXPECT_EQ(report["kv_value_bytes"], 2);
  EXPECT_EQ(report["kv_groups"]["full"]["window"], nullptr);
}

TEST(Inspect, TextReportNamesTheEssentials) {
  const Finished finished = run_program({"inspect", kDemoModel});
  EXPECT_EQ(finished.code, 0);
  for (const char* part : {"weights: bf16", "float32 values", "Gemma 4", "parameters", "layers", "BF16",
                           "read per token", "KV per token", "context"})
    EXPECT_NE(finished.out.find(part), std::string::npos) << part << " is missing in\n" << finished.out;
}

}  // namespace
}  // namespace carat
