#include <gtest/gtest.h>

#include "io/model_config.h"
#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

GenerationConfig parse(std::string_view json) {
  return parse_generation_config(json, "generation_config.json", 262144);
}

TEST(GenerationConfig, ReadsThePublishedFields) {
  const GenerationConfig g = parse(R"({"bos_token_id": 2, "do_sample": true, "eos_token_id": [1, 106, 50],
    "pad_token_id": 0, "suppress_tokens": [258883, 258882], "temperature": 1.0, "top_k": 64, "top_p": 0.95,
    "min_p": 0.05, "repetition_penalty": 1.1, "transformers_version": "5.0.0"})");
  EXPECT_TRUE(g.do_sample);
  EXPECT_EQ(g.eos_token_ids, (std::vector<int>{1, 106, 50}));
  EXPECT_EQ(g.suppress_tokens, (std::vector<int>{258883, 258882}));
  EXPECT_EQ(g.temperature, 1.f);
  EXPECT_EQ(g.top_k, 64);
  EXPECT_EQ(g.top_p, 0.95f);
  EXPECT_EQ(g.min_p, 0.05f);
  EXPECT_EQ(g.repetition_penalty, 1.1f);
  EXPECT_EQ(g.bos_token_id, 2);
  EXPECT_EQ(g.pad_token_id, 0);
}

TEST(GenerationConfig, AbsentAndNullFieldsStayAbsent) {
  for (const char* text :
       {"{}", R"({"temperature": null, "top_k": null, "eos_token_id": null, "do_sample": null})"}) {
    const GenerationConfig g = parse(text);
    EXPECT_FALSE(g.do_sample);
    EXPECT_FALSE(g.temperature || g.top_p || g.min_p || g.repetition_penalty || g.top_k || g.bos_token_id);
    EXPECT_TRUE(g.eos_token_ids.empty());
    EXPECT_TRUE(g.suppress_tokens.empty());
  }
  EXPECT_EQ(parse(R"({"eos_token_id": 1})").eos_token_ids, std::vector<int>{1});
}

TEST(GenerationConfig, RefusesImpossibleValues) {
  for (const char* field : {"temperature", "top_p", "min_p", "repetition_penalty", "top_k", "eos_token_id",
                            "suppress_tokens", "bos_token_id", "pad_token_id"}) {
    const std::string text = "{\"" + std::string(field) + "\": -3}";
    expect_error(ErrorKind::invalid_argument, {"generation_config.json", field, "-3"}, [&] { parse(text); });
  }
  expect_error(ErrorKind::invalid_argument, {"top_p = 1.5"}, [] { parse(R"({"top_p": 1.5})"); });
  expect_error(ErrorKind::invalid_argument, {"repetition_penalty = 0"},
               [] { parse(R"({"repetition_penalty": 0})"); });
  expect_error(ErrorKind::corrupt, {"temperature = \"hot\""}, [] { parse(R"({"temperature": "hot"})"); });
  expect_error(ErrorKind::corrupt, {"not valid JSON", "temperature"},
               [] { parse(R"({"temperature": NaN})"); });
}

TEST(GenerationConfig, RefusesIdsOutsideTheVocabularyWithItsSize) {
  expect_error(ErrorKind::invalid_argument, {"suppress_tokens[1] = 1000000000000", "vocabulary of 262144"},
               [] { parse(R"({"suppress_tokens": [7, 1000000000000]})"); });
  expect_error(ErrorKind::invalid_argument, {"suppress_tokens[0] = 1000000000000.0"},
               [] { parse(R"({"suppress_tokens": [1e12]})"); });
  expect_error(ErrorKind::invalid_argument, {"eos_token_id = 262144", "ids 0 to 262143"},
               [] { parse(R"({"eos_token_id": 262144})"); });
  EXPECT_EQ(parse(R"({"eos_token_id": 262143})").eos_token_ids, std::vector<int>{262143});
}

TEST(GenerationConfig, RefusesToSuppressTheWholeVocabulary) {
  expect_error(ErrorKind::invalid_argument, {"suppress_tokens = [3 values]", "whole vocabulary of 3"},
               [] { parse_generation_config(R"({"suppress_tokens": [0, 1, 2]})", "g.json", 3); });
  EXPECT_EQ(parse_generation_config(R"({"suppress_tokens": [0, 1, 1]})", "g.json", 3).suppress_tokens.size(),
            3u);
}

TEST(GenerationConfig, TheFileMayBeMissingButNotBroken) {
  const TempDirectory directory;
  EXPECT_FALSE(load_generation_config(directory.path(), 262144).temperature);
  directory.write("generation_config.json", R"({"temperature": 0.5})");
  EXPECT_EQ(load_generation_config(directory.path(), 262144).temperature, 0.5f);
  directory.write("generation_config.json", "{");
  expect_error(ErrorKind::corrupt, {"generation_config.json"},
               [&] { load_generation_config(directory.path(), 262144); });
  std::filesystem::remove(directory.path() / "generation_config.json");
  std::filesystem::create_symlink("gone", directory.path() / "generation_config.json");
  expect_error(ErrorKind::not_found, {"generation_config.json"},
               [&] { load_generation_config(directory.path(), 262144); });
}

}  // namespace
}  // namespace carat
