// Operators on template values, with Python's meaning. Used by the evaluator and the filters. All throw
// Error{invalid_argument} for operands that Python would refuse.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "chat/jinja_runtime.h"

namespace carat::jinja {

/// `operation` is one of + - * / // % ** ~.
Value arithmetic(Runtime& runtime, std::string_view operation, const Value& left, const Value& right);
Value negated(const Value& value);
/// `operation` is one of == != < <= > >= in, not in.
bool compare(Runtime& runtime, std::string_view operation, const Value& left, const Value& right);
bool equal(Runtime& runtime, const Value& left, const Value& right);
bool less(Runtime& runtime, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);

/// object[index]: undefined where there is none.
Value subscript(Runtime& runtime, const Value& object, const Value& index);
/// object[begin:end:step], each none or undefined where nothing stands.
Value slice(Runtime& runtime, const Value& object, const Value& begin, const Value& end, const Value& step);
/// object.name: the method or item of that name, else undefined.
Value attribute(const Value& object, std::string_view name);

/// The items of a list, the keys of a mapping, the characters of a string; nothing for undefined.
std::vector<Value> items_of(Runtime& runtime, const Value& value);
/// len() of Python; nullopt for what has none.
std::optional<std::size_t> length_of(Runtime& runtime, const Value& value);

struct Number {
  bool is_integer;
  int64_t integer;  // only for integers
  double number;
};
/// Booleans count as integers; nullopt for what is no number.
std::optional<Number> as_number(const Value& value);

// An argument that must be of one type; `what` names it in the message.
int64_t integer_argument(const Value& value, std::string_view what);
const MarkedText& text_argument(const Value& value, std::string_view what);

}  // namespace carat::jinja
