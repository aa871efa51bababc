// Constrained output: what a reply may be, compiled into a grammar whose masks the engine asks for before
// each token. Used by the server and the command line; docs/structured-output.md has the whole of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace carat {

/// A schema that can't be turned into a grammar: ErrorKind::invalid_argument when it is no JSON schema or
/// nothing satisfies it, ErrorKind::unsupported when it asks for something this library doesn't do. The
/// message names keyword and place too.
class SchemaError : public Error {
 public:
  SchemaError(ErrorKind kind, std::string keyword, std::string place, const std::string& what);
  const std::string& keyword() const { return keyword_; }  // such as "uniqueItems"; empty: the schema itself
  const std::string& place() const { return place_; }      // such as "#/properties/tags"

 private:
  std::string keyword_, place_;
};

/// What may stand before the constrained part of a reply.
enum class Thinking {
  off,      // nothing
  allowed,  // a thought, <|channel> ... <channel|>, or nothing
  open      // the rest of a thought: the prompt ends inside one
};

/// Of a reply to `prompt`, which may end inside a thought; `may_think`: the model was asked to.
Thinking thinking_behind(std::span<const int32_t> prompt, const Tokenizer& tokenizer, bool may_think);

struct ToolGrammar {
  std::string name;        // [A-Za-z0-9_.-]+
  std::string parameters;  // the JSON schema of an object; empty: no arguments
};

/// Immutable and safe to use from any thread.
class Grammar;

/// Compiles grammars for one tokenizer. Safe to use from any thread; equal requests share one grammar.
/// Compiling takes from a millisecond to some tenths of a second, so it belongs on a worker thread.
class GrammarCompiler {
 public:
  /// `end_tokens` end a reply, such as the eos tokens of the model: they are allowed exactly where the reply
  /// is complete. Keeps the last `cached` grammars. Building it takes a moment: one per process.
  GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, std::vector<int32_t> end_tokens,
                  std::size_t cached = 64);
  ~GrammarCompiler();

  /// Any JSON object.
  std::shared_ptr<const Grammar> json_object(Thinking thinking);

  /// A JSON value that satisfies the schema. Throws SchemaError.
  std::shared_ptr<const Grammar> json_schema(std::string_view schema, Thinking thinking);

  /// Calls of these tools in Gemma's own notation: exactly one, or one or more when `parallel`. For a named
  /// tool choice give that tool alone. Throws SchemaError, whose place begins with the tool's name, and
  /// Error{unsupported} when the vocabulary has no tokens for tool calls.
  std::shared_ptr<const Grammar> tool_calls(std::span<const ToolGrammar> tools, bool parallel,
                                            Thinking thinking);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The mask of one request; its samples may share it. After the last token of a complete reply it allows end
/// tokens only. So min_tokens must not ask for more than the grammar's shortest reply has.
std::shared_ptr<TokenMask> make_mask(std::shared_ptr<const Grammar> grammar);

}  // namespace carat
