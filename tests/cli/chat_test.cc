// `carat run` without a prompt, on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "cli/terminal.h"

namespace carat {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kControlC = "\x03";
constexpr const char* kControlD = "\x04";
constexpr const char* kUp = "\x1b[A";
constexpr const char* kLeft = "\x1b[D";

std::vector<std::string> greedy_run(const std::string& model, const std::string& tokens) {
  return {"run", model, "--temp", "0", "-n", tokens};
}

/// Types a line; returns what came of it, up to where the next one is read. Editing a line is between two
/// marks of the terminal.
std::string enter(Terminal& terminal, const std::string& line) {
  terminal.type(line + "\r");
  terminal.wait_for("\x1b[?2004l");
  return terminal.wait_for("\x1b[?2004h");
}

/// Saves the conversation from within and reads it.
json saved(Terminal& terminal, const TempDirectory& directory) {
  const std::string file = directory.path() / "chat.json";
  enter(terminal, "/save " + file);
  return json::parse(read_text(file));
}

TEST(Chat, TextOfAModelWithoutTemplateGrowsFromTurnToTurn) {
  Terminal terminal(greedy_run(kDemoModel, "60"));
  const TempDirectory directory;
  terminal.wait_for(">>> ");
  EXPECT_THAT(enter(terminal, "Once upon a time"), HasSubstr("tok/s"));
  EXPECT_THAT(enter(terminal, " And then"), HasSubstr(" cached)"));
  const json text = saved(terminal, directory);
  ASSERT_EQ(text.size(), 4u);
  const Finished once = run_program({"run", "-p", "Once upon a time", "--temp", "0", "-n", "60", "-q"});
  EXPECT_EQ(text[1]["content"].get<std::string>() + "\n", once.out);
  EXPECT_EQ(text[2]["content"], " And then");
}

TEST(Chat, CachedTokensAreThePagesOfTheTurnsBefore) {
  const TempDirectory copy;
  Terminal terminal(greedy_run(make_chat_model(copy), "70"));
  terminal.wait_for(">>> ");
  EXPECT_THAT(enter(terminal,
                    "Tell me of a fox and of all that it did on the day when it met the king and "
                    "his three sons, who had gone into the wood to look for the golden bird"),
              Not(HasSubstr("cached")));
  const std::string second = enter(terminal, "Go on");
  const std::size_t at = second.find(" prompt tokens (");
  ASSERT_NE(at, second.npos) << second;
  const int prompt = std::atoi(second.c_str() + second.rfind('\n', at) + 1);
  const int cached = std::atoi(second.c_str() + at + 16);
  EXPECT_EQ(cached % 32, 0);
  EXPECT_GT(cached, 0);
  EXPECT_LT(cached, prompt);
}

TEST(Chat, ControlCStopsTheReplyAndTheChatGoesOn) {
  Terminal terminal(greedy_run(kDemoModel, "8000"));
  terminal.wait_for(">>> ");
  terminal.type("The king said\r");
  terminal.wait_for("\x1b[?2004l");
  terminal.wait_for(" the ");
  terminal.type(kControlC);
  EXPECT_THAT(terminal.wait_for("\x1b[?2004h"), AllOf(HasSubstr(" generated"), HasSubstr(" (stopped)")));
  terminal.type(kControlC);
  terminal.wait_for("/bye or Ctrl-D leaves.");
  terminal.type("/bye\r");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(Chat, LinesAreEditedRecalledAndJoined) {
  const TempDirectory copy, directory;
  Terminal terminal(greedy_run(make_chat_model(copy), "2"));
  terminal.wait_for(">>> ");
  enter(terminal, "Helo" + std::string(kLeft) + "l");
  enter(terminal, std::string(kUp) + "!");
  enter(terminal, "\"\"\"two");
  EXPECT_THAT(enter(terminal, "lines\"\"\""), HasSubstr(" generated"));
  enter(terminal, "\x1b[200~pasted\ntext\x1b[201~");
  const json messages = saved(terminal, directory);
  ASSERT_EQ(messages.size(), 8u);
  EXPECT_EQ(messages[0]["content"], "Hello");
  EXPECT_EQ(messages[2]["content"], "Hello!");
  EXPECT_EQ(messages[4]["content"], "two\nlines");
  EXPECT_EQ(messages[6]["content"], "pasted\ntext");
  terminal.type(kControlD);
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(Chat, HistoryOutlivesTheProgram) {
  const TempDirectory copy, home;
  const std::string model = make_chat_model(copy);
  {
    Terminal terminal(greedy_run(model, "2"), home.path());
    terminal.wait_for(">>> ");
    enter(terminal, "Once upon a time");
    terminal.type(kControlD);
    EXPECT_EQ(terminal.wait(), 0);
  }
  Terminal terminal(greedy_run(model, "2"), home.path());
  terminal.wait_for(">>> ");
  terminal.type(kUp);
  terminal.wait_for("Once upon a time");
}

TEST(Chat, CommandsSetShowClearAndLoad) {
  const TempDirectory copy, directory;
  Terminal terminal(greedy_run(make_chat_model(copy), "2"));
  const auto command = [&](const std::string& line) { return enter(terminal, line); };
  terminal.wait_for(">>> ");
  EXPECT_THAT(command("/help"), AllOf(HasSubstr("/system TEXT"), HasSubstr("a second one")));
  EXPECT_THAT(command("/set top_k 7"), HasSubstr("top_k              7"));
  EXPECT_THAT(command("/set top_k lots"), HasSubstr("carat: top_k must be a whole number"));
  EXPECT_THAT(command("/set topk 7"), HasSubstr("did you mean top_k?"));
  EXPECT_THAT(command("/set think on"), HasSubstr("no thinking"));
  EXPECT_THAT(command("/set show_thinking on"), HasSubstr("show_thinking      on"));
  EXPECT_THAT(command("/system Be brief"), HasSubstr("counts from the next turn on"));
  EXPECT_THAT(command("Hello"), AllOf(HasSubstr("2 generated"), Not(HasSubstr("stopped"))));
  const std::string shown = command("/show");
  EXPECT_THAT(shown, HasSubstr("system             Be brief"));
  EXPECT_THAT(shown, HasSubstr("top_k              7"));
  EXPECT_THAT(shown, HasSubstr("turns              1"));
  EXPECT_EQ(saved(terminal, directory)[0]["role"], "system");
  EXPECT_THAT(command("/clear all"), HasSubstr("carat: /clear stands alone, without \"all\""));
  EXPECT_THAT(command("/show"), HasSubstr("turns              1"));
  EXPECT_THAT(command("/clear"), HasSubstr("a new conversation; 1 turn forgotten, the system message stays"));
  EXPECT_THAT(command("/show"), HasSubstr("turns              0"));
  EXPECT_THAT(command("/load " + (directory.path() / "chat.json").string()),
              HasSubstr("1 turn loaded from " + (directory.path() / "chat.json").string()));
  EXPECT_THAT(command("/show"), HasSubstr("turns              1"));
  EXPECT_THAT(command("/load /no/such/file"), HasSubstr("carat: /no/such/file"));
  EXPECT_THAT(command("/sohw"), HasSubstr("no command \"/sohw\" (did you mean /show?)"));
}

TEST(Chat, NoFileAndNoConversationIsReplacedUnasked) {
  const TempDirectory directory;
  const std::string file = directory.write("mine", "mine"), other = directory.path() / "other";
  const std::string part = directory.write("other.part", "mine too");
  Terminal terminal(greedy_run(kDemoModel, "2"));
  terminal.wait_for(">>> ");
  const auto question = [&](const std::string& line, const std::string& asked) {
    terminal.type(line + "\r");
    terminal.wait_for(asked);
    terminal.wait_for("[y/N] ");
  };
  enter(terminal, "The fox");
  question("/save " + file, "mine exists; replace it?");
  EXPECT_THAT(enter(terminal, ""), HasSubstr("not saved"));
  EXPECT_EQ(read_text(file), "mine");
  EXPECT_THAT(enter(terminal, "/save " + other), HasSubstr("other.part: is in the way"));
  EXPECT_EQ(read_text(part), "mine too");
  question("/load " + file, "1 turn not saved; drop what was said?");
  EXPECT_THAT(enter(terminal, "no"), HasSubstr("not loaded"));
  question("/save " + file, "mine exists; replace it?");
  EXPECT_THAT(enter(terminal, "y"), HasSubstr("1 turn saved in " + file));
  EXPECT_EQ(json::parse(read_text(file)).size(), 2u);
  EXPECT_THAT(enter(terminal, "/load " + file), HasSubstr("1 turn loaded"));
}

TEST(Chat, ALinkStaysOneAlsoWhenItLeadsToNoFileYet) {
  const TempDirectory directory;
  const auto link = directory.path() / "link", second = directory.path() / "second";
  std::filesystem::create_symlink("second", link);
  std::filesystem::create_symlink(directory.path() / "file", second);
  const auto circle = directory.path() / "circle";
  std::filesystem::create_symlink("circle", circle);
  Terminal terminal(greedy_run(kDemoModel, "2"));
  terminal.wait_for(">>> ");
  enter(terminal, "The fox");
  for (int i = 0; i < 2; ++i) {
    terminal.type("/save " + link.string() + "\r");
    terminal.wait_for("link exists; replace it?");
    terminal.wait_for("[y/N] ");
    EXPECT_THAT(enter(terminal, "y"), HasSubstr("1 turn saved"));
    EXPECT_TRUE(std::filesystem::is_symlink(link) && std::filesystem::is_symlink(second));
    EXPECT_EQ(json::parse(read_text(directory.path() / "file")).size(), 2u);
  }
  terminal.type("/save " + circle.string() + "\r");
  terminal.wait_for("[y/N] ");
  EXPECT_THAT(enter(terminal, "y"), HasSubstr("symbolic links"));
  EXPECT_TRUE(std::filesystem::is_symlink(circle));
}

TEST(Chat, ATextThatIsContinuedMayHaveASystemMessage) {
  Terminal terminal(greedy_run(kDemoModel, "20"));
  terminal.wait_for(">>> ");
  enter(terminal, "/system Once upon a time");
  const std::string text = enter(terminal, "there was");
  const Finished once = run_program(
      {"run", "--system", "Once upon a time", "-p", "there was", "--temp", "0", "-n", "20", "-q"});
  std::string first_line = once.out.substr(0, once.out.find('\n'));
  EXPECT_THAT(text, HasSubstr(first_line));
}

TEST(Chat, ARawTextHasNoOtherRoles) {
  const TempDirectory directory;
  const auto load = [&](Terminal& terminal, const std::string& role) {
    const json messages = {{{"role", "user"}, {"content", "The"}}, {{"role", role}, {"content", " fox"}}};
    return enter(terminal, "/load " + directory.write("chat.json", messages.dump()).string());
  };
  Terminal terminal({"run", kDemoModel, "--raw", "-n", "2"});
  terminal.wait_for(">>> ");
  for (const char* role : {"system", "tool", "king"})
    EXPECT_THAT(load(terminal, role), HasSubstr("message 1 is of \"" + std::string(role) + "\""));
  EXPECT_THAT(enter(terminal, "/show"), HasSubstr("turns              0"));
  EXPECT_THAT(load(terminal, "assistant"), Not(HasSubstr("carat:")));
  EXPECT_THAT(enter(terminal, "/show"), HasSubstr("turns              1"));
  EXPECT_THAT(enter(terminal, "/system x"), HasSubstr("--raw"));
}

TEST(Chat, ATextTooLongIsRefusedAndForgotten) {
  Terminal terminal({"run", kDemoModel, "-c", "64", "-n", "4", "--temp", "0"});
  terminal.wait_for(">>> ");
  std::string words;
  for (int i = 0; i < 100; ++i) words += "fox ";
  EXPECT_THAT(enter(terminal, words), HasSubstr("carat: the prompt has "));
  EXPECT_THAT(enter(terminal, "The fox"), HasSubstr("4 generated"));
  terminal.type(kControlD);
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace carat
