#include "grammar/regex_parser.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/hex.h"
#include "text/unicode.h"

namespace carat::grammar {
namespace {

constexpr int kMostNesting = 50, kMostCopies = 1000;

CodePoints normalized(CodePoints points) {
  std::ranges::sort(points);
  CodePoints merged;
  for (const auto& [first, last] : points) {
    if (!merged.empty() && first <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, last);
    else
      merged.emplace_back(first, last);
  }
  return merged;
}

const CodePoints kDigits = {{'0', '9'}};
const CodePoints kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodePoints kSpace = {{9, 13},          {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                           {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                           {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodePoints kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  std::vector<RegexAlternative> parse() {
    std::vector<RegexAlternative> alternatives;
    do {
      RegexAlternative alternative;
      alternative.at_begin = take('^');
      alternative.body = sequence();
      alternative.at_end = take('$');
      alternatives.push_back(std::move(alternative));
    } while (take('|'));
    if (at_ < pattern_.size()) refuse(peek() == ')' ? "a bracket that closes nothing" : "an anchor inside");
    return alternatives;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw std::invalid_argument("has " + what + " at byte " + std::to_string(at_));
  }
  bool at_end() const { return at_ >= pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  bool take(char c) {
    if (at_end() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  RegexNode sequence() {
    RegexNode node;
    while (!at_end() && peek() != '|' && peek() != ')' && peek() != '$') node.parts.push_back(repetition());
    return node;
  }

  RegexNode repetition() {
    RegexNode what = atom();
    if (at_end()) return what;
    int least = 1, most = 1;
    if (take('*'))
      least = 0, most = RegexNode::kEndless;
    else if (take('+'))
      most = RegexNode::kEndless;
    else if (take('?'))
      least = 0;
    else if (peek() == '{')
      counts(least, most);
    else
      return what;
    take('?');  // as few as possible: the same language
    if (peek() == '*' || peek() == '+' || peek() == '?') refuse("a quantifier of a quantifier");
    RegexNode node{RegexNode::Kind::repetition, {}, {}, least, most};
    node.parts.push_back(std::move(what));
    return node;
  }

  /// {n}, {n,} or {n,m}.
  void counts(int& least, int& most) {
    ++at_;
    const auto first = number();
    if (!first) refuse("a { that begins no count");
    least = most = *first;
    if (take(',')) {
      const auto second = number();
      most = second.value_or(RegexNode::kEndless);
      if (second && most < least) refuse("a range of counts out of order");
    }
    if (!take('}')) refuse("a count without an end");
  }

  std::optional<int> number() {
    const std::size_t begin = at_;
    int value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kMostCopies) refuse("a count of more than " + std::to_string(kMostCopies));
    }
    return at_ > begin ? std::optional(value) : std::nullopt;
  }

  RegexNode atom() {
    if (take('(')) return group();
    if (take('[')) return characters(character_class());
    if (take('.')) return characters(complement(kLineEnds));
    if (take('\\')) return characters(escape(false));
    const char c = peek();
    if (c == '^') refuse("an anchor inside");
    if (c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == ']')
      refuse(std::string("a ") + c + " that needs a backslash");
    const uint32_t code = literal();
    return characters({{code, code}});
  }

  static RegexNode characters(CodePoints points) {
    return {RegexNode::Kind::characters, std::move(points), {}, 1, 1};
  }

  RegexNode group() {
    if (!take("?:") && peek() == '?') refuse("a group of a kind that is not supported");
    if (++nesting_ > kMostNesting) refuse("too many groups inside one another");
    RegexNode node{RegexNode::Kind::alternatives, {}, {}, 1, 1};
    do node.parts.push_back(sequence());
    while (take('|'));
    if (peek() == '$') refuse("an anchor inside");
    if (!take(')')) refuse("a group without an end");
    --nesting_;
    return node;
  }

  CodePoints character_class() {
    const bool negated = take('^');
    CodePoints points;
    while (!take(']')) {
      if (at_end()) refuse("a class without an end");
      CodePoints first = class_member();
      const bool is_range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (is_range) {
        ++at_;
        const CodePoints last = class_member();
        if (!is_single(first) || !is_single(last) || first[0].first > last[0].first)
          refuse("a range without two ends in order");
        first[0].second = last[0].second;
      }
      points.insert(points.end(), first.begin(), first.end());
    }
    points = normalized(std::move(points));
    return negated ? complement(points) : points;
  }

  static bool is_single(const CodePoints& points) {
    return points.size() == 1 && points[0].first == points[0].second;
  }

  CodePoints class_member() {
    if (take('\\')) return escape(true);
    if (at_end()) refuse("a class without an end");
    const uint32_t code = literal();
    return {{code, code}};
  }

  uint32_t literal() {
    const uint32_t code = character_at(pattern_, at_);
    at_ += character_bytes(pattern_, at_);
    return code;
  }

  /// Behind a backslash.
  CodePoints escape(bool in_class) {
    if (at_end()) refuse("a backslash at its end");
    const char c = pattern_[at_++];
    const auto one = [](uint32_t code) { return CodePoints{{code, code}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(hex(2));
      case 'u':
        return one(hex(4));
      default:
        break;
    }
    if (c == 'b' && in_class) return one('\b');
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_letter || static_cast<unsigned char>(c) >= 0x80) {
      --at_;
      refuse("an escape that is not supported");
    }
    return one(static_cast<unsigned char>(c));
  }

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_digit(peek());
      if (digit < 0) refuse("too few hexadecimal digits");
      value = value * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    if (value >= 0xD800 && value < 0xE000) refuse("half a surrogate pair");
    return value;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

CodePoints complement(const CodePoints& points) {
  CodePoints others;
  uint32_t from = 0;
  for (const auto& [first, last] : points) {
    if (first > from) others.emplace_back(from, first - 1);
    from = last + 1;
  }
  if (from <= kMostCodePoint) others.emplace_back(from, kMostCodePoint);
  return others;
}

std::vector<RegexAlternative> parse_regex(std::string_view pattern) {
  if (!is_valid_utf8(pattern)) throw std::invalid_argument("is not valid UTF-8");
  return Parser(pattern).parse();
}

}  // namespace carat::grammar
