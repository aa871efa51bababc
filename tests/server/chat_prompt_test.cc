#include "server/chat_prompt.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/demo_api.h"

namespace carat {
namespace {

using nlohmann::json;

TEST(ChatPrompt, ToolsOfAModelThatKnowsNoneAreRefusedByEveryApi) {
  const DemoApi api;
  const json schema = {{"type", "object"}}, function = {{"name", "f"}, {"parameters", schema}};
  const json messages = {{{"role", "user"}, {"content", "Once"}}};
  const json chat = {
      {"messages", messages}, {"max_tokens", 2}, {"tools", {{{"type", "function"}, {"function", function}}}}};
  const json response = {{"input", "x"},
                         {"tools", {{{"type", "function"}, {"name", "f"}, {"parameters", schema}}}}};
  const json message = {
      {"messages", messages}, {"max_tokens", 2}, {"tools", {{{"name", "f"}, {"input_schema", schema}}}}};
  const auto with_choice = [](json body, const json& choice) {
    body["tool_choice"] = choice;
    return body;
  };
  const std::vector<std::pair<std::string, json>> bodies = {{"/v1/chat/completions", chat},
                                                            {"/v1/responses", response}};
  for (const auto& [path, body] : bodies) {
    for (const char* const choice : {"auto", "required"}) {
      const auto refused = api.post(path, with_choice(body, choice));
      EXPECT_EQ(refused->reply().status, 400) << refused->reply().body;
      EXPECT_EQ(refused->json().at("error").at("param"), "tools");
      EXPECT_EQ(refused->json()["error"].at("message"), "tools: this model only continues text");
    }
    EXPECT_EQ(api.post(path, with_choice(body, "none"))->reply().status, 200);
  }
  EXPECT_EQ(api.post("/v1/messages", message)->reply().status, 400);
  EXPECT_EQ(api.post("/v1/messages", with_choice(message, json::object({{"type", "none"}})))->reply().status,
            200);
}

}  // namespace
}  // namespace carat
