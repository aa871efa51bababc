#include "chat/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "chat/python_text.h"
#include "text/unicode.h"

namespace carat::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_character(char c) { return is_name_start(c) || is_digit(c); }
bool is_tag_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\v' || c == '\f'; }

std::string normalized(std::string_view source) {
  const std::string valid = replace_invalid_utf8(source);
  std::string text;
  text.reserve(valid.size());
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == '\r' && i + 1 < valid.size() && valid[i + 1] == '\n') continue;
    text += valid[i] == '\r' ? '\n' : valid[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name) : source_(normalized(source)), name_(name) {
    line_starts_.push_back(0);
    for (std::size_t i = 0; i < source_.size(); ++i)
      if (source_[i] == '\n') line_starts_.push_back(i + 1);
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(Token::Kind::end, {}, at_);
    return std::move(tokens_);
  }

 private:
  using Kind = Token::Kind;

  Position position(std::size_t at) const {
    const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), at) - line_starts_.begin();
    const std::size_t start = line_starts_[static_cast<std::size_t>(line - 1)];
    return {static_cast<int>(line), static_cast<int>(at - start) + 1};
  }
  template <class... Parts>
  [[noreturn]] void reject(std::size_t at, const Parts&... parts) const {
    const Position where = position(at);
    fail(ErrorKind::corrupt, name_, ":", where.line, ":", where.column, ": ", parts...);
  }
  void add(Kind kind, std::string text, std::size_t at) {
    tokens_.push_back({kind, std::move(text), position(at)});
  }
  bool looking_at(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  /// Text up to the next tag, then the tag.
  void read_text() {
    const std::size_t begin = at_;
    std::size_t open = source_.find('{', at_);
    while (open != source_.npos && (open + 1 == source_.size() || !is_opener(source_[open + 1])))
      open = source_.find('{', open + 1);
    if (open == source_.npos) {
      add_text(begin, source_.size());
      at_ = source_.size();
      return;
    }
    const char opener = source_[open + 1];
    at_ = open + 2;
    const char sign = peek() == '-' || peek() == '+' ? peek() : '\0';
    if (sign != '\0') ++at_;
    add_text(begin, trimmed_end(begin, open, opener, sign));
    if (opener == '#')
      skip_comment(open);
    else if (opener == '%' && raw_tag_follows())
      read_raw(open);
    else
      read_tag(open, opener == '{');
  }

  static bool is_opener(char c) { return c == '{' || c == '%' || c == '#'; }

  /// Where the text before a tag ends: "-" takes all white space away, lstrip_blocks the blanks between the
  /// beginning of a line and a tag that prints nothing.
  std::size_t trimmed_end(std::size_t begin, std::size_t end, char opener, char sign) const {
    const std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') return begin + strip_right(text).size();
    if (sign == '+' || opener == '{') return end;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == text.npos ? 0 : newline + 1;
    const bool at_line_start = line > 0 || begin == 0 || source_[begin - 1] == '\n';
    return at_line_start && strip_right(text.substr(line)).empty() ? begin + line : end;
  }

  void add_text(std::size_t begin, std::size_t end) {
    if (end > begin) add(Kind::text, source_.substr(begin, end - begin), begin);
  }

  void skip_white_space() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    at_ += rest.size() - strip_left(rest).size();
  }

  /// Behind a closing tag: "-" takes all white space away, trim_blocks one newline.
  void skip_after(char sign, bool trims_newline) {
    if (sign == '-')
      skip_white_space();
    else if (sign != '+' && trims_newline && peek() == '\n')
      ++at_;
  }

  void skip_comment(std::size_t open) {
    const std::size_t close = source_.find("#}", at_);
    if (close == source_.npos) reject(open, "this comment does not end");
    const char last = close > at_ ? source_[close - 1] : '\0';
    at_ = close + 2;
    skip_after(last, true);
  }

  /// Whether the tag at at_ is `word`, with nothing else in it; then moves behind it.
  bool skip_word_tag(std::string_view word, char& closing_sign) {
    std::size_t end = at_;
    const auto skip_blanks = [&] {
      while (end < source_.size() && is_tag_space(source_[end])) ++end;
    };
    skip_blanks();
    if (source_.compare(end, word.size(), word) != 0) return false;
    end += word.size();
    skip_blanks();
    closing_sign = end < source_.size() && (source_[end] == '-' || source_[end] == '+') ? source_[end] : '\0';
    if (closing_sign != '\0') ++end;
    if (source_.compare(end, 2, "%}") != 0) return false;
    at_ = end + 2;
    return true;
  }

  bool raw_tag_follows() {
    char sign = '\0';
    if (!skip_word_tag("raw", sign)) return false;
    skip_after(sign, false);
    return true;
  }

  void read_raw(std::size_t open) {
    const std::size_t begin = at_;
    for (std::size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 2)) {
      at_ = tag + 2;
      const char sign = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (sign != '\0') ++at_;
      char closing_sign = '\0';
      if (!skip_word_tag("endraw", closing_sign)) continue;
      add_text(begin, trimmed_end(begin, tag, '%', sign));
      skip_after(closing_sign, true);
      return;
    }
    reject(open, "{% raw %} without {% endraw %}");
  }

  void read_tag(std::size_t open, bool output) {
    add(output ? Kind::output_begin : Kind::tag_begin, {}, open);
    const std::string_view close = output ? "}}" : "%}";
    std::string brackets;  // that are open; a tag does not end inside them
    while (true) {
      while (at_ < source_.size() && is_tag_space(source_[at_])) ++at_;
      if (at_ == source_.size()) reject(open, "this tag does not end");
      if (brackets.empty()) {
        const char sign = peek() == '-' || (!output && peek() == '+') ? peek() : '\0';
        const std::size_t begin = at_;
        if (sign != '\0') ++at_;
        if (looking_at(close)) {
          at_ += 2;
          add(output ? Kind::output_end : Kind::tag_end, {}, begin);
          skip_after(sign, !output);
          return;
        }
        at_ = begin;
      }
      read_token(brackets);
    }
  }

  void read_token(std::string& brackets) {
    const std::size_t begin = at_;
    const char c = source_[at_];
    if (is_name_start(c)) {
      while (is_name_character(peek())) ++at_;
      add(Kind::name, source_.substr(begin, at_ - begin), begin);
    } else if (is_digit(c)) {
      read_number();
    } else if (c == '"' || c == '\'') {
      read_string();
    } else {
      read_symbol(brackets);
    }
  }

  void read_digits(std::string& digits) {
    while (is_digit(peek()) || (peek() == '_' && is_digit(peek(1)))) {
      if (peek() != '_') digits += peek();
      ++at_;
    }
  }

  void read_number() {
    const std::size_t begin = at_;
    Kind kind = Kind::integer;
    std::string digits;
    read_digits(digits);
    if (peek() == '.' && is_digit(peek(1))) {
      kind = Kind::number;
      digits += source_[at_++];
      read_digits(digits);
    }
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      kind = Kind::number;
      digits += source_.substr(at_, 1 + sign);
      at_ += 1 + sign;
      read_digits(digits);
    }
    if (is_name_character(peek())) reject(begin, "a number that isn't decimal");
    add(kind, digits, begin);
  }

  void read_string() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] != '\\')
        text += source_[at_++];
      else
        read_escape(text);
    }
    if (at_ == source_.size()) reject(begin, "this string does not end");
    ++at_;
    add(Kind::string, std::move(text), begin);
  }

  /// A backslash and what follows, as in a Python string; an escape that Python does not know stays as it is.
  void read_escape(std::string& text) {
    const std::size_t begin = at_++;
    if (at_ == source_.size()) return;
    const char c = source_[at_++];
    static constexpr std::string_view kNames = "\n\\'\"abfnrtv";
    static constexpr std::array<std::string_view, 11> kMeanings = {"",   "\\", "'",  "\"", "\a", "\b",
                                                                   "\f", "\n", "\r", "\t", "\v"};
    if (const std::size_t known = kNames.find(c); known != kNames.npos) {
      text += kMeanings[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_code_point(read_code(begin, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16), begin, text);
    } else if (c >= '0' && c <= '7') {
      --at_;
      append_code_point(read_code(begin, 0, 8), begin, text);
    } else {
      text += {'\\', c};
    }
  }

  /// Exactly `count` hexadecimal digits, or up to three octal ones.
  uint32_t read_code(std::size_t begin, int count, uint32_t base) {
    uint32_t code = 0;
    for (int i = 0; i < (base == 8 ? 3 : count); ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0 || digit >= static_cast<int>(base)) {
        if (base == 8) break;
        reject(begin, "an escape needs ", count, " hexadecimal digits");
      }
      code = code * base + static_cast<uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  void append_code_point(uint32_t code, std::size_t begin, std::string& text) const {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) reject(begin, "an escape of no character");
    append_utf8(code, text);
  }

  void read_symbol(std::string& brackets) {
    static constexpr std::array<std::string_view, 25> kSymbols = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    for (const std::string_view symbol : kSymbols) {
      if (!looking_at(symbol)) continue;
      const char c = symbol[0];
      if (c == '(' || c == '[' || c == '{') brackets += c;
      if (c == ')' || c == ']' || c == '}') {
        const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (!brackets.ends_with(opening)) reject(at_, "'", c, "' without its opening bracket");
        brackets.pop_back();
      }
      add(Kind::symbol, std::string(symbol), at_);
      at_ += symbol.size();
      return;
    }
    reject(at_, "unexpected character ", in_quotes(source_.substr(at_, character_bytes(source_, at_))));
  }

  std::string source_;
  const std::string& name_;
  std::vector<std::size_t> line_starts_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& name) {
  return Lexer(source, name).run();
}

}  // namespace carat::jinja
