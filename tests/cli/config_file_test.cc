#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "support/expect_error.h"

namespace carat {
namespace {

using testing::HasSubstr;

/// "name=value" of each value, with the line.
std::vector<std::string> read(std::string_view text) {
  std::vector<std::string> found;
  for (const ConfigOption& option : parse_config(text, "file"))
    for (const std::string& value : option.values)
      found.push_back(std::to_string(option.line) + " " + option.name + "=" + value);
  return found;
}

TEST(ConfigFile, HasNamesValuesListsAndComments) {
  const std::string text = R"(# a server
port = 8000   # of it
  alias="a \"b\" # c"
host = 'C:\d'

api-key = ["one", 'two',
           three]  # keys
log-json=true)";
  EXPECT_THAT(read(text),
              testing::ElementsAre("2 port=8000", "3 alias=a \"b\" # c", "4 host=C:\\d", "6 api-key=one",
                                   "6 api-key=two", "6 api-key=three", "8 log-json=true"));
  EXPECT_TRUE(read("\n# nothing\r\n").empty());
  // Behind a blank alone: keys and passwords may have the sign.
  EXPECT_THAT(read("a = b#c\nd =#e\n#f = g\nh = [#i,#j] # k"),
              testing::ElementsAre("1 a=b#c", "2 d=#e", "4 h=#i", "4 h=#j"));
}

TEST(ConfigFile, WhatIsNoOptionIsNamedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"port 8000", "\"port 8000\" is not of the form name = value"},
      {"[server]\nport = 1", "there are no sections here: \"[server]\""},
      {"port =", "a value is missing"},
      {"port = 8000 8001", "unexpected \"8001\" behind the value"},
      {"host = \"a", "has no closing quote"},
      {"port = 8000#of it", "unexpected \"it\" behind the value"},
      {"devices = 0,1", "a text with blanks or commas needs quotes, several values a list such as [0, 1]"},
      {"prot = []", "an empty list"},
      {"api-key = [a b]", "a list needs a comma"},
      {"host = \"a\\n\"", "a backslash"}};
  for (const auto& [text, message] : wrong)
    expect_error(ErrorKind::invalid_argument, {"file, line 3: ", message}, [&] { read("\n\n" + text); });
}

TEST(ConfigFile, AMistakeIsSaidWithFileLineAndName) {
  const TempDirectory directory;
  const auto serve = [&](const std::string& text, std::vector<std::string> environment = {}) {
    const std::string file = directory.write("carat.toml", text);
    return run_program({"serve", "/no/such/model", "--config", file}, "", std::move(environment));
  };
  const auto expect_mistake = [&](const std::string& text, const std::string& message) {
    const Finished finished = serve("log-level = \"error\"\n" + text);
    expect_one_line_error(finished, 1, "carat.toml, line 2: " + message);
    EXPECT_THAT(finished.err, HasSubstr("; see carat serve --help"));
  };
  expect_mistake("port = abc", "port: must be a whole number from 0 to 65535, not \"abc\"");
  expect_mistake("prot = 80", "unknown option \"prot\" (did you mean port?)");
  expect_mistake("log-json = perhaps", "log-json: must be true or false, not \"perhaps\"");
  expect_mistake("config = \"other.toml\"", "has no meaning in a file: config");
  expect_mistake("port = [1, 2]", "port takes one value, not 2");
  expect_mistake("model = [a, b]", "model takes one value, not 2");
  expect_mistake("model = \"\"", "model: is empty");
  // The environment goes before the file, and its mistakes are its own.
  EXPECT_THAT(serve("port = abc", {"CARAT_PORT=0"}).err, HasSubstr("/no/such/model"));
  const Finished environment = serve("port = 0", {"CARAT_MAX_QUEUE=abc"});
  EXPECT_THAT(environment.err, HasSubstr("carat: CARAT_MAX_QUEUE: must be"));
}

TEST(ConfigFile, GivesWayToTheSameOptionInTheEnvironmentOrTypedByAnyOfItsNames) {
  const TempDirectory directory;
  const auto expect_loading = [&](const std::string& text, const std::vector<std::string>& typed,
                                  std::vector<std::string> environment = {}) {
    const std::string file = directory.write("carat.toml", "port = 0\n" + text);
    std::vector<std::string> words{"serve", "/no/such/model", "--config", file};
    words.insert(words.end(), typed.begin(), typed.end());
    EXPECT_THAT(run_program(words, "", std::move(environment)).err, HasSubstr("loading /no/such/model"));
  };
  // A value that can't be would be named if it were looked at.
  expect_loading("ctx-size = 0", {}, {"CARAT_CONTEXT=8192"});
  expect_loading("context = 0", {"--max-model-len", "8192"});
  expect_loading("api-key = [\"\", two]", {"--api-key", "one"});
  expect_loading("served-model-name = \"\"", {}, {"CARAT_ALIAS=one"});
}

TEST(ConfigFile, NamesTheModelUnlessOneIsTypedOrInTheEnvironment) {
  const TempDirectory directory;
  const std::string file = directory.write("carat.toml", "model = \"/of/file\"\nport = 0\n");
  const std::vector<std::string> serve{"serve", "--config", file};
  EXPECT_THAT(run_program(serve).err, HasSubstr("loading /of/file"));
  EXPECT_THAT(run_program(serve, "", {"CARAT_MODEL=/of/variable"}).err, HasSubstr("loading /of/variable"));
  EXPECT_THAT(run_program({"serve", "/typed", "--config", file}).err, HasSubstr("loading /typed"));
}

}  // namespace
}  // namespace carat
