#include "chat/jinja_operators.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/unicode.h"

namespace carat::jinja {
namespace {

[[noreturn]] void reject_operands(std::string_view operation, const Value& left, const Value& right) {
  fail(ErrorKind::invalid_argument, "'", operation, "' between ", left.type_name(), " and ",
       right.type_name());
}

void check_range(bool overflow) {
  if (overflow) fail(ErrorKind::invalid_argument, "an integer beyond 64 bits");
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;
  while (exponent > 0) {
    if (exponent & 1) overflow |= __builtin_mul_overflow(result, base, &result);
    exponent >>= 1;
    if (exponent > 0) overflow |= __builtin_mul_overflow(base, base, &base);
    check_range(overflow);
  }
  return result;
}

/// Rounded towards minus infinity, as Python does.
int64_t floor_divide(int64_t left, int64_t right) {
  check_range(left == INT64_MIN && right == -1);
  const int64_t quotient = left / right;
  return quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
}

Value integer_arithmetic(std::string_view operation, int64_t left, int64_t right) {
  int64_t result = 0;
  if (operation == "+") {
    check_range(__builtin_add_overflow(left, right, &result));
  } else if (operation == "-") {
    check_range(__builtin_sub_overflow(left, right, &result));
  } else if (operation == "*") {
    check_range(__builtin_mul_overflow(left, right, &result));
  } else if (operation == "**") {
    result = integer_power(left, right);
  } else if (operation == "//") {
    result = floor_divide(left, right);
  } else {  // %
    result = left - floor_divide(left, right) * right;
  }
  return Value::integer(result);
}

Value float_arithmetic(std::string_view operation, double left, double right) {
  if (operation == "+") return Value::number(left + right);
  if (operation == "-") return Value::number(left - right);
  if (operation == "*") return Value::number(left * right);
  if (operation == "**") return Value::number(std::pow(left, right));
  if (operation == "/") return Value::number(left / right);
  if (operation == "//") return Value::number(std::floor(left / right));
  const double remainder = std::fmod(left, right);
  return Value::number(remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder);
}

Value number_arithmetic(std::string_view operation, const Number& left, const Number& right) {
  if ((operation.starts_with('/') || operation == "%") && right.number == 0)
    fail(ErrorKind::invalid_argument, "division by zero");
  const bool integers = left.is_integer && right.is_integer;
  if (integers && operation != "/" && !(operation == "**" && right.integer < 0))
    return integer_arithmetic(operation, left.integer, right.integer);
  return float_arithmetic(operation, left.number, right.number);
}

Value repeated(Runtime& runtime, const Value& value, int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<int64_t>(count, 0));
  if (const MarkedText* text = value.as_text()) {
    MarkedText result;
    for (std::size_t i = 0; i < times && !text->empty(); ++i) {
      runtime.spend_bytes(text->size());
      result.append(*text);
    }
    return Value::text(std::move(result));
  }
  const List& list = *value.as_list();
  std::vector<Value> items;
  for (std::size_t i = 0; i < times && !list.items.empty(); ++i) {
    runtime.spend_steps(list.items.size());
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value::list(std::move(items), list.kind);
}

Value concatenated(Runtime& runtime, const MarkedText& left, const MarkedText& right) {
  MarkedText result = left;
  result.append(right);
  return runtime.text(std::move(result));
}

/// Wide enough for every int64_t and every double, so that the order of mixed numbers is consistent.
long double exact(const Number& number) {
  return number.is_integer ? static_cast<long double>(number.integer)
                           : static_cast<long double>(number.number);
}

bool equal_lists(Runtime& runtime, const List& left, const List& right) {
  if (&left == &right) return true;
  if (left.kind != right.kind || !left.is_sequence() || left.items.size() != right.items.size()) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i)
    if (!equal(runtime, left.items[i], right.items[i])) return false;
  return true;
}

bool equal_maps(Runtime& runtime, const Map& left, const Map& right) {
  if (left.size() != right.size()) return false;
  for (const Map::Entry& entry : left.entries()) {
    const Value* other = right.find(entry.key.as_text()->bytes());
    if (!other || !equal(runtime, entry.value, *other)) return false;
  }
  return true;
}

/// Byte offset of every character, and of the end.
std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); at += character_bytes(text, at)) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

/// The indices that a slice takes.
struct SliceRange {
  int64_t first, step, count;
  std::size_t index(int64_t i) const { return static_cast<std::size_t>(first + i * step); }
};

