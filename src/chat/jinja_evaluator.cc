#include "chat/jinja_evaluator.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/jinja_operators.h"

namespace carat::jinja {
namespace {

/// An error that knows its place already.
class LocatedError final : public Error {
 public:
  using Error::Error;
};

/// How a template calls a value, for messages.
std::string describe(const Expression& expression) {
  if (const auto* name = std::get_if<Name>(&expression.node)) return name->name;
  if (const auto* attribute = std::get_if<Attribute>(&expression.node))
    return describe(*attribute->object) + "." + attribute->name;
  if (const auto* item = std::get_if<Item>(&expression.node)) return describe(*item->object) + "[...]";
  return "a value";
}

void require_defined(const Value& value, const Expression& expression) {
  if (value.is_undefined())
    fail(ErrorKind::invalid_argument, in_quotes(describe(expression)), " is undefined");
}

/// loop.cycle(a, b, ...); self is loop.index0.
Value cycle(BuiltinCall& call) {
  if (call.values.empty()) fail(ErrorKind::invalid_argument, "cycle() of nothing");
  return call.values[static_cast<std::size_t>(*call.self.as_integer()) % call.values.size()];
}

}  // namespace

class Evaluator::DepthGuard {
 public:
  explicit DepthGuard(Evaluator& evaluator) : depth_(evaluator.depth_) {
    if (++depth_ > evaluator.runtime_.max_depth())
      fail(ErrorKind::invalid_argument, "the template nests deeper than a chat template may");
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

Evaluator::Evaluator(Runtime& runtime, const std::string& name, const Map& variables)
    : runtime_(runtime), name_(name), variables_(variables) {}

MarkedText Evaluator::render(const Block& block) {
  return captured([&] { run(block); });
}

template <class Action>
MarkedText Evaluator::captured(Action action) {
  MarkedText text;
  MarkedText* const outer = std::exchange(out_, &text);
  scopes_.push_back({{}, nullptr});
  action();
  scopes_.pop_back();
  out_ = outer;
  return text;
}

template <class Action>
auto Evaluator::located(Position at, Action action) {
  try {
    return action();
  } catch (const LocatedError&) {
    throw;
  } catch (const Error& error) {
    std::ostringstream message;
    message << name_ << ":" << at.line << ":" << at.column << ": " << error.what();
    throw LocatedError(error.kind(), message.str());
  }
}

void Evaluator::write(const MarkedText& text) {
  runtime_.spend_bytes(text.size());
  out_->append(text);
}

// Statements.

Evaluator::Flow Evaluator::run(const Block& block) {
  const DepthGuard depth(*this);
  for (const Statement& statement : block)
    if (const Flow flow = run(statement); flow != Flow::next) return flow;
  return Flow::next;
}

Evaluator::Flow Evaluator::run(const Statement& statement) {
  return located(statement.at, [&] {
    runtime_.spend_steps(1);
    return std::visit([&](const auto& node) { return execute(node); }, statement.node);
  });
}

Evaluator::Flow Evaluator::execute(const Text& text) {
  write(text.text);
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Output& output) {
  write(to_text(evaluate(*output.value)));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const If& statement) {
  for (const If::Branch& branch : statement.branches)
    if (!branch.condition || evaluate(*branch.condition).truth()) return run(branch.body);
  return Flow::next;
}

std::vector<Value> Evaluator::loop_items(const For& loop) {
  std::vector<Value> items = items_of(runtime_, evaluate(*loop.items));
  if (!loop.condition) return items;
  std::vector<Value> wanted;
  for (Value& item : items) {
    scopes_.push_back({{}, nullptr});
    assign(loop.target, item);
    if (evaluate(*loop.condition).truth()) wanted.push_back(std::move(item));
    scopes_.pop_back();
  }
  return wanted;
}

Evaluator::Flow Evaluator::execute(const For& loop) {
  const std::vector<Value> items = loop_items(loop);
  LoopState state{items, 0};
  for (; state.at < items.size(); ++state.at) {
    scopes_.push_back({{}, &state});
    assign(loop.target, items[state.at]);
    const Flow flow = run(loop.body);
    scopes_.pop_back();
    if (flow == Flow::leave_loop) break;
  }
  if (!items.empty()) return Flow::next;
  scopes_.push_back({{}, nullptr});
  const Flow flow = run(loop.otherwise);
  scopes_.pop_back();
  return flow;
}

Evaluator::Flow Evaluator::execute(const Set& statement) {
  assign(statement.target, evaluate(*statement.value));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const SetBlock& statement) {
  Value value = runtime_.text(captured([&] { run(statement.body); }));
  if (statement.filters) {
    filter_input_ = std::move(value);
    value = evaluate(*statement.filters);
  }
  assign(statement.target, value);
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const FilterBlock& statement) {
  filter_input_ = runtime_.text(captured([&] { run(statement.body); }));
  write(to_text(evaluate(*statement.filters)));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Macro& macro) {
  scopes_.back().names[macro.name] =
      Value::callable(std::make_shared<const Callable>(Callable{&macro, nullptr, {}}));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const LoopControl& control) {
  return control.is_break ? Flow::leave_loop : Flow::next_item;
}

void Evaluator::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const std::vector<Value> items = items_of(runtime_, value);
    if (items.size() != target.parts.size())
      fail(ErrorKind::invalid_argument, items.size(), " values for ", target.parts.size(), " names");
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  } else if (target.attribute.empty()) {
    scopes_.back().names[target.name] = value;
  } else {
    Namespace* space = evaluate(Name{target.name}).as_namespace();
    if (!space) fail(ErrorKind::invalid_argument, in_quotes(target.name), " is not a namespace");
    space->values.set(target.attribute, value);
  }
}

// Expressions.

Value Evaluator::evaluate(const Expression& expression) {
  return located(expression.at, [&] {
    const DepthGuard depth(*this);
    runtime_.spend_steps(1);
    return std::visit([&](const auto& node) { return evaluate(node); }, expression.node);
  });
}

Value Evaluator::evaluate_optional(const ExpressionPtr& expression) {
  return expression ? evaluate(*expression) : Value();
}

Value Evaluator::loop_variable(const LoopState& loop) {
  const auto index = static_cast<int64_t>(loop.at), length = static_cast<int64_t>(loop.items.size());
  static const Builtin kCycle{"cycle", cycle, {}, true};
  Map map;
  map.set("index0", Value::integer(index));
  map.set("index", Value::integer(index + 1));
  map.set("revindex0", Value::integer(length - index - 1));
  map.set("revindex", Value::integer(length - index));
  map.set("first", Value::boolean(index == 0));
  map.set("last", Value::boolean(index == length - 1));
  map.set("length", Value::integer(length));
  map.set("previtem", index == 0 ? Value() : loop.items[loop.at - 1]);
  map.set("nextitem", index == length - 1 ? Value() : loop.items[loop.at + 1]);
  map.set("cycle", Value::callable(
                       std::make_shared<const Callable>(Callable{nullptr, &kCycle, Value::integer(index)})));
  return Value::map(std::move(map));
}

Value Evaluator::evaluate(const Name& name) {
  const auto find_in = [&](const Scope& scope) -> const Value* {
    const auto found = scope.names.find(name.name);
    return found == scope.names.end() ? nullptr : &found->second;
  };
  for (std::size_t i = scopes_.size(); i-- > first_visible_;) {
    if (scopes_[i].loop && name.name == "loop") return loop_variable(*scopes_[i].loop);
    if (const Value* value = find_in(scopes_[i])) return *value;
  }
  if (const Value* value = find_in(scopes_.front())) return *value;
  if (const Value* value = variables_.find(name.name)) return *value;
  if (const Builtin* function = find_function(name.name))
    return Value::callable(std::make_shared<const Callable>(Callable{nullptr, function, {}}));
  return {};
}

Value Evaluator::evaluate(const ListDisplay& list) {
  std::vector<Value> items;
  for (const ExpressionPtr& item : list.items) items.push_back(evaluate(*item));
  return runtime_.list(std::move(items), list.kind);
}

Value Evaluator::evaluate(const MapDisplay& display) {
  Map map;
  for (const auto& [key, value] : display.entries) {
    runtime_.spend_steps(8);
    const Value key_value = evaluate(*key);
    const MarkedText& name = text_argument(key_value, "the key of a mapping");
    runtime_.spend_bytes(name.size());
    map.set(name, evaluate(*value));
  }
  return Value::map(std::move(map));
}

Value Evaluator::evaluate(const Attribute& node) {
  const Value object = evaluate(*node.object);
  require_defined(object, *node.object);
  return attribute(object, node.name);
}

Value Evaluator::evaluate(const Item& node) {
  const Value object = evaluate(*node.object);
  require_defined(object, *node.object);
  return subscript(runtime_, object, evaluate(*node.index));
}

Value Evaluator::evaluate(const Slice& node) {
  const Value object = evaluate(*node.object);
  require_defined(object, *node.object);
  const Value begin = evaluate_optional(node.begin), end = evaluate_optional(node.end);
  return slice(runtime_, object, begin, end, evaluate_optional(node.step));
}

CallArguments Evaluator::evaluate(const Arguments& arguments) {
  CallArguments values;
  for (const ExpressionPtr& argument : arguments.positional) values.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(*argument));
  return values;
}

