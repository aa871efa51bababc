// UTF-8 read character by character, and outside text made fit for a one-line message.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace carat {

struct Utf8Scan {
  enum class State {
    whole,    // a valid character
    cut,      // the beginning of a character, ended by the end of the text
    invalid,  // no valid text begins like this
  };
  State state;
  std::size_t bytes;  // of the character, or of the maximal invalid part (which one U+FFFD replaces)
};

/// What begins at text[at]; at < text.size(). Table 3-7 of the Unicode standard.
Utf8Scan scan_utf8(std::string_view text, std::size_t at);

/// Text from a file or a user, fit for a terminal and for one line: control characters and bytes that are not
/// UTF-8 become \xNN; at most `max_bytes` of it, then "...".
std::string printable(std::string_view text, std::size_t max_bytes = std::string_view::npos);

/// The same in double quotes, for an error message.
std::string in_quotes(std::string_view text, std::size_t max_bytes = 120);

}  // namespace carat
