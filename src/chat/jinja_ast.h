// What a template says, as a tree: made by the parser, walked by the evaluator, never changed.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/jinja_lexer.h"
#include "chat/value.h"

namespace carat::jinja {

struct Builtin;  // a filter or test; jinja_runtime.h
struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  ListKind kind;
};
struct MapDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Item {  // object[index]
  ExpressionPtr object, index;
};
struct Slice {  // object[begin:end:step], each null where nothing stands
  ExpressionPtr object, begin, end, step;
};
struct Call {
  ExpressionPtr callee;
  Arguments arguments;
};
struct Filter {  // input | filter(arguments); in a {% filter %} block the innermost input is null
  ExpressionPtr input;
  const Builtin* filter;
  Arguments arguments;
};
struct Test {  // input is test(arguments)
  ExpressionPtr input;
  const Builtin* test;
  Arguments arguments;
  bool negated;
};
struct Not {
  ExpressionPtr operand;
};
struct Sign {  // +operand, -operand
  char sign;
  ExpressionPtr operand;
};
struct Logic {  // gives one of its operands, as in Python
  bool is_and;
  ExpressionPtr left, right;
};
struct Arithmetic {
  std::string operation;  // + - * / // % ** ~
  ExpressionPtr left, right;
};
struct Comparison {  // a < b < c compares neighbours
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> rest;  // == != < <= > >= in, not in
};
struct Conditional {  // value if condition else otherwise; without else undefined
  ExpressionPtr condition, value, otherwise;
};

struct Expression {
  Position at;
  int depth;  // of the tree below, plus one
  std::variant<Literal, Name, ListDisplay, MapDisplay, Attribute, Item, Slice, Call, Filter, Test, Not, Sign,
               Logic, Arithmetic, Comparison, Conditional>
      node;
};

struct Statement;
using Block = std::vector<Statement>;

/// Where a value goes: a name, an attribute of a namespace, or several of these for a list of values.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
};

struct Text {
  MarkedText text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  struct Branch {
    ExpressionPtr condition;  // null for else
    Block body;
  };
  std::vector<Branch> branches;
};
struct For {
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // of the items that count; may be null
  Block body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {  // {% set target | filter %} body {% endset %}
  Target target;
  ExpressionPtr filters;  // may be null
  Block body;
};
struct FilterBlock {
  ExpressionPtr filters;
  Block body;
};
struct Macro {
  struct Parameter {
    std::string name;
    ExpressionPtr default_value;  // may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
};
struct LoopControl {
  bool is_break;  // else continue
};

struct Statement {
  Position at;
  std::variant<Text, Output, If, For, Set, SetBlock, FilterBlock, Macro, LoopControl> node;
};

}  // namespace carat::jinja
