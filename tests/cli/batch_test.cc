// `carat batch`, as a user runs it and as the machine kills it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/program.h"
#include "cli/terminal.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<json> lines_of(const std::filesystem::path& file) {
  std::vector<json> lines;
  std::istringstream text(read_text(file));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string requests(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += json{{"custom_id", "q" + std::to_string(i)},
                 {"prompt", "Once there were " + std::to_string(i)},
                 {"temperature", 0},
                 {"max_tokens", 2 + i % 13}}
                .dump() +
            "\n";
  }
  return text;
}

/// Text by index; each index once.
std::map<int, std::string> texts(const std::filesystem::path& file) {
  std::map<int, std::string> found;
  for (const json& line : lines_of(file))
    EXPECT_TRUE(found.emplace(line["index"], line["text"]).second) << "twice: " << line;
  return found;
}

TEST(Batch, RepliesAreThoseOfSingleRuns) {
  const TempDirectory directory;
  const std::string in = directory.write("in", requests(20)), out = directory.path() / "out";
  const Finished finished = run_program({"batch", kDemoModel, in, out});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("20 requests answered"));
  const auto found = texts(out);
  EXPECT_EQ(found.size(), 20u);
  for (const int i : {0, 7, 19}) {
    const Finished once = run_program({"run", "-p", "Once there were " + std::to_string(i), "--temp", "0",
                                       "-n", std::to_string(2 + i % 13), "-q"});
    EXPECT_EQ(found.at(i) + (found.at(i).ends_with('\n') ? "" : "\n"), once.out);
  }
}

TEST(Batch, WrongLinesGetErrorsAndTheRestReplies) {
  const TempDirectory directory;
  std::string prompt;
  for (int i = 0; i < 9000; ++i) prompt += "fox ";
  const std::string in = directory.write("in", R"({"prompt": "The fox", "max_tokens": 3})"
                                               "\n\nnonsense\n" +
                                                   json{{"prompt", prompt}}.dump() + "\n" +
                                                   R"({"messages": [{"role": "user", "content": "Hi"}]})"
                                                   "\n" +
                                                   R"({"prompt": "x", "temperature": -1})"
                                                   "\n" +
                                                   R"({"prompt": "no newline at the end", "max_tokens": 1})");
  const std::string out = directory.path() / "out";
  const Finished finished = run_program({"batch", kDemoModel, in, out, "-q", "-c", "256"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("3 requests failed"));
  std::map<int, json> found;
  for (const json& line : lines_of(out)) found[line["index"]] = line;
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0]["usage"]["completion_tokens"], 3);
  EXPECT_THAT(found[2]["error"]["message"], HasSubstr("the line"));
  EXPECT_THAT(found[3]["error"]["message"], HasSubstr("the context of 256"));
  EXPECT_TRUE(found[4].contains("text")) << found[4];
  EXPECT_THAT(found[5]["error"]["message"], HasSubstr("temperature"));
  EXPECT_EQ(found[6]["usage"]["completion_tokens"], 1);
}

TEST(Batch, AModelWithoutTurnsContinuesConversations) {
  const TempDirectory directory;
  const json line = {
      {"messages",
       {{{"role", "system"}, {"content", "Once upon a time"}}, {{"role", "user"}, {"content", "there was"}}}},
      {"temperature", 0},
      {"max_tokens", 20}};
  const std::string in = directory.write("in", line.dump()), out = directory.path() / "out";
  EXPECT_EQ(run_program({"batch", kDemoModel, in, out, "-q"}).code, 0);
  const Finished once = run_program(
      {"run", "--system", "Once upon a time", "-p", "there was", "--temp", "0", "-n", "20", "-q"});
  EXPECT_EQ(lines_of(out).at(0)["text"].get<std::string>() + "\n", once.out);
}

