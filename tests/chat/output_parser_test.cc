#include "chat/output_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "chat/chat_tokenizer.h"
#include "chat/python_text.h"
#include "text/unicode.h"

namespace carat {
namespace {

/// A whole reply.
struct Reply {
  std::string content, reasoning;
  std::vector<std::string> calls;  // name(arguments)
  bool operator==(const Reply&) const = default;
};

void PrintTo(const Reply& reply, std::ostream* out) {
  *out << "content " << testing::PrintToString(reply.content) << ", reasoning "
       << testing::PrintToString(reply.reasoning) << ", calls " << testing::PrintToString(reply.calls);
}

void add(const OutputDelta& delta, Reply& reply) {
  EXPECT_TRUE(is_valid_utf8(delta.content) && is_valid_utf8(delta.reasoning));
  reply.content += delta.content;
  reply.reasoning += delta.reasoning;
  for (const ToolCall& call : delta.tool_calls) reply.calls.push_back(call.name + "(" + call.arguments + ")");
}

class OutputParserTest : public testing::Test {
 protected:
  int32_t id(std::string_view piece) const { return tokenizer_->find(piece); }
  std::vector<int32_t> ids(std::string_view text) const {
    return tokenizer_->encode(text, SpecialTokens::recognise);
  }

  Reply stream(const std::vector<int32_t>& tokens, const OutputOptions& options = {},
               const std::vector<int32_t>& prompt = {}) const {
    OutputParser parser(tokenizer_, options, prompt);
    Reply reply;
    for (const int32_t token : tokens) add(parser.push(token), reply);
    add(parser.finish(), reply);
    return reply;
  }
  Reply stream(std::string_view text, const OutputOptions& options = {}) const {
    return stream(ids(text), options);
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = chat_tokenizer();
};

TEST_F(OutputParserTest, PlainRepliesAreContentAtOnce) {
  EXPECT_EQ(stream(" Hello\n").content, " Hello\n");
  OutputParser parser(tokenizer_, {}, {});
  EXPECT_EQ(parser.push(id("H")).content, "H");
  EXPECT_EQ(parser.push(id("thought")).content, "thought");
}

TEST_F(OutputParserTest, ThoughtsBecomeReasoningWithoutTheirLabel) {
  EXPECT_EQ(stream("<|channel>thought\nWhy?\nSo.\n<channel|>\nBecause.<turn|>"),
            (Reply{"Because.", "Why?\nSo.", {}}));
  EXPECT_EQ(stream("<|channel>thought\n<channel|>Yes"), (Reply{"Yes", "", {}}));
  EXPECT_EQ(stream("<|channel>thought<channel|>Yes"), (Reply{"Yes", "", {}}));
  EXPECT_EQ(stream("<|channel>thoughtful<channel|>Yes"), (Reply{"Yes", "thoughtful", {}}));
  EXPECT_EQ(stream("<|channel>tho<channel|>Yes"), (Reply{"Yes", "tho", {}}));
  EXPECT_EQ(stream("a<|channel>thought\nb<channel|> c<|channel>d<channel|>e"), (Reply{"ace", "bd", {}}));
}

TEST_F(OutputParserTest, AThoughtWithoutItsEndIsReasoning) {
  EXPECT_EQ(stream("<|channel>thought\ncut off here"), (Reply{"", "cut off here", {}}));
  EXPECT_EQ(stream("<|channel>thought hello<turn|>"), (Reply{"", "hello", {}}));
  EXPECT_EQ(stream("<|channel>thought\nso<|tool_call>call:f{}<tool_call|>"), (Reply{"", "so", {"f({})"}}));
}

TEST_F(OutputParserTest, TheLabelMayComeInAnyTokens) {
  const std::vector<int32_t> whole = {id("<|channel>"), id("thought"), id("\n"), id("x"), id("<channel|>")};
  const std::vector<int32_t> split = {id("<|channel>"), id("th"), id("ou"), id("gh"),
                                      id("t"),          id("\n"), id("x"),  id("<channel|>")};
  EXPECT_EQ(stream(whole), (Reply{"", "x", {}}));
  EXPECT_EQ(stream(split), stream(whole));
}

TEST_F(OutputParserTest, APromptMayEndInsideAThought) {
  EXPECT_EQ(stream(ids("so<channel|>Yes"), {}, ids("<|turn>model\n<|channel>thought\n")),
            (Reply{"Yes", "so", {}}));
  EXPECT_EQ(stream(ids("\nso<channel|>Yes"), {}, ids("<|channel>thought")), (Reply{"Yes", "so", {}}));
  EXPECT_EQ(stream(ids("Yes"), {}, ids("<|turn>model\n<|channel>thought\n<channel|>")),
            (Reply{"Yes", "", {}}));
}

TEST_F(OutputParserTest, ToolCallsAreGivenWhole) {
  EXPECT_EQ(stream(R"(<|tool_call>call:f{a:<|"|>x "y"<|"|>,n:1}<tool_call|><|tool_response>)"),
            (Reply{"", "", {R"(f({"a":"x \"y\"","n":1}))"}}));
  EXPECT_EQ(stream("Look: "
                   "<|tool_call>call:f{}<tool_call|>\n<|tool_call>call:g{}<tool_call|><|tool_call>call:h{}<"
                   "tool_call|>"),
            (Reply{"Look: ", "", {"f({})", "g({})", "h({})"}}));
}

TEST_F(OutputParserTest, ACallMayEndWithTheReply) {
  for (const std::string end : {"", "<eos>", "<turn|>", "<|tool_response>", "<|tool_call>call:g{}"})
    EXPECT_EQ(stream("<|tool_call>call:f{}" + end).calls.front(), "f({})") << end;
}

TEST_F(OutputParserTest, WhatCannotBeReadAsACallIsText) {
  for (const std::string text :
       {"<|tool_call>call:f{a:<|\"|>x<tool_call|>", "<|tool_call>hello", "<|tool_call>",
        "<|tool_call><tool_call|>", "<|tool_call>call:f{<|channel>}<tool_call|>"}) {
    EXPECT_EQ(stream("before " + text), (Reply{"before " + text, "", {}}));
  }
  EXPECT_EQ(stream("<|tool_call>no<tool_call|> and on"),
            (Reply{"<|tool_call>no<tool_call|> and on", "", {}}));
}

TEST_F(OutputParserTest, CallsAreTextWhereNobodyAskedForThem) {
  EXPECT_EQ(stream("<|tool_call>call:f{}<tool_call|>", {.tool_calls = false, .stop_strings = {}}),
            (Reply{"call:f{}", "", {}}));
}

TEST_F(OutputParserTest, StrayMarkersVanish) {
  EXPECT_EQ(stream("a<channel|>b<tool_call|>c<|\"|>d<turn|>"), (Reply{"abcd", "", {}}));
}

TEST_F(OutputParserTest, MarkersInOrdinaryTokensAreText) {
  const auto text =
      tokenizer_->encode("<|channel>thought\n<|tool_call>call:f{}<tool_call|>", SpecialTokens::as_text);
  EXPECT_EQ(stream(text), (Reply{"<|channel>thought\n<|tool_call>call:f{}<tool_call|>", "", {}}));
}

TEST_F(OutputParserTest, StopStringsEndTheAnswerOnly) {
  const OutputOptions options{.tool_calls = true, .stop_strings = {"END"}};
  EXPECT_EQ(stream("<|channel>thought\nEND<channel|>a<|tool_call>call:f{b:END}<tool_call|>b "
                   "ENDc<|tool_call>call:g{}<tool_call|>",
                   options),
            (Reply{"ab ", "END", {R"(f({"b":"END"}))"}}));
  EXPECT_EQ(stream("<|tool_call>oh END no<tool_call|>more", options), (Reply{"<|tool_call>oh ", "", {}}));
  OutputParser parser(tokenizer_, options, {});
  for (const int32_t token : ids("xEND")) parser.push(token);
  EXPECT_TRUE(parser.stopped());
  EXPECT_TRUE(parser.push(id("y")).empty() && parser.finish().empty());
}

TEST_F(OutputParserTest, CharactersAreNeverCut) {
  const std::string emoji = "\xF0\x9F\x98\x80";
  std::vector<int32_t> tokens;
  for (const char byte : emoji) tokens.push_back(id(byte_piece(static_cast<unsigned char>(byte))));
  std::vector<int32_t> thought = {id("<|channel>")};
  thought.insert(thought.end(), tokens.begin(), tokens.end());
  EXPECT_EQ(stream(tokens).content, emoji);
  EXPECT_EQ(stream(thought).reasoning, emoji);
  tokens.pop_back();
  EXPECT_EQ(stream(tokens).content, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

// The same rules without streaming: the reply is cut at its control tokens and every part decoded as a whole.
class WholeReply {
 public:
  WholeReply(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : tokenizer_(tokenizer), stops_(std::move(stops)) {}

  Reply parse(const std::vector<int32_t>& tokens) {
    const auto is = [&](int32_t token, std::string_view name) { return token == tokenizer_.find(name); };
    std::vector<int32_t> part;
    std::string kind = "content";
    const auto change = [&](const std::string& next, int32_t first) {
      flush(kind, part);
      kind = next;
      part.assign(first >= 0 ? 1 : 0, first);
    };
    for (const int32_t token : tokens) {
      const bool ends =
          is(token, "<eos>") || is(token, "<turn|>") || is(token, "<|turn>") || is(token, "<|tool_response>");
      if (is(token, "<|tool_call>")) {
        change("call", token);
      } else if (kind == "call") {
        if (!ends) part.push_back(token);
        if (ends || is(token, "<tool_call|>")) change("content", -1);
      } else if (is(token, "<|channel>")) {
        change("thought", -1);
      } else if (kind == "thought" && (ends || is(token, "<channel|>"))) {
        change("content", -1);
      } else {
        part.push_back(token);
      }
    }
    change("content", -1);
    return std::move(reply_);
  }

 private:
  void flush(const std::string& kind, const std::vector<int32_t>& part) {
    if (stopped_) return;
    if (kind == "content") {
      add_content(tokenizer_.decode(part, true));
    } else if (kind == "thought") {
      std::string text = tokenizer_.decode(part, true);
      if (text == "thought" || text.starts_with("thought\n") || text.starts_with("thought "))
        text.erase(0, 8);
      const std::size_t end = text.find_last_not_of('\n') + 1;
      reply_.reasoning += text.substr(0, end);
      skips_blanks_ = true;
    } else {
      const std::string all = tokenizer_.decode(part, false);
      std::string inside = all.substr(std::string("<|tool_call>").size());
      if (part.back() == tokenizer_.find("<tool_call|>"))
        inside.erase(inside.size() - std::string("<tool_call|>").size());
      const auto calls = parse_tool_calls(inside);
      if (!calls) return add_content(all);
      for (const ToolCall& call : *calls) reply_.calls.push_back(call.name + "(" + call.arguments + ")");
      skips_blanks_ = true;
    }
  }

  void add_content(std::string text) {
    std::size_t cut = text.size(), first_end = std::string::npos;
    for (const std::string& stop : stops_) {
      const std::size_t found = text.find(stop);
      if (found == std::string::npos || found + stop.size() >= first_end) continue;
      first_end = found + stop.size();
      cut = found;
      stopped_ = true;
    }
    std::string_view kept = std::string_view(text).substr(0, cut);
    if (skips_blanks_) kept = strip_left(kept);
    if (!kept.empty()) skips_blanks_ = false;
    reply_.content += kept;
  }

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  Reply reply_;
  bool skips_blanks_ = false, stopped_ = false;
};

std::vector<int32_t> random_tokens(const Tokenizer& tokenizer, std::mt19937& random) {
  static const std::vector<std::string> kTexts = {"thought", "\n", "▁", "call:", "f",  "{",  "}",
                                                  "a",       ":",  "1", ",",     "[",  "]",  "\"",
                                                  "E",       "N",  "D", "€",     "th", "ou", "ght"};
  const auto pick = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  const auto find = [&](std::string_view piece) { return tokenizer.find(piece); };
  std::vector<int32_t> tokens;
  const std::size_t length = pick(40);
  while (tokens.size() < length) {
    switch (pick(8)) {
      case 0:
      case 1:
        tokens.push_back(find(control_tokens()[pick(control_tokens().size())]));
        break;
      case 2:
        tokens.push_back(find(byte_piece(static_cast<int>(pick(256)))));
        break;
      case 3:
        for (const char byte : std::string("\xF0\x9F\x98\x80\xC3\xA9").substr(0, pick(7)))
          tokens.push_back(find(byte_piece(static_cast<unsigned char>(byte))));
        break;
      case 4:
        for (const int32_t token :
             tokenizer.encode(pick(2) ? "<|tool_call>call:f{a:<|\"|>x<|\"|>,b:[1]}<tool_call|>"
                                      : "<|channel>thought\nhm\n<channel|>",
                              SpecialTokens::recognise))
          if (pick(20) > 0) tokens.push_back(token);  // now and then one is missing
        break;
      default:
        tokens.push_back(find(kTexts[pick(kTexts.size())]));
    }
  }
  tokens.resize(length);  // cut anywhere
  return tokens;
}

TEST_F(OutputParserTest, StreamedRepliesEqualWholeOnes) {
  std::mt19937 random(7);
  int with_calls = 0, with_reasoning = 0;
  for (int i = 0; i < 10'000 && !HasFailure(); ++i) {
    const std::vector<int32_t> tokens = random_tokens(*tokenizer_, random);
    const std::vector<std::string> stops =
        i % 3 ? std::vector<std::string>{} : std::vector<std::string>{"END", "a1"};
    OutputParser parser(tokenizer_, {.tool_calls = true, .stop_strings = stops}, {});
    Reply streamed;
    for (const int32_t token : tokens) add(parser.push(token), streamed);
    const Reply before_end = streamed;
    add(parser.finish(), streamed);
    EXPECT_EQ(streamed, WholeReply(*tokenizer_, stops).parse(tokens)) << testing::PrintToString(tokens);
    EXPECT_TRUE(streamed.content.starts_with(before_end.content) &&
                streamed.reasoning.starts_with(before_end.reasoning));
    with_calls += streamed.calls.empty() ? 0 : 1;
    with_reasoning += streamed.reasoning.empty() ? 0 : 1;
  }
  EXPECT_GT(with_calls, 1000);
  EXPECT_GT(with_reasoning, 1000);
}

TEST_F(OutputParserTest, OtherTokensOfTheSameTextGiveTheSameReply) {
  std::mt19937 random(8);
  for (int i = 0; i < 2'000 && !HasFailure(); ++i) {
    std::vector<int32_t> tokens = random_tokens(*tokenizer_, random);
    std::erase_if(tokens, [&](int32_t token) { return tokenizer_->is_byte(token); });
    std::vector<int32_t> bytes;
    for (const int32_t token : tokens) {
      if (tokenizer_->is_special(token) || random() % 2) {
        bytes.push_back(token);
        continue;
      }
      for (const char byte : tokenizer_->token_bytes(token))
        bytes.push_back(id(byte_piece(static_cast<unsigned char>(byte))));
    }
    EXPECT_EQ(stream(bytes), stream(tokens)) << testing::PrintToString(tokens);
  }
}

}  // namespace
}  // namespace carat
