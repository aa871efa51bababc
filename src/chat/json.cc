#include "chat/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace carat::jinja {
namespace {

/// Builds values while the text is read, so that nesting is refused before it costs anything.
class ValueBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  ValueBuilder(Origin origin, const std::string& source) : origin_(origin), source_(source) {}
  Value take() { return std::move(result_); }

  bool null() override { return add(Value::none()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return add(std::in_range<int64_t>(value) ? Value::integer(static_cast<int64_t>(value))
                                             : Value::number(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(Value::number(value)); }
  bool string(string_t& value) override { return add(Value::text(value, origin_)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(true); }
  bool key(string_t& key) override {
    open_.back().key = key;
    return true;
  }
  bool end_object() override {
    Map map = std::move(open_.back().map);
    open_.pop_back();
    return add(Value::map(std::move(map)));
  }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override {
    std::vector<Value> items = std::move(open_.back().items);
    open_.pop_back();
    return add(Value::list(std::move(items)));
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    fail(ErrorKind::invalid_argument, source_, ": not JSON from byte ", at, " on");
  }

 private:
  struct Open {
    bool is_map;
    Map map;
    std::vector<Value> items;
    std::string key;
  };

  bool open(bool is_map) {
    if (open_.size() >= Value::kMaxDepth)
      fail(ErrorKind::invalid_argument, source_, ": nested deeper than ", Value::kMaxDepth, " levels");
    open_.push_back({is_map, {}, {}, {}});
    return true;
  }
  bool add(Value value) {
    if (open_.empty())
      result_ = std::move(value);
    else if (open_.back().is_map)
      open_.back().map.set(MarkedText(open_.back().key, origin_), std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  Origin origin_;
  const std::string& source_;
  std::vector<Open> open_;
  Value result_;
};

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}
  MarkedText take() { return std::move(out_); }

  void write(const Value& value) {
    if (const MarkedText* text = value.as_text()) return write_text(*text);
    if (const List* list = value.as_list()) return write_list(*list);
    if (const Map* map = value.as_map()) return write_map(*map);
    if (value.is_none()) return put("null");
    if (const bool* boolean = value.as_boolean()) return put(*boolean ? "true" : "false");
    if (const int64_t* integer = value.as_integer()) return put(std::to_string(*integer));
    if (const double* number = value.as_number()) return write_number(*number);
    fail(ErrorKind::invalid_argument, value.type_name(), " has no JSON form");
  }

 private:
  void put(std::string_view bytes) { out_.append(bytes, Origin::chat_template); }

  void write_number(double number) {
    if (std::isnan(number)) return put("NaN");
    if (std::isinf(number)) return put(number < 0 ? "-Infinity" : "Infinity");
    put(float_repr(number));
  }

  static std::string escape_unit(unsigned unit) {
    static constexpr char kHex[] = "0123456789abcdef";
    return {'\\', 'u', kHex[unit >> 12 & 15], kHex[unit >> 8 & 15], kHex[unit >> 4 & 15], kHex[unit & 15]};
  }

  std::string escaped(std::string_view character, char32_t code) const {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    if (code >= 0x20 && (code < 0x80 || !style_.ensure_ascii)) return std::string(character);
    if (code < 0x10000) return escape_unit(code);
    return escape_unit(0xD800 + ((code - 0x10000) >> 10)) + escape_unit(0xDC00 + ((code - 0x10000) & 0x3FF));
  }

  void write_text(const MarkedText& text) {
    put("\"");
    const std::string_view bytes = text.bytes();
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = character_bytes(bytes, at);
      out_.append(escaped(bytes.substr(at, length), character_at(bytes, at)), text.origin_at(at));
      at += length;
    }
    put("\"");
  }

  void new_line() {
    if (style_.indent < 0) return;
    put("\n");
    put(std::string(static_cast<std::size_t>(style_.indent) * level_, ' '));
  }

  void write_list(const List& list) {
    if (list.items.empty()) return put("[]");
    put("[");
    ++level_;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      write(list.items[i]);
    }
    --level_;
    new_line();
    put("]");
  }

  void write_map(const Map& map) {
    if (map.size() == 0) return put("{}");
    std::vector<const Map::Entry*> entries;
    for (const Map::Entry& entry : map.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::sort(entries.begin(), entries.end(), [](const Map::Entry* a, const Map::Entry* b) {
        return a->key.as_text()->bytes() < b->key.as_text()->bytes();
      });
    put("{");
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      write_text(*entries[i]->key.as_text());
      put(style_.key_separator);
      write(entries[i]->value);
    }
    --level_;
    new_line();
    put("}");
  }

  const JsonStyle& style_;
  std::size_t level_ = 0;
  MarkedText out_;
};

}  // namespace

Value parse_json(std::string_view json, Origin origin, const std::string& source) {
  if (const std::size_t nul = json.find('\0'); nul != json.npos)  // the library takes it for the end
    fail(ErrorKind::invalid_argument, source, ": not JSON from byte ", nul, " on");
  ValueBuilder builder(origin, source);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder))
    fail(ErrorKind::invalid_argument, source, ": not JSON");
  return builder.take();
}

MarkedText to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return writer.take();
}

}  // namespace carat::jinja