TEST(Batch, ProgressCountsWhatIsAnsweredNotWhatIsRead) {
  const TempDirectory directory;
  std::string text;
  const json endless{{"prompt", "The king"}, {"max_tokens", 8000}, {"ignore_eos", true}};
  for (int i = 0; i < 40; ++i) text += endless.dump() + "\n";
  Terminal terminal({"batch", kDemoModel, directory.write("in", text), directory.path() / "out"});
  terminal.wait_for("batch [");
  EXPECT_THAT(terminal.wait_for("%"), HasSubstr("   0 "));
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 130);
}

TEST(Batch, LinesMayAskForAllThatTheServerCanDo) {
  const TempDirectory copy, directory;
  const std::string model = make_chat_model(copy), out = directory.path() / "out";
  const json chat{{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                  {"max_tokens", 60},
                  {"response_format", json::parse(R"({"type": "json_schema", "json_schema": {"name": "a",
                      "schema": {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"],
                                 "additionalProperties": false}}})")}};
  const json text{{"prompt", "The fox"},
                  {"n", 2},
                  {"logprobs", 1},
                  {"max_tokens", 3},
                  {"functions", nullptr},
                  {"suffix", ""},
                  {"response_format", {{"type", "text"}}}};
  const std::string in = directory.write(
      "in", chat.dump() + "\n" + json{{"url", "/v1/chat/completions"}, {"body", chat}}.dump() + "\n" +
                json{{"url", "/v1/completions"}, {"body", text}}.dump() + "\n" +
                R"({"prompt": "x", "temperatur": 1})");
  EXPECT_EQ(run_program({"batch", model, in, out, "-q"}).code, 1);
  std::map<int, json> found;
  for (const json& line : lines_of(out)) found[line["index"]] = line;
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(json::parse(found[0]["text"].get<std::string>()), (json{{"n", 7}})) << found[0];
  const json body = found[1]["response"]["body"];
  EXPECT_EQ(json::parse(body["choices"][0]["message"]["content"].get<std::string>()), (json{{"n", 7}}));
  EXPECT_EQ(body["model"], model);
  const json choices = found[2]["response"]["body"]["choices"];
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[1]["logprobs"]["tokens"].size(), 3u);
  EXPECT_THAT(found[3]["error"]["message"], HasSubstr("\"temperatur\""));
}

TEST(Batch, WhatBelongsToTurnsIsRefusedForAContinuedText) {
  const TempDirectory copy, directory;
  const json tools = json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  const std::string in =
      directory.write("in", json{{"prompt", "x"}, {"tools", tools}, {"max_tokens", 1}}.dump() + "\n" +
                                json{{"prompt", {2, 5}}, {"tools", tools}}.dump() + "\n" +
                                json{{"prompt", {2, 5}}, {"reasoning_effort", "high"}}.dump());
  const auto failures = [&](const std::vector<std::string>& options) {
    const std::string out = directory.path() / "out";
    std::filesystem::remove(out);
    std::vector<std::string> batch{"batch", options[0], in, out, "-q"};
    batch.insert(batch.end(), options.begin() + 1, options.end());
    run_program(batch);
    std::map<int, std::string> found;
    for (const json& line : lines_of(out))
      if (line.contains("error")) found[line["index"]] = line["error"]["message"];
    return found;
  };
  const auto tools_mean_nothing = testing::StartsWith("tools means nothing");
  const auto effort_means_nothing = testing::StartsWith("reasoning_effort means nothing");
  const auto all =
      testing::ElementsAre(testing::Pair(0, tools_mean_nothing), testing::Pair(1, tools_mean_nothing),
                           testing::Pair(2, effort_means_nothing));
  const std::string chats = make_chat_model(copy);
  EXPECT_THAT(failures({kDemoModel}), all);
  EXPECT_THAT(failures({chats, "--raw"}), all);
  EXPECT_THAT(
      failures({chats}),
      testing::ElementsAre(testing::Pair(0, testing::StartsWith("tools: the chat template")),
                           testing::Pair(1, tools_mean_nothing), testing::Pair(2, effort_means_nothing)));
}

