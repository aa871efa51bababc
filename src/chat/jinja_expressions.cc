#include "chat/jinja_expressions.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"
#include "chat/jinja_runtime.h"

namespace carat::jinja {
namespace {

using namespace std::literals;

// Operators of arithmetic_levels[i] bind tighter than those before; all group from the left, even **.
constexpr std::array<std::string_view, 2> kSums = {"+"sv, "-"sv};
constexpr std::array<std::string_view, 1> kConcatenation = {"~"sv};
constexpr std::array<std::string_view, 4> kProducts = {"*"sv, "/"sv, "//"sv, "%"sv};
constexpr std::array<std::string_view, 1> kPowers = {"**"sv};
constexpr std::array<std::span<const std::string_view>, 4> kArithmeticLevels = {kSums, kConcatenation,
                                                                                kProducts, kPowers};
constexpr std::array<std::string_view, 6> kComparisons = {"=="sv, "!="sv, "<"sv, "<="sv, ">"sv, ">="sv};

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }
int depth_of(const std::vector<ExpressionPtr>& list) {
  int depth = 0;
  for (const ExpressionPtr& expression : list) depth = std::max(depth, depth_of(expression));
  return depth;
}
template <class First>
int depth_of(const std::vector<std::pair<First, ExpressionPtr>>& pairs) {
  int depth = 0;
  for (const auto& [first, second] : pairs) {
    depth = std::max(depth, depth_of(second));
    if constexpr (std::is_same_v<First, ExpressionPtr>) depth = std::max(depth, depth_of(first));
  }
  return depth;
}
int depth_of(const Arguments& arguments) {
  return std::max(depth_of(arguments.positional), depth_of(arguments.named));
}

template <class... Parts>
int deepest(const Parts&... parts) {
  return std::max({0, depth_of(parts)...});
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting)
    parser_.reject(ErrorKind::unsupported, parser_.peek().at, "nested deeper than ", kMaxNesting, " levels");
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
  const bool found = at_symbol(symbol);
  if (found) next();
  return found;
}

bool ExpressionParser::skip_name(std::string_view name) {
  const bool found = at_name(name);
  if (found) next();
  return found;
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) reject_token("'" + std::string(symbol) + "'");
}

std::string ExpressionParser::expect_name(std::string_view what) {
  if (peek().kind != Token::Kind::name) reject_token(what);
  return next().text;
}

void ExpressionParser::expect(Token::Kind kind, std::string_view what) {
  if (peek().kind != kind) reject_token(what);
  next();
}

void ExpressionParser::reject_token(std::string_view expected) const {
  const Token& token = peek();
  switch (token.kind) {
    case Token::Kind::end:
      reject(ErrorKind::corrupt, token.at, "the template ends, expected ", expected);
    case Token::Kind::tag_end:
    case Token::Kind::output_end:
      reject(ErrorKind::corrupt, token.at, "the tag ends, expected ", expected);
    default:
      reject(ErrorKind::corrupt, token.at, "unexpected ", in_quotes(token.text), ", expected ", expected);
  }
}

template <class Node>
ExpressionPtr ExpressionParser::make(Position at, int depth, Node node) {
  if (depth >= kMaxDepth)
    reject(ErrorKind::unsupported, at, "an expression of more than ", kMaxDepth, " operators in a row");
  return std::make_unique<const Expression>(Expression{at, depth + 1, std::move(node)});
}

ExpressionPtr ExpressionParser::parse_tuple() {
  const Position at = peek().at;
  return parse_rest_of_tuple(parse_conditional(), at, true);
}

ExpressionPtr ExpressionParser::parse_loop_items() {
  const Position at = peek().at;
  return parse_rest_of_tuple(parse_or(), at, false);
}