SliceRange slice_range(int64_t size, const Value& begin, const Value& end, const Value& step_value) {
  const auto absent = [](const Value& value) { return value.is_none() || value.is_undefined(); };
  const int64_t step = absent(step_value) ? 1 : integer_argument(step_value, "the step of a slice");
  if (step == 0) fail(ErrorKind::invalid_argument, "the step of a slice is 0");
  const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, int64_t fallback) {
    if (absent(value)) return fallback;
    int64_t index = integer_argument(value, "the bound of a slice");
    if (index < 0) index += size;
    return std::clamp(index, least, most);
  };
  const int64_t first = bound(begin, step > 0 ? least : most), last = bound(end, step > 0 ? most : least);
  const int64_t distance = step > 0 ? last - first : first - last;
  const int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  return {first, step, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

Value method_or_undefined(const Value& object, std::string_view name) {
  if (const Builtin* method = find_method(object, name))
    return Value::callable(std::make_shared<const Callable>(Callable{nullptr, method, object}));
  return {};
}

}  // namespace

std::optional<Number> as_number(const Value& value) {
  if (const bool* boolean = value.as_boolean()) return Number{true, *boolean, static_cast<double>(*boolean)};
  if (const int64_t* integer = value.as_integer())
    return Number{true, *integer, static_cast<double>(*integer)};
  if (const double* number = value.as_number()) return Number{false, 0, *number};
  return std::nullopt;
}

int64_t integer_argument(const Value& value, std::string_view what) {
  const auto number = as_number(value);
  if (!number || !number->is_integer)
    fail(ErrorKind::invalid_argument, what, " is ", value.type_name(), ", expected an integer");
  return number->integer;
}

const MarkedText& text_argument(const Value& value, std::string_view what) {
  const MarkedText* text = value.as_text();
  if (!text) fail(ErrorKind::invalid_argument, what, " is ", value.type_name(), ", expected a string");
  return *text;
}

Value arithmetic(Runtime& runtime, std::string_view operation, const Value& left, const Value& right) {
  if (operation == "~") return concatenated(runtime, to_text(left), to_text(right));
  const auto left_number = as_number(left), right_number = as_number(right);
  if (left_number && right_number) return number_arithmetic(operation, *left_number, *right_number);
  if (operation == "+" && left.as_text() && right.as_text())
    return concatenated(runtime, *left.as_text(), *right.as_text());
  if (operation == "+" && left.as_list() && right.as_list() && left.as_list()->is_sequence() &&
      left.as_list()->kind == right.as_list()->kind) {
    std::vector<Value> items = left.as_list()->items;
    items.insert(items.end(), right.as_list()->items.begin(), right.as_list()->items.end());
    return runtime.list(std::move(items), left.as_list()->kind);
  }
  if (operation == "*" && right_number && right_number->is_integer && (left.as_text() || left.as_list()))
    return repeated(runtime, left, right_number->integer);
  if (operation == "*" && left_number && left_number->is_integer && (right.as_text() || right.as_list()))
    return repeated(runtime, right, left_number->integer);
  reject_operands(operation, left, right);
}

Value negated(const Value& value) {
  const auto number = as_number(value);
  if (!number) fail(ErrorKind::invalid_argument, "'-' before ", value.type_name());
  if (!number->is_integer) return Value::number(-number->number);
  check_range(number->integer == INT64_MIN);
  return Value::integer(-number->integer);
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.spend_steps(1);
  const auto left_number = as_number(left), right_number = as_number(right);
  if (left_number && right_number) return exact(*left_number) == exact(*right_number);
  if (left.as_text() && right.as_text()) {
    runtime.spend_scan(std::min(left.as_text()->size(), right.as_text()->size()));
    return left.as_text()->bytes() == right.as_text()->bytes();
  }
  if (left.as_list() && right.as_list()) return equal_lists(runtime, *left.as_list(), *right.as_list());
  if (left.as_map() && right.as_map()) return equal_maps(runtime, *left.as_map(), *right.as_map());
  if (left.as_namespace() && right.as_namespace()) return left.as_namespace() == right.as_namespace();
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.spend_steps(1);
  const auto left_number = as_number(left), right_number = as_number(right);
  if (left_number && right_number) {
    if (std::isnan(left_number->number) || std::isnan(right_number->number))
      fail(ErrorKind::invalid_argument, "nan has no order");
    return exact(*left_number) < exact(*right_number);
  }
  if (left.as_text() && right.as_text()) {
    runtime.spend_scan(std::min(left.as_text()->size(), right.as_text()->size()));
    return left.as_text()->bytes() < right.as_text()->bytes();
  }
  const List *left_list = left.as_list(), *right_list = right.as_list();
  if (!left_list || !right_list || left_list->kind != right_list->kind) reject_operands("<", left, right);
  const std::size_t shorter = std::min(left_list->items.size(), right_list->items.size());
  for (std::size_t i = 0; i < shorter; ++i)
    if (!equal(runtime, left_list->items[i], right_list->items[i]))
      return less(runtime, left_list->items[i], right_list->items[i]);
  return left_list->items.size() < right_list->items.size();
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const MarkedText* text = container.as_text()) {
    const MarkedText* part = item.as_text();
    if (!part) reject_operands("in", item, container);
    runtime.spend_search(text->size(), part->size());
    return text->bytes().find(part->bytes()) != std::string::npos;
  }
  if (const Map* map = container.as_map()) {
    if (item.as_list() || item.as_map()) reject_operands("in", item, container);
    if (item.as_text()) runtime.spend_scan(item.as_text()->size());
    return item.as_text() && map->find(item.as_text()->bytes());
  }
  if (const List* list = container.as_list())
    return std::ranges::any_of(list->items, [&](const Value& each) { return equal(runtime, each, item); });
  if (container.is_undefined()) return false;
  reject_operands("in", item, container);
}

