// Filters on single values; those on lists are in jinja_list_filters.cc.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "chat/jinja_list_filters.h"
#include "chat/jinja_operators.h"
#include "chat/jinja_runtime.h"
#include "chat/jinja_texts.h"
#include "chat/json.h"
#include "chat/python_text.h"

namespace carat::jinja {
namespace {

Value upper_filter(BuiltinCall& call) { return call.runtime.text(upper(to_text(call.self))); }
Value lower_filter(BuiltinCall& call) { return call.runtime.text(lower(to_text(call.self))); }
Value capitalize_filter(BuiltinCall& call) { return call.runtime.text(capitalized(to_text(call.self))); }
Value title_filter(BuiltinCall& call) { return call.runtime.text(title_words(to_text(call.self))); }
Value string_filter(BuiltinCall& call) { return call.runtime.text(to_text(call.self)); }
Value trim_filter(BuiltinCall& call) {
  return call.runtime.text(stripped(call.runtime, to_text(call.self), call[0], Ends::both));
}
Value safe_filter(BuiltinCall& call) { return call.self; }

Value default_filter(BuiltinCall& call) {
  const bool replace = call.self.is_undefined() || (call[1].truth() && !call.self.truth());
  if (!replace) return call.self;
  return call.given(0) ? call[0] : Value::text("", Origin::chat_template);
}

Value length_filter(BuiltinCall& call) {
  const auto length = length_of(call.runtime, call.self);
  if (!length) fail(ErrorKind::invalid_argument, call.self.type_name(), " has no length");
  return Value::integer(static_cast<int64_t>(*length));
}

Value replace_filter(BuiltinCall& call) {
  const int64_t most = call.given(2) && !call[2].is_none() ? integer_argument(call[2], "count") : -1;
  return call.runtime.text(replaced(call.runtime, to_text(call.self), text_argument(call[0], "old"),
                                    text_argument(call[1], "new"), most));
}

Value indent_filter(BuiltinCall& call) {
  MarkedText indent;
  if (const MarkedText* text = call[0].as_text()) {
    indent = *text;
  } else {
    const int64_t width = call.given(0) ? integer_argument(call[0], "width") : 4;
    indent.append(std::string(static_cast<std::size_t>(std::clamp<int64_t>(width, 0, 1000)), ' '),
                  Origin::chat_template);
  }
  const Value newline = Value::text("\n", Origin::chat_template);
  std::vector<Value> lines = split(call.runtime, to_text(call.self), newline, -1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const MarkedText line = *lines[i].as_text();
    if (i == 0 ? !call[1].truth() : line.empty() && !call[2].truth()) continue;
    MarkedText indented = indent;
    indented.append(line);
    lines[i] = call.runtime.text(std::move(indented));
  }
  return call.runtime.text(joined(call.runtime, lines, *newline.as_text()));
}

/// An optional sign and decimal digits, as int() reads them; white space around is stripped.
bool read_integer(std::string_view text, int64_t& result) {
  text = strip(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), result);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
}

bool read_number(std::string_view text, double& result) {
  text = strip(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), result);
  return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
}

Value int_filter(BuiltinCall& call) {
  if (call.given(1)) fail(ErrorKind::unsupported, "int() with a base is not supported");
  int64_t integer = 0;
  double number = NAN;
  if (const MarkedText* text = call.self.as_text()) {
    call.runtime.spend_scan(text->size());
    if (read_integer(text->bytes(), integer)) return Value::integer(integer);
    if (!read_number(text->bytes(), number)) number = NAN;
  } else if (const auto value = as_number(call.self)) {
    if (value->is_integer) return Value::integer(value->integer);
    number = value->number;
  }
  if (std::abs(number) < 0x1p63) return Value::integer(static_cast<int64_t>(number));
  return call.given(0) ? call[0] : Value::integer(0);
}

Value float_filter(BuiltinCall& call) {
  double number = 0;
  if (const auto value = as_number(call.self)) return Value::number(value->number);
  if (call.self.as_text()) call.runtime.spend_scan(call.self.as_text()->size());
  if (call.self.as_text() && read_number(call.self.as_text()->bytes(), number)) return Value::number(number);
  return call.given(0) ? call[0] : Value::number(0.0);
}

Value abs_filter(BuiltinCall& call) {
  const auto number = as_number(call.self);
  if (!number) fail(ErrorKind::invalid_argument, "abs of ", call.self.type_name());
  const bool negative = number->is_integer ? number->integer < 0 : std::signbit(number->number);
  if (negative) return negated(call.self);
  return number->is_integer ? Value::integer(number->integer) : call.self;
}

Value round_filter(BuiltinCall& call) {
  const auto number = as_number(call.self);
  if (!number) fail(ErrorKind::invalid_argument, "round of ", call.self.type_name());
  const int64_t precision = call.given(0) ? integer_argument(call[0], "precision") : 0;
  const std::string method = call.given(1) ? text_argument(call[1], "method").bytes() : "common";
  if (precision < 0 || precision > 15 || (method != "common" && method != "ceil" && method != "floor"))
    fail(ErrorKind::unsupported, "round() takes a precision of 0 to 15 and common, ceil or floor");
  if (method == "common") {
    if (number->is_integer) return Value::integer(number->integer);
    char digits[512];
    std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), number->number);
    return Value::number(std::strtod(digits, nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number->number * scale;
  return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value tojson_filter(BuiltinCall& call) {
  JsonStyle style;
  style.ensure_ascii = call[0].truth();
  style.sort_keys = call[3].truth();
  if (call.given(1) && !call[1].is_none()) {
    style.indent = static_cast<int>(std::clamp<int64_t>(integer_argument(call[1], "indent"), 0, 100));
    style.item_separator = std::string(",");  // no blank at the end of a line
  }
  if (const List* separators = call[2].as_list()) {
    if (separators->items.size() != 2) fail(ErrorKind::invalid_argument, "separators are two strings");
    style.item_separator = text_argument(separators->items[0], "the item separator").bytes();
    style.key_separator = text_argument(separators->items[1], "the key separator").bytes();
  }
  return call.runtime.text(to_json(call.self, style));
}

const std::vector<Builtin>& value_filters() {
  static const std::vector<Builtin> filters = {
      {"abs", abs_filter},
      {"capitalize", capitalize_filter},
      {"count", length_filter},
      {"d", default_filter, {"default_value", "boolean"}},
      {"default", default_filter, {"default_value", "boolean"}},
      {"float", float_filter, {"default"}},
      {"indent", indent_filter, {"width", "first", "blank"}},
      {"int", int_filter, {"default", "base"}},
      {"length", length_filter},
      {"lower", lower_filter},
      {"replace", replace_filter, {"old", "new", "count"}},
      {"round", round_filter, {"precision", "method"}},
      {"safe", safe_filter},
      {"string", string_filter},
      {"title", title_filter},
      {"tojson", tojson_filter, {"ensure_ascii", "indent", "separators", "sort_keys"}},
      {"trim", trim_filter, {"chars"}},
      {"upper", upper_filter},
  };
  return filters;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  for (const std::vector<Builtin>* table : {&value_filters(), &list_filters()}) {
    const auto found = std::ranges::find(*table, name, &Builtin::name);
    if (found != table->end()) return &*found;
  }
  return nullptr;
}

}  // namespace carat::jinja