Value Evaluator::evaluate(const Call& node) {
  const Value callee = evaluate(*node.callee);
  require_defined(callee, *node.callee);
  const Callable* callable = callee.as_callable();
  if (!callable)
    fail(ErrorKind::invalid_argument, in_quotes(describe(*node.callee)), " is ", callee.type_name(),
         ", not a function");
  CallArguments arguments = evaluate(node.arguments);
  if (callable->macro) return call_macro(*callable->macro, std::move(arguments));
  return call_builtin(runtime_, *callable->builtin, callable->self, std::move(arguments));
}

/// The text that the macro writes.
Value Evaluator::call_macro(const Macro& macro, CallArguments arguments) {
  const std::size_t given = arguments.positional.size();
  if (given > macro.parameters.size())
    fail(ErrorKind::invalid_argument, macro.name, "() takes ", macro.parameters.size(), " arguments, not ",
         given);
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::ranges::find(macro.parameters, name, &Macro::Parameter::name);
    if (parameter == macro.parameters.end() ||
        static_cast<std::size_t>(parameter - macro.parameters.begin()) < given)
      fail(ErrorKind::invalid_argument, macro.name, "() takes no further argument ", in_quotes(name));
  }
  const std::size_t outer_visible = std::exchange(first_visible_, scopes_.size());
  MarkedText text = captured([&] {
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const Macro::Parameter& parameter = macro.parameters[i];
      const auto named =
          std::ranges::find(arguments.named, parameter.name, &std::pair<std::string_view, Value>::first);
      Value value = i < given                        ? arguments.positional[i]
                    : named != arguments.named.end() ? named->second
                                                     : evaluate_optional(parameter.default_value);
      scopes_.back().names[parameter.name] = std::move(value);
    }
    run(macro.body);
  });
  first_visible_ = outer_visible;
  return runtime_.text(std::move(text));
}