ExpressionPtr ExpressionParser::parse_rest_of_tuple(ExpressionPtr first, Position at,
                                                    bool with_conditionals) {
  if (!at_symbol(",")) return first;
  ListDisplay tuple{{}, ListKind::tuple};
  tuple.items.push_back(std::move(first));
  while (skip_symbol(",")) {
    const Token::Kind kind = peek().kind;
    if (at_symbol(")") || kind == Token::Kind::tag_end || kind == Token::Kind::output_end) break;
    tuple.items.push_back(with_conditionals ? parse_conditional() : parse_or());
  }
  const int depth = deepest(tuple.items);
  return make(at, depth, std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_conditional() {
  const Nesting nesting(*this);
  ExpressionPtr value = parse_or();
  while (at_name("if")) {
    const Position at = next().at;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = skip_name("else") ? parse_conditional() : nullptr;
    const int depth = deepest(value, condition, otherwise);
    value = make(at, depth, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (at_name("or")) {
    const Position at = next().at;
    ExpressionPtr right = parse_and();
    const int depth = deepest(left, right);
    left = make(at, depth, Logic{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (at_name("and")) {
    const Position at = next().at;
    ExpressionPtr right = parse_not();
    const int depth = deepest(left, right);
    left = make(at, depth, Logic{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!at_name("not")) return parse_comparison();
  const Nesting nesting(*this);
  const Position at = next().at;
  ExpressionPtr operand = parse_not();
  const int depth = deepest(operand);
  return make(at, depth, Not{std::move(operand)});
}

bool ExpressionParser::at_operator(std::span<const std::string_view> operators) const {
  return peek().kind == Token::Kind::symbol && std::ranges::find(operators, peek().text) != operators.end();
}

ExpressionPtr ExpressionParser::parse_comparison() {
  const Position at = peek().at;
  ExpressionPtr first = parse_arithmetic(0);
  Comparison comparison;
  while (true) {
    std::string operation;
    if (at_operator(kComparisons)) {
      operation = next().text;
    } else if (skip_name("in")) {
      operation = "in";
    } else if (at_name("not") && tokens_[at_ + 1].kind == Token::Kind::name &&
               tokens_[at_ + 1].text == "in") {
      next(), next();
      operation = "not in";
    } else {
      break;
    }
    comparison.rest.emplace_back(std::move(operation), parse_arithmetic(0));
  }
  if (comparison.rest.empty()) return first;
  comparison.first = std::move(first);
  const int depth = deepest(comparison.first, comparison.rest);
  return make(at, depth, std::move(comparison));
}

ExpressionPtr ExpressionParser::parse_arithmetic(std::size_t level) {
  if (level == kArithmeticLevels.size()) return parse_unary(true);
  ExpressionPtr left = parse_arithmetic(level + 1);
  while (at_operator(kArithmeticLevels[level])) {
    const Token& operation = next();
    ExpressionPtr right = parse_arithmetic(level + 1);
    const int depth = deepest(left, right);
    left = make(operation.at, depth, Arithmetic{operation.text, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr value;
  if (at_symbol("-") || at_symbol("+")) {
    const Nesting nesting(*this);
    const Token& sign = next();
    ExpressionPtr operand = parse_unary(false);
    const int depth = deepest(operand);
    value = make(sign.at, depth, Sign{sign.text[0], std::move(operand)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  switch (peek().kind) {
    case Token::Kind::name:
      return parse_name_or_constant();
    case Token::Kind::string:
      return parse_string();
    case Token::Kind::integer:
    case Token::Kind::number:
      return parse_number();
    default:
      break;
  }
  if (at_symbol("(")) return parse_parentheses();
  if (at_symbol("[")) return parse_list();
  if (at_symbol("{")) return parse_map();
  reject_token("a value");
}

ExpressionPtr ExpressionParser::parse_name_or_constant() {
  const Token& token = next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.at, 0, Literal{Value::boolean(true)});
  if (name == "false" || name == "False") return make(token.at, 0, Literal{Value::boolean(false)});
  if (name == "none" || name == "None") return make(token.at, 0, Literal{Value::none()});
  return make(token.at, 0, Name{name});
}

/// Strings side by side are one string.
ExpressionPtr ExpressionParser::parse_string() {
  const Position at = peek().at;
  std::string text;
  while (peek().kind == Token::Kind::string) text += next().text;
  return make(at, 0, Literal{Value::text(text, Origin::chat_template)});
}

ExpressionPtr ExpressionParser::parse_number() {
  const Token& token = next();
  const char* const end = token.text.data() + token.text.size();
  int64_t integer = 0;
  double number = 0;
  const bool is_integer = token.kind == Token::Kind::integer;
  const auto parsed = is_integer ? std::from_chars(token.text.data(), end, integer)
                                 : std::from_chars(token.text.data(), end, number);
  if (parsed.ec != std::errc{}) reject(ErrorKind::unsupported, token.at, "a number too large: ", token.text);
  return make(token.at, 0, Literal{is_integer ? Value::integer(integer) : Value::number(number)});
}

ExpressionPtr ExpressionParser::parse_parentheses() {
  const Position at = next().at;
  if (skip_symbol(")")) return make(at, 0, ListDisplay{{}, ListKind::tuple});
  ExpressionPtr value = parse_tuple();
  expect_symbol(")");
  return value;
}

ExpressionPtr ExpressionParser::parse_list() {
  const Position at = next().at;
  ListDisplay list{{}, ListKind::list};
  while (!at_symbol("]")) {
    if (!list.items.empty()) expect_symbol(",");
    if (at_symbol("]")) break;
    list.items.push_back(parse_conditional());
  }
  next();
  const int depth = deepest(list.items);
  return make(at, depth, std::move(list));
}

ExpressionPtr ExpressionParser::parse_map() {
  const Position at = next().at;
  MapDisplay map;
  while (!at_symbol("}")) {
    if (!map.entries.empty()) expect_symbol(",");
    if (at_symbol("}")) break;
    ExpressionPtr key = parse_conditional();
    expect_symbol(":");
    map.entries.emplace_back(std::move(key), parse_conditional());
  }
  next();
  const int depth = deepest(map.entries);
  return make(at, depth, std::move(map));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    const Position at = peek().at;
    if (skip_symbol(".")) {
      value = parse_attribute(std::move(value), at);
    } else if (skip_symbol("[")) {
      value = parse_subscript(std::move(value), at);
    } else if (at_symbol("(")) {
      value = parse_call(std::move(value), at);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee, Position at) {
  Arguments arguments = parse_arguments();
  const int depth = deepest(callee, arguments);
  return make(at, depth, Call{std::move(callee), std::move(arguments)});
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object, Position at) {
  const int depth = deepest(object);
  if (peek().kind == Token::Kind::integer) {
    ExpressionPtr index = parse_number();
    return make(at, depth, Item{std::move(object), std::move(index)});
  }
  return make(at, depth, Attribute{std::move(object), expect_name("a name")});
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object, Position at) {
  Slice parts;
  ExpressionPtr* const part[] = {&parts.begin, &parts.end, &parts.step};
  std::size_t colons = 0;
  while (!at_symbol("]")) {
    if (at_symbol(":") && colons < 2) {
      next();
      ++colons;
    } else if (!*part[colons]) {
      *part[colons] = parse_conditional();
    } else {
      reject_token("']'");
    }
  }
  if (colons == 0 && !parts.begin) reject_token("an index");
  next();
  const int depth = deepest(object, parts.begin, parts.end, parts.step);
  if (colons == 0) return make(at, depth, Item{std::move(object), std::move(parts.begin)});
  parts.object = std::move(object);
  return make(at, depth, std::move(parts));
}

Arguments ExpressionParser::parse_arguments() {
  const Nesting nesting(*this);
  expect_symbol("(");
  Arguments arguments;
  bool first = true;
  while (!at_symbol(")")) {
    if (!std::exchange(first, false)) expect_symbol(",");
    if (at_symbol(")")) break;
    if (arguments.positional.size() + arguments.named.size() == kMaxArguments)
      reject(ErrorKind::unsupported, peek().at, "more than ", kMaxArguments, " arguments");
    if (at_symbol("*") || at_symbol("**"))
      reject(ErrorKind::unsupported, peek().at, "arguments unpacked with * are not supported");
    const Token& following = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    if (peek().kind == Token::Kind::name && following.kind == Token::Kind::symbol && following.text == "=") {
      std::string name = next().text;
      next();
      arguments.named.emplace_back(std::move(name), parse_conditional());
    } else {
      if (!arguments.named.empty()) reject_token("name=value");
      arguments.positional.push_back(parse_conditional());
    }
  }
  next();
  return arguments;
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr value) {
  while (true) {
    const Position at = peek().at;
    if (skip_symbol("|")) {
      value = parse_filter(std::move(value));
    } else if (skip_name("is")) {
      value = parse_test(std::move(value), at);
    } else if (at_symbol("(")) {
      value = parse_call(std::move(value), at);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input) {
  const Position at = peek().at;
  const std::string name = expect_name("the name of a filter");
  const Builtin* filter = find_filter(name);
  if (!filter) reject(ErrorKind::unsupported, at, "no filter ", in_quotes(name));
  Arguments arguments = at_symbol("(") ? parse_arguments() : Arguments{};
  const int depth = deepest(input, arguments);
  return make(at, depth, Filter{std::move(input), filter, std::move(arguments)});
}

ExpressionPtr ExpressionParser::parse_filters() {
  ExpressionPtr filters;
  do {
    filters = parse_filter(std::move(filters));
  } while (skip_symbol("|"));
  return filters;
}

/// A test may take one argument without parentheses: x is divisibleby 3.
bool ExpressionParser::begins_test_argument() const {
  switch (peek().kind) {
    case Token::Kind::name:
      return !at_name("else") && !at_name("or") && !at_name("and") && !at_name("is") && !at_name("if");
    case Token::Kind::string:
    case Token::Kind::integer:
    case Token::Kind::number:
      return true;
    default:
      return at_symbol("[") || at_symbol("{");
  }
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input, Position at) {
  const bool negated = skip_name("not");
  const Position name_at = peek().at;
  const std::string name = expect_name("the name of a test");
  const Builtin* test = find_test(name);
  if (!test) reject(ErrorKind::unsupported, name_at, "no test ", in_quotes(name));
  Arguments arguments;
  if (at_symbol("(")) {
    arguments = parse_arguments();
  } else if (begins_test_argument()) {
    const Nesting nesting(*this);
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  const int depth = deepest(input, arguments);
  return make(at, depth, Test{std::move(input), test, std::move(arguments), negated});
}

}  // namespace carat::jinja
