// Cuts the source of a template into tokens, by the rules of Jinja with trim_blocks and lstrip_blocks, the
// way chat templates are written for. Used by the parser.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace carat::jinja {

struct Position {
  int line = 1, column = 1;  // from 1; columns count bytes
};

struct Token {
  enum class Kind {
    text,  // between tags, white space already trimmed
    output_begin,
    output_end,  // {{ }}
    tag_begin,
    tag_end,  // {% %}
    name,
    string,  // with its escapes resolved
    integer,
    number,
    symbol,
    end
  };
  Kind kind;
  std::string text;
  Position at;
};

/// The last token is `end`. Invalid UTF-8 is replaced and line ends become \n. Throws Error{corrupt} with
/// `name`, line and column for a tag, comment or string that does not end and for characters that mean
/// nothing.
std::vector<Token> tokenize(std::string_view source, const std::string& name);

}  // namespace carat::jinja
