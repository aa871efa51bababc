// Text operations with the meaning they have in Python. Used by templates and the output parser.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace carat {

// Without the white space of str.isspace() at one or both ends; valid UTF-8.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
inline std::string_view strip(std::string_view text) { return strip_left(strip_right(text)); }

/// `code` is a code point that is no surrogate.
void append_utf8(uint32_t code, std::string& text);

}  // namespace carat
