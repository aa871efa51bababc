#include "server/completions_request.h"

#include <gtest/gtest.h>

#include "server/demo_api.h"

namespace carat {
namespace {

using nlohmann::json;

class CompletionsRequests : public testing::Test {
 protected:
  CompletionsRequest parse(json body) const {
    if (!body.contains("prompt")) body["prompt"] = "Once upon a time";
    return parse_completions_request({parse_body(body.dump(), model_->origin()), ""}, *model_);
  }
  void expect_refused(const json& body, const std::string& field) const {
    try {
      parse(body);
      ADD_FAILURE() << "not refused: " << body;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.param, field) << error.what();
    }
  }

  const std::shared_ptr<ServedModel> model_ = load_demo_model();
};

TEST_F(CompletionsRequests, WhatCannotBeDoneIsRefused) {
  expect_refused({{"suffix", "the end"}}, "suffix");
  expect_refused({{"best_of", 2}}, "best_of");
  expect_refused({{"echo", true}, {"logprobs", 1}}, "logprobs");
  expect_refused({{"prompt", json::array()}}, "prompt");
  expect_refused({{"prompt", json::array({1, "x"})}}, "prompt[1]");
  expect_refused({{"prompt", json::array({-1})}}, "prompt[0]");
  EXPECT_NO_THROW(parse({{"best_of", 1}, {"prompt", ""}, {"suffix", ""}}));
}

TEST_F(CompletionsRequests, BosMayBeLeftOut) {
  const auto ids = [this](const json& body) { return parse(body).prompts.at(0).ids; };
  const std::vector<int32_t> with_bos = ids(json::object());
  const std::vector<int32_t> without(with_bos.begin() + 1, with_bos.end());
  EXPECT_EQ(with_bos.front(), model_->bos);
  EXPECT_EQ(ids({{"add_special_tokens", true}}), with_bos);
  EXPECT_EQ(ids({{"add_special_tokens", false}}), without);
  EXPECT_EQ(ids({{"add_special_tokens", false}, {"prompt", "<bos>Once upon a time"}}), with_bos);
  EXPECT_EQ(ids({{"add_special_tokens", false}, {"prompt", with_bos}}), with_bos);
  expect_refused({{"add_special_tokens", false}, {"prompt", ""}}, "prompt");
}

TEST_F(CompletionsRequests, AStrictServerTakesKnownFieldsThatAskForNothing) {
  model_->refuses_unknown_fields = true;
  const json neutral = {{"functions", nullptr},
                        {"some_new_field", nullptr},
                        {"tool_choice", "none"},
                        {"parallel_tool_calls", true}};
  EXPECT_NO_THROW(parse(neutral));
  expect_refused({{"tool_choice", "required"}}, "tool_choice");
  expect_refused({{"some_new_field", 1}}, "some_new_field");
}

}  // namespace
}  // namespace carat