Value Evaluator::evaluate(const Filter& node) {
  Value input = node.input ? evaluate(*node.input) : std::move(filter_input_);
  return call_builtin(runtime_, *node.filter, std::move(input), evaluate(node.arguments));
}

Value Evaluator::evaluate(const Test& node) {
  Value input = evaluate(*node.input);
  const Value result = call_builtin(runtime_, *node.test, std::move(input), evaluate(node.arguments));
  return Value::boolean(result.truth() != node.negated);
}

Value Evaluator::evaluate(const Not& node) { return Value::boolean(!evaluate(*node.operand).truth()); }

Value Evaluator::evaluate(const Sign& node) {
  const Value operand = evaluate(*node.operand);
  const Value negative = negated(operand);
  return node.sign == '-' ? negative : negated(negative);
}

Value Evaluator::evaluate(const Logic& node) {
  Value left = evaluate(*node.left);
  return left.truth() == node.is_and ? evaluate(*node.right) : left;
}

Value Evaluator::evaluate(const Arithmetic& node) {
  const Value left = evaluate(*node.left);
  return arithmetic(runtime_, node.operation, left, evaluate(*node.right));
}

Value Evaluator::evaluate(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& [operation, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(runtime_, operation, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::evaluate(const Conditional& node) {
  if (evaluate(*node.condition).truth()) return evaluate(*node.value);
  return evaluate_optional(node.otherwise);
}

}  // namespace carat::jinja
