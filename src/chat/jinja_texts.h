// String operations with Python's meaning that keep track of who wrote what. Used by filters and methods.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "chat/jinja_runtime.h"

namespace carat::jinja {

// Letters of ASCII change case, others stay as they are.
MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalized(const MarkedText& text);  // the first letter upper, the others lower
MarkedText titled(const MarkedText& text);  // str.title(): a letter behind a letter lower, the others upper
MarkedText title_words(
    const MarkedText& text);  // the filter title: words begin behind white space and ( [ { < -

enum class Ends { left, right, both };
/// Without white space at the ends, or without the characters of `characters` when it is a string.
MarkedText stripped(Runtime& runtime, const MarkedText& text, const Value& characters, Ends ends);

/// `most` < 0: every occurrence.
MarkedText replaced(Runtime& runtime, const MarkedText& text, const MarkedText& part, const MarkedText& by,
                    int64_t most);
/// At `separator`, or at runs of white space when it is none or undefined; at most `most` cuts from the left
/// unless it is negative.
std::vector<Value> split(Runtime& runtime, const MarkedText& text, const Value& separator, int64_t most);
std::vector<Value> split_lines(Runtime& runtime, const MarkedText& text);
MarkedText joined(Runtime& runtime, const std::vector<Value>& items, const MarkedText& separator);

}  // namespace carat::jinja
