// JSON text <-> template values, in the order of the text. Used by tojson, by the chat templates for
// messages, tools and arguments, and by whoever hands these over.
#pragma once
#include <string>
#include <string_view>

#include "chat/value.h"

namespace carat::jinja {

/// Every key and every text of the document is marked with `origin`. Of a key that is there twice the last
/// value counts. Throws Error{invalid_argument} for text that is not JSON, naming `source` and what is wrong,
/// and for nesting deeper than Value::kMaxDepth.
Value parse_json(std::string_view json, Origin origin, const std::string& source);

/// The arguments of Python's json.dumps that the tojson filter takes.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  int indent = -1;  // -1: all on one line
  std::string item_separator = ", ", key_separator = ": ";
};

/// Throws Error{invalid_argument} for undefined values and functions.
MarkedText to_json(const Value& value, const JsonStyle& style = {});

}  // namespace carat::jinja
