#include "chat/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "chat/jinja_runtime.h"

namespace carat::jinja {
namespace {

void check_depth(int depth) {
  if (depth > Value::kMaxDepth)
    fail(ErrorKind::invalid_argument, "lists and mappings nest deeper than ", Value::kMaxDepth, " levels");
}

void append_plain(std::string_view bytes, MarkedText& out) { out.append(bytes, Origin::chat_template); }

void append_text_repr(const MarkedText& text, MarkedText& out) {
  const std::string& bytes = text.bytes();
  const bool only_single = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char quote = only_single ? '"' : '\'';
  append_plain({&quote, 1}, out);
  static constexpr char kHex[] = "0123456789abcdef";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    std::string escaped;
    if (c == quote || c == '\\')
      escaped = {'\\', c};
    else if (c == '\n')
      escaped = "\\n";
    else if (c == '\r')
      escaped = "\\r";
    else if (c == '\t')
      escaped = "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      escaped = {'\\', 'x', kHex[(c >> 4) & 15], kHex[c & 15]};
    else
      escaped = c;
    out.append(escaped, text.origin_at(i));
  }
  append_plain({&quote, 1}, out);
}

void append_items(const List& list, MarkedText& out) {
  append_plain(list.kind == ListKind::tuple ? "(" : "[", out);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) append_plain(", ", out);
    append_repr(list.items[i], out);
  }
  if (list.kind == ListKind::tuple && list.items.size() == 1) append_plain(",", out);
  append_plain(list.kind == ListKind::tuple ? ")" : "]", out);
}

void append_entries(const Map& map, MarkedText& out) {
  append_plain("{", out);
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (i > 0) append_plain(", ", out);
    append_repr(map.entries()[i].key, out);
    append_plain(": ", out);
    append_repr(map.entries()[i].value, out);
  }
  append_plain("}", out);
}

}  // namespace

Value Value::list(std::vector<Value> items, ListKind kind) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  check_depth(depth);
  return Value(std::make_shared<const List>(List{std::move(items), kind, depth}));
}

Value Value::map(Map map) {
  check_depth(map.depth());
  return Value(std::make_shared<const Map>(std::move(map)));
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const bool* boolean = as_boolean()) return *boolean;
  if (const int64_t* integer = as_integer()) return *integer != 0;
  if (const double* number = as_number()) return *number != 0;
  if (const MarkedText* text = as_text()) return !text->empty();
  if (const List* list = as_list()) return list->kind == ListKind::generator || !list->items.empty();
  if (const Map* map = as_map()) return map->size() > 0;
  return true;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (as_boolean()) return "a boolean";
  if (as_integer()) return "an integer";
  if (as_number()) return "a float";
  if (as_text()) return "a string";
  if (as_list()) return "a list";
  if (as_map()) return "a mapping";
  return as_callable() ? "a function" : "a namespace";
}

int Value::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Map* map = as_map()) return map->depth();
  if (const Callable* callable = as_callable())
    return callable->self.depth() + 1;  // a method owns its object
  return 0;
}

const Value* Map::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

void Map::set(const MarkedText& key, Value value) {
  depth_ = std::max(depth_, value.depth() + 1);
  const auto [place, added] = index_.try_emplace(key.bytes(), entries_.size());
  if (added)
    entries_.push_back({Value::text(key), std::move(value)});
  else
    entries_[place->second].value = std::move(value);
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[64];
  const auto scientific = std::to_chars(digits, std::end(digits), value, std::chars_format::scientific);
  const std::string shortest(digits, scientific.ptr);
  const int exponent = std::stoi(shortest.substr(shortest.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return shortest;
  const auto plain = std::to_chars(digits, std::end(digits), value, std::chars_format::fixed);
  const std::string fixed(digits, plain.ptr);
  return fixed.find('.') == fixed.npos ? fixed + ".0" : fixed;
}

void append_repr(const Value& value, MarkedText& out) {
  if (const MarkedText* text = value.as_text()) return append_text_repr(*text, out);
  if (const List* list = value.as_list()) return append_items(*list, out);
  if (const Map* map = value.as_map()) return append_entries(*map, out);
  if (value.is_undefined()) return append_plain("Undefined", out);
  if (value.is_none()) return append_plain("None", out);
  if (const bool* boolean = value.as_boolean()) return append_plain(*boolean ? "True" : "False", out);
  if (const int64_t* integer = value.as_integer()) return append_plain(std::to_string(*integer), out);
  if (const double* number = value.as_number()) return append_plain(float_repr(*number), out);
  fail(ErrorKind::invalid_argument, value.type_name(), " has no text");
}

MarkedText to_text(const Value& value) {
  if (const MarkedText* text = value.as_text()) return *text;
  MarkedText out;
  if (!value.is_undefined()) append_repr(value, out);
  return out;
}

}  // namespace carat::jinja