TEST(Batch, ThinkingNeedsAModelThatThinks) {
  const TempDirectory directory;
  const std::string in = directory.write("in", requests(1));
  expect_one_line_error(run_program({"batch", kDemoModel, in, directory.path() / "out", "--think", "-q"}), 1,
                        "--think: this model has no thinking");
}

TEST(Batch, ErrorsOfAnEarlierRunStillCount) {
  const TempDirectory directory;
  const std::string in = directory.write("in", "nonsense\n" + requests(1)), out = directory.path() / "out";
  const std::vector<std::string> batch{"batch", kDemoModel, in, out};
  EXPECT_EQ(run_program(batch).code, 1);
  const std::string before = read_text(out);
  const Finished again = run_program(batch);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("0 requests answered, 1 before;"));
  EXPECT_THAT(again.err, HasSubstr("1 request failed, 1 of them before"));
  EXPECT_EQ(read_text(out), before);
}

TEST(Batch, KilledAtAnyMomentItGoesOnWithoutLosingOrRepeatingALine) {
  const TempDirectory directory;
  constexpr int kRequests = 150;
  const std::string in = directory.write("in", requests(kRequests)), out = directory.path() / "out";
  const std::string undisturbed = directory.path() / "undisturbed";
  const std::vector<std::string> batch{"batch", kDemoModel, in, out, "-q", "--max-sequences", "8"};
  int kills = 0;
  for (int delay_ms = 150;; delay_ms += 70) {
    Program program(batch);
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    program.signal(SIGKILL);
    const Finished finished = program.wait();
    if (finished.code == 0) break;
    ASSERT_EQ(finished.code, 128 + SIGKILL) << finished.err;
    ++kills;
    ASSERT_LT(kills, 200);
  }
  EXPECT_GT(kills, 0);
  EXPECT_EQ(run_program(batch).code, 0);
  ASSERT_EQ(run_program({"batch", kDemoModel, in, undisturbed, "-q"}).code, 0);
  EXPECT_EQ(texts(out), texts(undisturbed));
  EXPECT_EQ(texts(out).size(), static_cast<std::size_t>(kRequests));
}

TEST(Batch, InterruptedItEndsWithWholeLines) {
  const TempDirectory directory;
  std::string text = requests(1);
  const json endless{{"custom_id", "q"}, {"prompt", "The king"}, {"max_tokens", 8000}, {"ignore_eos", true}};
  for (int i = 1; i < 400; ++i) text += endless.dump() + "\n";
  const std::string in = directory.write("in", text), out = directory.path() / "out";
  Program program({"batch", kDemoModel, in, out});
  ASSERT_TRUE(comes_true([&] { return !read_text(out).empty(); })) << program.errors();
  program.interrupt();
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 130) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("the same command goes on from here"));
  EXPECT_EQ(read_text(out).back(), '\n');
  EXPECT_LT(texts(out).size(), 400u);
}

TEST(Batch, OutputOfAnotherInputIsRefused) {
  const TempDirectory directory;
  const std::string in = directory.write("in", requests(2)), out = directory.path() / "out";
  ASSERT_EQ(run_program({"batch", kDemoModel, in, out, "-q"}).code, 0);
  const std::string before = read_text(out);
  const std::string edited = R"({"custom_id": "q1", "prompt": "Something else", "max_tokens": 2})";
  const std::map<std::string, std::string> messages{
      {requests(1) + edited, "another request than line 2"},
      {"\n" + requests(2), "another request than line 1"},
      {requests(1), "ends before the request of the reply with index 1"}};
  for (const auto& [changed, message] : messages) {
    directory.write("in", changed);
    expect_one_line_error(run_program({"batch", kDemoModel, in, out, "-q"}), 1, message);
    EXPECT_EQ(read_text(out), before);
  }
  expect_one_line_error(run_program({"batch", kDemoModel, directory.path() / "none", out, "-q"}), 1, "none");
}

}  // namespace
}  // namespace carat
