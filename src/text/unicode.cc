#include "text/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace carat {
namespace {

struct CodeRange {
  char32_t first, last;
};

constexpr CodeRange kWhiteSpace[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                     {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                     {0x205F, 0x205F}, {0x3000, 0x3000}};

constexpr CodeRange kWordCharacters[] = {
#include "text/word_characters.inc"
};

template <std::size_t n>
bool contains(const CodeRange (&ranges)[n], char32_t code) {
  const auto* range = std::lower_bound(std::begin(ranges), std::end(ranges), code,
                                       [](const CodeRange& r, char32_t c) { return r.last < c; });
  return range != std::end(ranges) && range->first <= code;
}

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

/// How many bytes from text[at] on are ASCII, in steps of 8; the rest is left to the caller.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  while (at + 8 <= text.size()) {
    uint64_t eight;
    std::memcpy(&eight, text.data() + at, 8);
    if (eight & 0x8080808080808080u) break;
    at += 8;
  }
  return at;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const Utf8Scan scan = scan_utf8(text, at);
    if (scan.state != Utf8Scan::State::whole) return false;
    at += scan.bytes;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Scan scan = scan_utf8(text, at);
    valid += scan.state == Utf8Scan::State::whole ? text.substr(at, scan.bytes) : kReplacementCharacter;
    at += scan.bytes;
  }
  return valid;
}

std::string replace_spaces(std::string_view text) {
  std::string normalized;
  normalized.reserve(text.size());
  for (const char c : text) c == ' ' ? normalized.append(kSpaceMarker) : normalized.append(1, c);
  return normalized;
}

char32_t character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xC0u) == 0x80u) --begin;
  return character_at(text, begin);
}

bool is_white_space(char32_t code) { return contains(kWhiteSpace, code); }
bool is_word_character(char32_t code) { return contains(kWordCharacters, code); }

}  // namespace carat
