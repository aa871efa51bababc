#include "server/api_known_fields.h"

#include <gtest/gtest.h>

#include "server/api_fields.h"

namespace carat {
namespace {

/// asks_for_something() of {NAME: VALUE}, at an endpoint with the fields `known`.
bool asks(const std::string& object, const FieldNames& known = {}) {
  const jinja::Value body = parse_body(object, Origin::user);
  const jinja::Map::Entry& entry = body.as_map()->entries().front();
  return asks_for_something(entry.key.as_text()->bytes(), entry.value, known);
}

TEST(ApiKnownFields, WhatHoldsAnywayAsksForNothing) {
  for (const char* const neutral : {R"({"n": 1})",
                                    R"({"best_of": 1.0})",
                                    R"({"stream": false})",
                                    R"({"echo": null})",
                                    R"({"stop": []})",
                                    R"({"suffix": ""})",
                                    R"({"parallel_tool_calls": true})",
                                    R"({"typical_p": 1})",
                                    R"({"mirostat": 0})",
                                    R"({"parse_special": true})",
                                    R"({"add_special_tokens": false})",
                                    R"({"web_search_options": {}})",
                                    R"({"tool_choice": "auto"})",
                                    R"({"function_call": "auto"})",
                                    R"({"modalities": ["text"]})",
                                    R"({"truncation": "disabled"})",
                                    R"({"response_format": {"type": "text"}})",
                                    R"({"text": {"format": {"type": "text"}}})",
                                    R"({"reasoning": {"effort": null, "summary": null}})",
                                    R"({"nobody_knows": 7})"})
    EXPECT_FALSE(asks(neutral)) << neutral;
}

TEST(ApiKnownFields, OtherValuesAskForSomething) {
  for (const char* const asking : {R"({"n": 2})",
                                   R"({"stream": true})",
                                   R"({"temperature": 0})",
                                   R"({"temperature": 1})",
                                   R"({"suffix": "none"})",
                                   R"({"prompt": "auto"})",
                                   R"({"grammar": "text"})",
                                   R"({"tool_choice": "required"})",
                                   R"({"tool_choice": {"type": "any"}})",
                                   R"({"functions": [{}]})",
                                   R"({"reasoning_effort": "low"})",
                                   R"({"thinking": {"type": "enabled"}})",
                                   R"({"response_format": {"type": "json_object"}})",
                                   R"({"modalities": ["text", "audio"]})",
                                   R"({"truncation": "auto"})",
                                   R"({"n_predict": 5})",
                                   R"({"xtc_probability": 0.1})",
                                   R"({"guided_json": {"additionalProperties": false}})",
                                   R"({"parse_special": false})",
                                   R"({"add_special_tokens": true})",
                                   R"({"documents": [{"text": "x"}]})"})
    EXPECT_TRUE(asks(asking)) << asking;
}

TEST(ApiKnownFields, TurningOffAsksForSomethingOnlyWhereItIs) {
  for (const char* const off : {R"({"reasoning_effort": "none"})", R"({"thinking": {"type": "disabled"}})",
                                R"({"reasoning": {"effort": "none"}})"}) {
    EXPECT_FALSE(asks(off, {"prompt"})) << off;
    EXPECT_TRUE(asks(off, {"chat_template_kwargs"})) << off;
  }
  EXPECT_FALSE(asks(R"({"function_call": "none"})", {"prompt"}));
  EXPECT_TRUE(asks(R"({"function_call": "none"})", {"tool_choice"}));
}

TEST(ApiKnownFields, TheNameThatTheEndpointHasIsFound) {
  EXPECT_EQ(same_meaning("max_tokens", {"input", "max_output_tokens"}), "max_output_tokens");
  EXPECT_EQ(same_meaning("add_special", {"add_special_tokens", "prompt"}), "add_special_tokens");
  EXPECT_EQ(same_meaning("max_tokens", {"input"}), "");
  EXPECT_EQ(same_meaning("suffix", {"prompt"}), "");
  EXPECT_EQ(same_meaning("nobody_knows", {"prompt"}), "");
}

TEST(ApiKnownFields, OnlyFieldsOfRepliesCanBeIgnoredWithoutOne) {
  EXPECT_TRUE(shapes_only_the_reply("temperature"));
  EXPECT_FALSE(shapes_only_the_reply("tools"));
  EXPECT_FALSE(shapes_only_the_reply("nobody_knows"));
  EXPECT_TRUE(is_known_field("temperature") && is_known_field("tools"));
  EXPECT_FALSE(is_known_field("nobody_knows"));
}

}  // namespace
}  // namespace carat
