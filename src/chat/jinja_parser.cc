#include "chat/jinja_parser.h"

#include <utility>

#include "base/utf8.h"
#include "chat/jinja_expressions.h"

namespace carat::jinja {
namespace {

using Kind = Token::Kind;

class StatementParser {
 public:
  StatementParser(std::span<const Token> tokens, const std::string& name) : in_(tokens, name) {}

  Block parse() {
    Block block = parse_block({});
    if (in_.peek().kind != Kind::end) in_.reject_token("the end of the template");
    return block;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  /// Statements up to a tag that begins with one of `ends`; its {% and name are read, its rest is not.
  Block parse_block(Names ends) {
    const ExpressionParser::Nesting nesting(in_);
    Block block;
    while (in_.peek().kind != Kind::end) {
      const Token& token = in_.peek();
      if (token.kind == Kind::text) {
        block.push_back({token.at, Text{MarkedText(in_.next().text, Origin::chat_template)}});
      } else if (token.kind == Kind::output_begin) {
        in_.next();
        block.push_back({token.at, Output{in_.parse_tuple()}});
        in_.expect(Kind::output_end, "'}}'");
      } else {
        in_.expect(Kind::tag_begin, "'{%'");
        ended_by_ = in_.expect_name("the name of a statement");
        for (const std::string_view end : ends)
          if (ended_by_ == end) return block;
        parse_statement(token.at, ended_by_, block);
      }
    }
    if (ends.size() > 0) in_.reject_token("{% " + std::string(*(ends.end() - 1)) + " %}");
    return block;
  }

  void parse_statement(Position at, const std::string& name, Block& block) {
    if (name == "if") {
      block.push_back({at, parse_if()});
    } else if (name == "for") {
      block.push_back({at, parse_for()});
    } else if (name == "set") {
      parse_set(at, block);
    } else if (name == "macro") {
      block.push_back({at, parse_macro(at)});
    } else if (name == "filter") {
      block.push_back({at, parse_filter_block()});
    } else if (name == "generation") {  // marks what the model writes, for training; renders as it stands
      end_tag();
      for (Statement& statement : parse_block({"endgeneration"})) block.push_back(std::move(statement));
      end_tag();
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) in_.reject(ErrorKind::corrupt, at, "{% ", name, " %} outside a loop");
      end_tag();
      block.push_back({at, LoopControl{name == "break"}});
    } else {
      in_.reject(ErrorKind::unsupported, at, "no statement ", in_quotes(name), " here");
    }
  }

  void end_tag() { in_.expect(Kind::tag_end, "'%}'"); }

  If parse_if() {
    If statement;
    do {
      ExpressionPtr condition = ended_by_ == "else" ? nullptr : in_.parse_conditional();
      end_tag();
      const bool last = !condition;
      Block body = last ? parse_block({"endif"}) : parse_block({"elif", "else", "endif"});
      statement.branches.push_back({std::move(condition), std::move(body)});
    } while (ended_by_ != "endif");
    end_tag();
    return statement;
  }

  For parse_for() {
    For loop;
    loop.target = parse_target(false);
    if (!in_.skip_name("in")) in_.reject_token("'in'");
    loop.items = in_.parse_loop_items();
    if (in_.skip_name("if")) loop.condition = in_.parse_conditional();
    if (in_.at_name("recursive"))
      in_.reject(ErrorKind::unsupported, in_.peek().at, "recursive loops are not supported; use a macro");
    end_tag();
    ++loops_, ++scopes_;
    loop.body = parse_block({"else", "endfor"});
    --loops_;
    if (ended_by_ == "else") {
      end_tag();
      loop.otherwise = parse_block({"endfor"});
    }
    --scopes_;
    end_tag();
    return loop;
  }

  /// name, (name, name), or with `may_be_attribute` also namespace.name.
  Target parse_target(bool may_be_attribute) {
    Target first = parse_single_target(may_be_attribute);
    if (!in_.at_symbol(",")) return first;
    Target list;
    list.parts.push_back(std::move(first));
    while (in_.skip_symbol(",")) {
      if (in_.at_name("in") || in_.at_symbol("=") || in_.at_symbol(")")) break;
      list.parts.push_back(parse_single_target(may_be_attribute));
    }
    return list;
  }

  Target parse_single_target(bool may_be_attribute) {
    if (in_.skip_symbol("(")) {
      const ExpressionParser::Nesting nesting(in_);
      Target target = parse_target(may_be_attribute);
      in_.expect_symbol(")");
      return target;
    }
    const Position at = in_.peek().at;
    Target target{in_.expect_name("a name"), {}, {}};
    for (const std::string_view constant : {"true", "True", "false", "False", "none", "None", "loop"})
      if (target.name == constant)
        in_.reject(ErrorKind::corrupt, at, "nothing can be assigned to ", in_quotes(target.name));
    if (may_be_attribute && in_.skip_symbol(".")) target.attribute = in_.expect_name("a name");
    return target;
  }

  void parse_set(Position at, Block& block) {
    Target target = parse_target(true);
    if (in_.skip_symbol("=")) {
      block.push_back({at, Set{std::move(target), in_.parse_tuple()}});
      end_tag();
      return;
    }
    SetBlock set{std::move(target), in_.skip_symbol("|") ? in_.parse_filters() : nullptr, {}};
    set.body = parse_captured("endset");
    block.push_back({at, std::move(set)});
  }

  FilterBlock parse_filter_block() {
    FilterBlock filter{in_.parse_filters(), {}};
    filter.body = parse_captured("endfilter");
    return filter;
  }

  /// The body of a block whose text becomes a value: no break or continue leaves it.
  Block parse_captured(std::string_view end) {
    end_tag();
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    Block body = parse_block({end});
    --scopes_;
    loops_ = loops;
    end_tag();
    return body;
  }

  /// Only where its variables are the template's: a macro sees those and its own, and no others.
  Macro parse_macro(Position at) {
    if (scopes_ > 0)
      in_.reject(ErrorKind::unsupported, at, "a macro is only supported at the top of a template");
    Macro macro;
    macro.name = in_.expect_name("the name of the macro");
    in_.expect_symbol("(");
    while (!in_.at_symbol(")")) {
      if (!macro.parameters.empty()) in_.expect_symbol(",");
      if (in_.at_symbol(")")) break;
      Macro::Parameter parameter{in_.expect_name("the name of a parameter"), nullptr};
      if (in_.skip_symbol("=")) parameter.default_value = in_.parse_conditional();
      macro.parameters.push_back(std::move(parameter));
    }
    in_.next();
    macro.body = parse_captured("endmacro");
    return macro;
  }

  ExpressionParser in_;
  std::string ended_by_;  // the name of the tag that was read last
  int loops_ = 0;         // around here, that a break would leave
  int scopes_ = 0;        // around here, besides the template's own
};

}  // namespace

Block parse_template(std::string_view source, const std::string& name) {
  const std::vector<Token> tokens = tokenize(source, name);
  return StatementParser(tokens, name).parse();
}

}  // namespace carat::jinja