bool compare(Runtime& runtime, std::string_view operation, const Value& left, const Value& right) {
  if (operation == "==") return equal(runtime, left, right);
  if (operation == "!=") return !equal(runtime, left, right);
  if (operation == "<") return less(runtime, left, right);
  if (operation == ">") return less(runtime, right, left);
  if (operation == "in") return contains(runtime, right, left);
  if (operation == "not in") return !contains(runtime, right, left);
  const bool is_less = operation == "<=" ? less(runtime, left, right) : less(runtime, right, left);
  return is_less || equal(runtime, left, right);
}

Value attribute(const Value& object, std::string_view name) {
  if (Value method = method_or_undefined(object, name); !method.is_undefined()) return method;
  const Map* map = object.as_namespace() ? &object.as_namespace()->values : object.as_map();
  const Value* found = map ? map->find(name) : nullptr;
  return found ? *found : Value();
}

Value subscript(Runtime& runtime, const Value& object, const Value& index) {
  if (const MarkedText* name = index.as_text()) {
    runtime.spend_scan(name->size());
    if (const Map* map = object.as_map())
      if (const Value* found = map->find(name->bytes())) return *found;
    return attribute(object, name->bytes());
  }
  const auto number = as_number(index);
  if (!number || !number->is_integer) return {};
  if (const List* list = object.as_list(); list && list->is_sequence()) {
    const auto size = static_cast<int64_t>(list->items.size());
    const int64_t at = number->integer < 0 ? number->integer + size : number->integer;
    return at < 0 || at >= size ? Value() : list->items[static_cast<std::size_t>(at)];
  }
  if (const MarkedText* text = object.as_text()) {
    runtime.spend_scan(text->size());
    const std::vector<std::size_t> offsets = character_offsets(text->bytes());
    const auto size = static_cast<int64_t>(offsets.size()) - 1;
    const int64_t at = number->integer < 0 ? number->integer + size : number->integer;
    if (at < 0 || at >= size) return {};
    const auto character = static_cast<std::size_t>(at);
    return Value::text(text->part(offsets[character], offsets[character + 1]));
  }
  return {};
}

Value slice(Runtime& runtime, const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (const MarkedText* text = object.as_text()) {
    runtime.spend_scan(text->size());
    const std::vector<std::size_t> offsets = character_offsets(text->bytes());
    const SliceRange range = slice_range(static_cast<int64_t>(offsets.size()) - 1, begin, end, step);
    MarkedText result;
    for (int64_t i = 0; i < range.count; ++i)
      result.append(*text, offsets[range.index(i)], offsets[range.index(i) + 1]);
    return runtime.text(std::move(result));
  }
  const List* list = object.as_list();
  if (!list || !list->is_sequence()) fail(ErrorKind::invalid_argument, "a slice of ", object.type_name());
  const SliceRange range = slice_range(static_cast<int64_t>(list->items.size()), begin, end, step);
  std::vector<Value> items;
  for (int64_t i = 0; i < range.count; ++i) items.push_back(list->items[range.index(i)]);
  return runtime.list(std::move(items), list->kind);
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.as_list()) {
    items = list->items;
  } else if (const Map* map = value.as_map()) {
    for (const Map::Entry& entry : map->entries()) items.push_back(entry.key);
  } else if (const MarkedText* text = value.as_text()) {
    const std::vector<std::size_t> offsets = character_offsets(text->bytes());
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
      items.push_back(runtime.text(text->part(offsets[i], offsets[i + 1])));
  } else if (!value.is_undefined()) {
    fail(ErrorKind::invalid_argument, value.type_name(), " has no items");
  }
  runtime.spend_steps(items.size());
  return items;
}

std::optional<std::size_t> length_of(Runtime& runtime, const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    runtime.spend_scan(text->size());
    return static_cast<std::size_t>(std::ranges::count_if(
        text->bytes(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }
  if (const List* list = value.as_list()) return list->items.size();
  if (const Map* map = value.as_map()) return map->size();
  if (value.is_undefined()) return 0;
  return std::nullopt;
}

}  // namespace carat::jinja
