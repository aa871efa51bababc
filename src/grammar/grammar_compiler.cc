#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "chat/thought_markers.h"
#include "grammar/compiled_grammar.h"
#include "grammar/grammar.h"
#include "grammar/json_schema.h"
#include "grammar/notation.h"

namespace carat {
namespace {

using grammar::Node;
using grammar::Program;

std::string message_of(const std::string& keyword, const std::string& place, const std::string& what) {
  return place + ": " + (keyword.empty() ? "" : in_quotes(keyword) + ' ') + printable(what, 300);
}

constexpr std::string_view kNoArguments = R"({"type": "object", "additionalProperties": false})";

bool is_tool_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
}

}  // namespace

SchemaError::SchemaError(ErrorKind kind, std::string keyword, std::string place, const std::string& what)
    : Error(kind, message_of(keyword, place, what)), keyword_(std::move(keyword)), place_(std::move(place)) {}

Thinking thinking_behind(std::span<const int32_t> prompt, const Tokenizer& tokenizer, bool may_think) {
  if (ThoughtMarkers(tokenizer).open_thought(prompt)) return Thinking::open;
  return may_think ? Thinking::allowed : Thinking::off;
}

struct GrammarCompiler::State {
  State(std::shared_ptr<const Tokenizer> tokenizer, std::vector<int32_t> its_end_tokens,
        std::size_t most_cached)
      : vocabulary(std::make_shared<const grammar::Vocabulary>(std::move(tokenizer))),
        end_tokens(std::move(its_end_tokens)),
        most(most_cached) {}

  /// The cached grammar of that key, or a new one from `add_body`, which adds a program's nodes before the
  /// end and returns where they begin.
  template <class AddBody>
  std::shared_ptr<const Grammar> get(std::string key, Thinking thinking, std::vector<int32_t> ends,
                                     AddBody&& add_body);

  int32_t find(std::string_view piece) const { return vocabulary->tokenizer->find(piece); }
  Node add_thought(Program& program, Thinking thinking, Node body) const;
  /// A tool call may end a reply with <|tool_response>; an answer doesn't.
  std::vector<int32_t> ends_of_answer() const;

  struct Cached {
    std::string key;
    std::shared_ptr<const Grammar> grammar;
  };
  const std::shared_ptr<const grammar::Vocabulary> vocabulary;
  const std::vector<int32_t> end_tokens;
  const std::size_t most;
  std::mutex mutex;
  std::vector<Cached> cached;  // the last used at the end
};

template <class AddBody>
std::shared_ptr<const Grammar> GrammarCompiler::State::get(std::string key, Thinking thinking,
                                                           std::vector<int32_t> ends, AddBody&& add_body) {
  key += static_cast<char>('0' + static_cast<int>(thinking));
  {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(cached, key, &Cached::key);
    if (found != cached.end()) {
      std::rotate(found, found + 1, cached.end());
      return cached.back().grammar;
    }
  }
  Program program;
  const Node body = add_body(program);
  const Node entry = add_thought(program, thinking, body);
  auto made = std::make_shared<const Grammar>(vocabulary, std::move(program), entry, std::move(ends));
  const std::lock_guard lock(mutex);
  if (cached.size() >= most && !cached.empty()) cached.erase(cached.begin());
  if (most > 0) cached.push_back({std::move(key), made});
  return made;
}

Node GrammarCompiler::State::add_thought(Program& program, Thinking thinking, Node body) const {
  const ThoughtMarkers markers(*vocabulary->tokenizer);
  if (thinking == Thinking::off || (thinking == Thinking::allowed && !markers.known())) return body;
  if (!markers.known()) fail(ErrorKind::unsupported, "the vocabulary has no tokens for thoughts");
  const Node thought = program.thought(program.token(markers.end, body));
  return thinking == Thinking::open ? thought : program.choice({body, program.token(markers.begin, thought)});
}

std::vector<int32_t> GrammarCompiler::State::ends_of_answer() const {
  std::vector<int32_t> ends = end_tokens;
  std::erase(ends, find("<|tool_response>"));
  return ends.empty() ? end_tokens : ends;
}

GrammarCompiler::GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, std::vector<int32_t> end_tokens,
                                 std::size_t cached) {
  if (end_tokens.empty())
    fail(ErrorKind::invalid_argument, "no token ends a reply, so that constrained ones couldn't end");
  state_ = std::make_unique<State>(std::move(tokenizer), std::move(end_tokens), cached);
}

GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const Grammar> GrammarCompiler::json_object(Thinking thinking) {
  return state_->get("object", thinking, state_->ends_of_answer(), [](Program& program) {
    return grammar::add_any_object(*grammar::json_notation(program), Program::kEnd);
  });
}

std::shared_ptr<const Grammar> GrammarCompiler::json_schema(std::string_view schema, Thinking thinking) {
  return state_->get(
      "schema" + std::string(schema), thinking, state_->ends_of_answer(), [&](Program& program) {
        return grammar::add_schema(*grammar::json_notation(program), schema, "#", false, Program::kEnd);
      });
}

std::shared_ptr<const Grammar> GrammarCompiler::tool_calls(std::span<const ToolGrammar> tools, bool parallel,
                                                           Thinking thinking) {
  // No name has the byte that ends each part, so different tools never make the same key.
  std::string key = std::string(parallel ? "calls" : "call") + '\0';
  for (const ToolGrammar& tool : tools) {
    if (!is_tool_name(tool.name))
      throw SchemaError(ErrorKind::invalid_argument, "", tool.name,
                        "is no name for a tool: letters, digits and _ . - are");
    key += tool.name + '\0' + tool.parameters + '\0';
  }
  if (tools.empty()) fail(ErrorKind::invalid_argument, "no tool is there to be called");
  const int32_t begin = state_->find("<|tool_call>"), end = state_->find("<tool_call|>");
  const int32_t quote = state_->find("<|\"|>");
  const Tokenizer& tokenizer = *state_->vocabulary->tokenizer;
  for (const int32_t token : {begin, end, quote})
    if (token < 0 || !tokenizer.is_special(token))
      fail(ErrorKind::unsupported, "the vocabulary has no special tokens for tool calls");
  return state_->get(std::move(key), thinking, state_->end_tokens, [&](Program& program) {
    const auto notation = grammar::gemma_notation(program, quote);
    const Node after = program.choice({Program::kEnd}), which = program.choice();
    const Node call = program.token(begin, notation->word({"call:"}, which));
    if (parallel) program.add_target(after, call);
    for (const ToolGrammar& tool : tools) {
      const std::string_view schema =
          tool.parameters.empty() ? kNoArguments : std::string_view(tool.parameters);
      const Node arguments =
          grammar::add_schema(*notation, schema, tool.name + "#", true, program.token(end, after));
      program.add_target(which, notation->word({tool.name}, arguments));
    }
    return call;
  });
}

}  // namespace carat
