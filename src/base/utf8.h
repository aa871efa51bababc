// Validity of UTF-8, and outside text made fit for a one-line message.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace carat {

/// Bytes of the UTF-8 character that starts at text[pos] (1 to 4), or 0 when none does: a stray or missing
/// continuation byte, an overlong form, a surrogate, a value beyond U+10FFFF.
std::size_t utf8_length_at(std::string_view text, std::size_t pos);

/// Text from a file or a user, in double quotes, for an error message or a log: control characters and bytes
/// that are not UTF-8 become \xNN, so that it stays on one line and can't drive a terminal; at most
/// `max_bytes` of it.
std::string in_quotes(std::string_view text, std::size_t max_bytes = 120);

}  // namespace carat
