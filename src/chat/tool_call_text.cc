#include "chat/tool_call_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/hex.h"
#include "chat/python_text.h"

namespace carat {
namespace {

constexpr std::string_view kQuote = "<|\"|>";
constexpr std::array<std::string_view, 3> kQuotes = {kQuote, "\"", "'"};
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxKeyBytes = 256;  // that are looked at to find out where a text ends

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

void append_json_text(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += {'\\', 'u', '0', '0', kHex[(c >> 4) & 15], kHex[c & 15]};
    else
      out += c;
  }
  out += '"';
}

/// Whether `text` is a number as JSON spells it.
bool is_json_number(std::string_view text) {
  std::size_t at = 0;
  const auto skip_digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin;
  };
  if (text.starts_with('-')) ++at;
  const std::size_t first = at;
  if (!skip_digits() || (text[first] == '0' && at > first + 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!skip_digits()) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!skip_digits()) return false;
  }
  return at == text.size();
}

/// Writes the JSON of one call's arguments while it reads them. Every function returns false where the text
/// can't be understood.
class ArgumentsParser {
 public:
  ArgumentsParser(std::string_view text, std::size_t at, std::string& out)
      : text_(text), at_(at), out_(out) {}

  std::size_t position() const { return at_; }

  /// {key:value,...}
  bool object() {
    if (++depth_ > kMaxDepth || !skip("{")) return false;
    out_ += '{';
    for (bool first = true; !skip("}"); first = false) {
      if (!first && !skip(",")) return false;
      if (skip("}")) break;  // after a comma too many
      if (!first) out_ += ',';
      std::string name;
      if (!key(name) || !skip(":")) return false;
      append_json_text(name, out_);
      out_ += ':';
      if (!value(true)) return false;
      while (skip("]")) {
      }  // that close nothing
    }
    out_ += '}';
    --depth_;
    return true;
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }
  void skip_blanks() { at_ += rest().size() - strip_left(rest()).size(); }
  bool skip(std::string_view expected) {
    skip_blanks();
    if (!rest().starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  bool array() {
    if (++depth_ > kMaxDepth || !skip("[")) return false;
    out_ += '[';
    for (bool first = true; !skip("]"); first = false) {
      if (!first && !skip(",")) return false;
      if (skip("]")) break;
      if (!first) out_ += ',';
      if (!value(false)) return false;
    }
    out_ += ']';
    --depth_;
    return true;
  }

  bool value(bool in_object) {
    skip_blanks();
    if (rest().starts_with('{')) return object();
    if (rest().starts_with('[')) return array();
    std::string text;
    if (rest().starts_with(kQuote)) {
      if (!quoted(in_object, text)) return false;
    } else if (!python_string(in_object, text)) {
      return bare(in_object);
    }
    append_json_text(text, out_);
    return true;
  }

  bool key(std::string& name) {
    skip_blanks();
    for (const std::string_view quote : kQuotes) {
      if (!rest().starts_with(quote)) continue;
      const std::size_t begin = at_ + quote.size(), end = text_.find(quote, begin);
      if (end == text_.npos) return false;
      name = text_.substr(begin, end - begin);
      at_ = end + quote.size();
      return true;
    }
    const std::size_t end = text_.find_first_of(":,{}[]\n", at_);
    if (end == text_.npos || text_[end] != ':') return false;
    name = strip(text_.substr(at_, end - at_));
    at_ = end;
    return !name.empty();
  }

  /// Whether the notation goes on at `at`, as it must behind a value: the object or array ends, or a comma
  /// and in an object a key follow.
  bool goes_on(std::size_t at, bool in_object) const {
    const std::string_view behind = strip_left(text_.substr(at));
    if (behind.starts_with(in_object ? '}' : ']')) return true;
    if (!behind.starts_with(',')) return false;
    return !in_object || begins_with_key(strip_left(behind.substr(1)));
  }

  static bool begins_with_key(std::string_view text) {
    if (text.starts_with('}')) return true;  // a comma too many
    text = text.substr(0, kMaxKeyBytes);
    std::size_t end = 0;
    for (const std::string_view quote : kQuotes) {
      if (!text.starts_with(quote)) continue;
      end = text.find(quote, quote.size());
      return end != text.npos && text.substr(end + quote.size()).starts_with(':');
    }
    while (end < text.size() && (is_word(text[end]) || text[end] == '-' || text[end] == '.' ||
                                 text[end] == '$' || static_cast<signed char>(text[end]) < 0))
      ++end;
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return end > 0 && text.starts_with(':');
  }

  /// A text between quote tokens.
  bool quoted(bool in_object, std::string& text) {
    const std::size_t begin = at_ + kQuote.size();
    for (std::size_t end = text_.find(kQuote, begin); end != text_.npos; end = text_.find(kQuote, end + 1)) {
      if (!goes_on(end + kQuote.size(), in_object)) continue;
      text = text_.substr(begin, end - begin);
      at_ = end + kQuote.size();
      return true;
    }
    return false;
  }

  /// "text" or 'text' with a backslash before what would end it, when the notation goes on behind it.
  bool python_string(bool in_object, std::string& text) {
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if ((quote != '"' && quote != '\'') || !strings_end_) return false;
    std::string unescaped;
    for (std::size_t at = at_ + 1; at < text_.size(); ++at) {
      if (text_[at] == quote && goes_on(at + 1, in_object)) {
        at_ = at + 1;
        text = std::move(unescaped);
        return true;
      }
      if (text_[at] == '\\' && at + 1 < text_.size())
        append_escape(++at, unescaped);
      else
        unescaped += text_[at];
    }
    strings_end_ = false;
    return false;
  }

  /// The character behind a backslash, at `at`; leaves `at` on the last byte of the escape.
  void append_escape(std::size_t& at, std::string& text) const {
    static constexpr std::string_view kNames = "bfnrt", kMeanings = "\b\f\n\r\t";
    const char c = text_[at];
    if (const std::size_t named = kNames.find(c); named != kNames.npos) {
      text += kMeanings[named];
    } else if (c == '"' || c == '\'' || c == '\\' || c == '/') {
      text += c;
    } else if (uint32_t code = 0; c == 'u' && read_unit(at + 1, code)) {
      at += 4;
      uint32_t low = 0;
      const bool is_pair = code >= 0xD800 && code < 0xDC00 && text_.substr(at + 1).starts_with("\\u") &&
                           read_unit(at + 3, low) && low >= 0xDC00 && low < 0xE000;
      if (is_pair) {
        at += 6;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
      append_utf8(code >= 0xD800 && code < 0xE000 ? 0xFFFD : code, text);
    } else {
      text += {'\\', c};
    }
  }

  bool read_unit(std::size_t at, uint32_t& unit) const {
    if (at + 4 > text_.size()) return false;
    unit = 0;
    for (const char c : text_.substr(at, 4)) {
      const int digit = hex_digit(c);
      if (digit < 0) return false;
      unit = unit * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }

  /// A number, a constant, or a text without its first quote.
  bool bare(bool in_object) {
    const std::size_t end = text_.find_first_of(",{}[]", at_);
    if (end == text_.npos) return false;
    std::string_view word = text_.substr(at_, end - at_);
    if (const std::size_t quote = word.find(kQuote); quote != word.npos) {
      append_json_text(strip(word.substr(0, quote)), out_);
      at_ += quote + kQuote.size();
      return goes_on(at_, in_object);
    }
    word = strip(word);
    at_ = end;
    append_bare(word);
    return !word.empty();
  }

  void append_bare(std::string_view word) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kConstants = {
        {{"true", "true"},
         {"false", "false"},
         {"null", "null"},
         {"True", "true"},
         {"False", "false"},
         {"None", "null"},
         {"none", "null"},
         {"nil", "null"}}};
    const auto constant =
        std::ranges::find(kConstants, word, &std::pair<std::string_view, std::string_view>::first);
    if (constant != kConstants.end())
      out_ += constant->second;
    else if (is_json_number(word))
      out_ += word;
    else
      append_json_text(word, out_);
  }

  std::string_view text_;
  std::size_t at_;
  std::string& out_;
  int depth_ = 0;
  bool strings_end_ = true;  // false when the rest of the text has no end for a string in " or '
};

}  // namespace

std::optional<std::vector<ToolCall>> parse_tool_calls(std::string_view text) {
  constexpr std::string_view kCall = "call:";
  std::vector<ToolCall> calls;
  text = strip(text);
  while (!text.empty()) {
    if (!text.starts_with(kCall)) return std::nullopt;
    std::size_t at = kCall.size();
    while (at < text.size() && (is_word(text[at]) || text[at] == '-' || text[at] == '.')) ++at;
    ToolCall call{std::string(text.substr(kCall.size(), at - kCall.size())), {}};
    ArgumentsParser arguments(text, at, call.arguments);
    if (call.name.empty() || !arguments.object()) return std::nullopt;
    calls.push_back(std::move(call));
    text = strip_left(text.substr(arguments.position()));
    if (text.starts_with(',')) text = strip_left(text.substr(1));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace carat
