// Walks a template's tree and writes its text. Used by Template::render().
#pragma once
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja_ast.h"
#include "chat/jinja_runtime.h"

namespace carat::jinja {

class Evaluator {
 public:
  /// `name` is that of the template, for messages; `variables` are the globals.
  Evaluator(Runtime& runtime, const std::string& name, const Map& variables);

  /// Throws Error{invalid_argument} with `name`, line and column for whatever goes wrong.
  MarkedText render(const Block& block);

 private:
  struct LoopState {
    const std::vector<Value>& items;
    std::size_t at;
  };
  struct Scope {
    std::unordered_map<std::string_view, Value> names;
    const LoopState* loop;  // whose body this is; may be null
  };
  enum class Flow { next, leave_loop, next_item };

  class DepthGuard;
  /// Runs `action` with an empty text to write to and a new innermost scope; returns what was written.
  template <class Action>
  MarkedText captured(Action action);

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow execute(const Text& text);
  Flow execute(const Output& output);
  Flow execute(const If& statement);
  Flow execute(const For& loop);
  Flow execute(const Set& statement);
  Flow execute(const SetBlock& statement);
  Flow execute(const FilterBlock& statement);
  Flow execute(const Macro& macro);
  Flow execute(const LoopControl& control);
  void assign(const Target& target, const Value& value);
  std::vector<Value> loop_items(const For& loop);
  static Value loop_variable(const LoopState& loop);

  Value evaluate(const Expression& expression);
  Value evaluate_optional(const ExpressionPtr& expression);
  Value evaluate(const Literal& literal) { return literal.value; }
  Value evaluate(const Name& name);
  Value evaluate(const ListDisplay& list);
  Value evaluate(const MapDisplay& map);
  Value evaluate(const Attribute& node);
  Value evaluate(const Item& node);
  Value evaluate(const Slice& node);
  Value evaluate(const Call& node);
  Value evaluate(const Filter& node);
  Value evaluate(const Test& node);
  Value evaluate(const Not& node);
  Value evaluate(const Sign& node);
  Value evaluate(const Logic& node);
  Value evaluate(const Arithmetic& node);
  Value evaluate(const Comparison& node);
  Value evaluate(const Conditional& node);

  CallArguments evaluate(const Arguments& arguments);
  Value call_macro(const Macro& macro, CallArguments arguments);
  void write(const MarkedText& text);
  template <class Action>
  auto located(Position at, Action action);

  Runtime& runtime_;
  const std::string& name_;
  const Map& variables_;
  std::vector<Scope> scopes_;      // the template's own first, the innermost last
  std::size_t first_visible_ = 0;  // a macro sees its own scopes, from here on, and the template's
  MarkedText* out_ = nullptr;
  Value filter_input_;  // of a filter block
  int depth_ = 0;
};

}  // namespace carat::jinja
