// The part of the parser that reads expressions; jinja_parser.cc reads statements with it.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/jinja_ast.h"

namespace carat::jinja {

class ExpressionParser {
 public:
  /// `tokens` ends with Token::Kind::end and outlives the parser.
  ExpressionParser(std::span<const Token> tokens, const std::string& name) : tokens_(tokens), name_(name) {}

  /// value, or value, value, ... which is a tuple.
  ExpressionPtr parse_tuple();
  /// The same without "a if b": what stands behind `in` of a for statement.
  ExpressionPtr parse_loop_items();
  ExpressionPtr parse_conditional();
  /// filter | filter ... behind a {% filter %} or {% set name | %}.
  ExpressionPtr parse_filters();

  const Token& peek() const { return tokens_[at_]; }
  const Token& next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool at_symbol(std::string_view symbol) const {
    return peek().kind == Token::Kind::symbol && peek().text == symbol;
  }
  bool at_name(std::string_view name) const {
    return peek().kind == Token::Kind::name && peek().text == name;
  }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  std::string expect_name(std::string_view what);
  void expect(Token::Kind kind, std::string_view what);

  template <class... Parts>
  [[noreturn]] void reject(ErrorKind kind, Position at, const Parts&... parts) const {
    fail(kind, name_, ":", at.line, ":", at.column, ": ", parts...);
  }
  [[noreturn]] void reject_token(std::string_view expected) const;

  /// Counts what is open around the current token; brackets, blocks and operators nest no deeper than
  /// kMaxNesting.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  static constexpr int kMaxNesting = 100;
  static constexpr int kMaxDepth = 400;  // of an expression: long chains of operators are deep trees

  static constexpr std::size_t kMaxArguments = 100;

  template <class Node>
  ExpressionPtr make(Position at, int depth, Node node);

  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_arithmetic(std::size_t level);
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name_or_constant();
  ExpressionPtr parse_string();
  ExpressionPtr parse_number();
  ExpressionPtr parse_parentheses();
  ExpressionPtr parse_list();
  ExpressionPtr parse_map();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_subscript(ExpressionPtr object, Position at);
  ExpressionPtr parse_call(ExpressionPtr callee, Position at);
  ExpressionPtr parse_attribute(ExpressionPtr object, Position at);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr value);
  ExpressionPtr parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input, Position at);
  Arguments parse_arguments();
  ExpressionPtr parse_rest_of_tuple(ExpressionPtr first, Position at, bool with_conditionals);
  bool at_operator(std::span<const std::string_view> operators) const;
  bool begins_test_argument() const;

  std::span<const Token> tokens_;
  const std::string& name_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace carat::jinja
