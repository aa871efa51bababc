#include "server/api_json.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/unicode.h"

namespace carat {
namespace {

void append_escaped(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
}

/// 0.8f is 0.8: as a double it would have 16 digits.
template <std::floating_point T>
std::string shortest(T value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

}  // namespace

void JsonText::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

void JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonText& JsonText::name(std::string_view name) {
  text(name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonText& JsonText::text(std::string_view text) {
  separate();
  text_ += '"';
  if (is_valid_utf8(text))
    append_escaped(text, text_);
  else
    append_escaped(replace_invalid_utf8(text), text_);
  text_ += '"';
  return *this;
}

JsonText& JsonText::integer(int64_t value) { return raw(std::to_string(value)); }

JsonText& JsonText::number(double value) { return raw(shortest(value)); }
JsonText& JsonText::number(float value) { return raw(shortest(value)); }

JsonText& JsonText::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

std::string json_string(std::string_view text) {
  JsonText json;
  json.text(text);
  return json.take();
}

}  // namespace carat
