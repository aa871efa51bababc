#include <functional>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace carat {
namespace {

using nlohmann::json;

const std::string kTiny = kTestData + "tiny", kTinyReference = kTestData + "ref_tiny_f32.json";

json check_json(std::vector<std::string> args, int code) {
  args.insert(args.begin(), "check");
  args.insert(args.end(), {"--json", "--prompts", "ids5,ids17", "--greedy", "8"});
  const Finished finished = run_program(args);
  EXPECT_EQ(finished.code, code) << finished.err;
  EXPECT_EQ(finished.err, "");
  return json::parse(finished.out);
}

/// Checks tiny against its reference after `change` to the reference's prompt ids17.
json check_changed(int code, const std::function<void(json&)>& change) {
  json reference = json::parse(read_text(kTinyReference));
  change(reference["prompts"]["ids17"]);
  const TempDirectory files;
  return check_json({kTiny, files.write("reference.json", reference.dump())}, code)["prompts"]["ids17"];
}

TEST(Check, EveryVariantAgreesWithTransformers) {
  for (const std::string name : {"tiny", "tiny-dense", "tiny-moe"}) {
    SCOPED_TRACE(name);
    const json report = check_json({kTestData + name, kTestData + "ref_" + name + "_f32.json"}, 0);
    EXPECT_EQ(report["ok"], true);
    ASSERT_EQ(report["prompts"].size(), 2u);
    for (const auto& [prompt, result] : report["prompts"].items()) {
      EXPECT_EQ(result.size(), 5u) << result;
      EXPECT_LE(result["max_diff"], 5e-4) << prompt;
      EXPECT_EQ(result["argmax_mismatches"], 0) << prompt;
      EXPECT_GE(result["near_ties"], 0) << prompt;
      EXPECT_EQ(result["greedy_agree"], 8) << prompt;
      EXPECT_EQ(result["greedy_total"], 8) << prompt;
    }
  }
}

TEST(Check, TextReportHasALinePerPrompt) {
  const Finished finished = run_program({"check", kTiny, kTinyReference, "--prompts", "one,ids5"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(std::count(finished.out.begin(), finished.out.end(), '\n'), 2) << finished.out;
  EXPECT_NE(finished.out.find("ids5"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("greedy 48/48"), std::string::npos) << finished.out;
}

TEST(Check, LogitOutsideTheToleranceFails) {
  const json result =
      check_changed(1, [](json& p) { p["top_logits"][3] = p["top_logits"][3].get<double>() + 0.01; });
  EXPECT_NEAR(result["max_diff"], 0.01, 1e-3);
}

TEST(Check, OtherArgmaxFails) {
  const json result = check_changed(1, [](json& p) { p["argmax"][4] = p["argmax"][4].get<int>() ^ 1; });
  EXPECT_EQ(result["argmax_mismatches"], 1);
}

TEST(Check, OtherGreedyTokenFailsAndEndsTheComparison) {
  const json result = check_changed(1, [](json& p) { p["greedy"][3] = p["greedy"][3].get<int>() ^ 1; });
  EXPECT_EQ(result["greedy_agree"], 3);
  EXPECT_EQ(result["greedy_total"], 8);
}

TEST(Check, NearTiesAreCountedApartAndExplainADifference) {
  json reference = json::parse(read_text(kTinyReference));
  json& prompt = reference["prompts"]["ids17"];
  prompt["argmax"][4] = prompt["argmax"][4].get<int>() ^ 1;
  prompt["greedy"][3] = prompt["greedy"][3].get<int>() ^ 1;
  const TempDirectory files;
  const std::string file = files.write("reference.json", reference.dump());
  // With a tolerance this wide every position is a near-tie.
  const json result = check_json({kTiny, file, "--tolerance", "1000"}, 0)["prompts"]["ids17"];
  EXPECT_EQ(result["near_ties"], 17);
  EXPECT_EQ(result["argmax_mismatches"], 0);
  EXPECT_EQ(result["greedy_agree"], 3);
  const Finished text = run_program({"check", kTiny, file, "--tolerance", "1000", "--prompts", "ids17"});
  EXPECT_NE(text.out.find("first difference is a near-tie"), std::string::npos) << text.out;
}

TEST(Check, LongPromptIsScoredInPieces) {
  const Finished finished =
      run_program({"check", kTiny, kTinyReference, "--prompts", "ids700", "--greedy", "0"});
  EXPECT_EQ(finished.code, 0) << finished.out;
  EXPECT_NE(finished.out.find("greedy 0/0"), std::string::npos) << finished.out;
}

TEST(Check, UnusableReferenceIsOneLineThatSaysWhere) {
  const TempDirectory files;
  const auto expect_refused = [&](const std::string& bytes, std::string_view part) {
    const std::string file = files.write("reference.json", bytes);
    expect_one_line_error(run_program({"check", kTiny, file, "--json"}), 1, part);
  };
  const auto changed = [](const std::function<void(json&)>& change) {
    json reference = json::parse(read_text(kTinyReference));
    change(reference["prompts"]["ids5"]);
    return reference.dump();
  };
  expect_refused("", "not valid JSON: the file is empty");
  expect_refused("{\"prompts\": {\"a", "the file ends too early, after 15 bytes");
  expect_refused(read_text(kTinyReference) + "x", "not valid JSON near byte");
  expect_refused(read_text(kTinyReference) + '\0', "not valid JSON: byte");
  expect_refused(R"({"prompts": {"a": 1, "a": 2}})", "\"a\" is there twice");
  expect_refused("[]", "prompts");
  expect_refused("{\"prompts\": {}}", "prompts");
  expect_refused(changed([](json& p) { p.erase("argmax"); }), "argmax");
  expect_refused(changed([](json& p) { p["ids"][1] = 1 << 20; }), "\"ids5\".ids[1]");
  expect_refused(changed([](json& p) { p["ids"][1] = -1; }), "\"ids5\".ids[1]");
  expect_refused(changed([](json& p) { p["ids"].push_back(3); }), "argmax");
  expect_refused(changed([](json& p) { p["top_logits"].push_back(3); }), "top_logits");
  expect_refused(changed([](json& p) { p["top_logits"][0] = "high"; }), "top_logits");
  expect_refused(changed([](json& p) { p["top_logits"][0] = 1e300; }), "1e+300 is no float32");
  expect_refused(changed([](json& p) { std::swap(p["top_logits"][2], p["top_logits"][3]); }),
                 "\"ids5\".top_logits[3]: larger than the one before");
  expect_refused(changed([](json& p) { p["top_ids"][2] = p["top_ids"][3]; }), "is there twice");
  expect_refused(changed([](json& p) { p["argmax"][4] = p["top_ids"][1]; }), "the last argmax is");
  expect_refused(changed([](json& p) { p = 3; }), "ids5");
  expect_one_line_error(run_program({"check", kTiny, "no-such-file"}), 1, "no-such-file");
  expect_one_line_error(run_program({"check", kTiny, "/dev/zero"}), 1, "/dev/zero: not a regular file");
  expect_one_line_error(run_program({"check", kTiny, kTinyReference, "--prompts", "one,two"}), 1, "two");
}

TEST(Check, ReferenceOfAnotherModelOrDtypeIsRefusedAtOnce) {
  const TempDirectory files;
  json reference = json::parse(read_text(kTinyReference));
  reference["vocab_size"] = 513;
  expect_one_line_error(run_program({"check", kTiny, files.write("r.json", reference.dump())}), 1,
                        "made for another model: its vocabulary has 513 tokens, this model's 512");
  reference["vocab_size"] = 512;
  reference["dtype"] = "bfloat16";
  expect_one_line_error(run_program({"check", kTiny, files.write("r.json", reference.dump())}), 1,
                        "dtype is \"bfloat16\"");
}

/// A copy of tiny with fewer positions.
void shorten(const TempDirectory& copy, int positions) {
  copy_checkpoint(kTiny, copy);
  json config = json::parse(read_text(kTiny + "/config.json"));
  config["text_config"]["max_position_embeddings"] = positions;
  copy.write("config.json", config.dump());
}

TEST(Check, PromptBeyondTheModelsPositionsIsRefusedWithTheNumbers) {
  const TempDirectory copy;
  shorten(copy, 24);
  const std::vector<std::string> args{"check", copy.path(), kTinyReference, "--prompts", "ids17", "--greedy"};
  const auto with_greedy = [&](const char* count) {
    std::vector<std::string> all = args;
    all.emplace_back(count);
    return run_program(all);
  };
  expect_one_line_error(with_greedy("8"), 1,
                        "\"ids17\" has 17 tokens and 8 greedy ones; the model has only 24");
  EXPECT_EQ(with_greedy("7").code, 0);
}

TEST(Check, TokenThatTheModelMayNotDrawIsARealDifference) {
  const TempDirectory copy;
  copy_checkpoint(kTiny, copy);
  // All but one token suppressed, and the token is not the reference's: nothing near about it.
  const int expected = json::parse(read_text(kTinyReference))["prompts"]["ids17"]["greedy"][0];
  json suppressed = json::array();
  for (int id = 0; id < 512; ++id)
    if (id != (expected ^ 1)) suppressed.push_back(id);
  copy.write("generation_config.json", json{{"suppress_tokens", suppressed}}.dump());
  const Finished finished =
      run_program({"check", copy.path(), kTinyReference, "--prompts", "ids17", "--greedy", "8"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find("greedy 0/8, first difference is real"), std::string::npos) << finished.out;
}

TEST(Check, FailureOfQuantisedWeightsNamesEval) {
  const std::vector<std::string> args{"check", kTiny, kTinyReference, "--prompts", "ids17", "--greedy", "0"};
  std::vector<std::string> int4 = args;
  int4.insert(int4.end(), {"--format", "int4"});
  const Finished finished = run_program(int4);
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find("carat eval"), std::string::npos) << finished.out;
  EXPECT_EQ(run_program(args).out.find("carat eval"), std::string::npos);
}

}  // namespace
}  // namespace carat
