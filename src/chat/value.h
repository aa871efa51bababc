// The values that templates compute with: Python's, as far as chat templates see them. Also the form in which
// messages and tools are handed over. Values are immutable and cheap to copy.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "chat/marked_text.h"

namespace carat::jinja {

struct List;
class Map;
struct Callable;   // a macro, function or method; jinja_runtime.h
struct Namespace;  // what namespace() returns; jinja_runtime.h

enum class ListKind {
  list,
  tuple,
  view,      // of a mapping: what keys(), values() and items() give
  generator  // what most filters give: true even without items, as in Python
};

class Value {
 public:
  Value() = default;  // undefined
  static Value none() { return Value(None{}); }
  static Value boolean(bool value) { return Value(value); }
  static Value integer(int64_t value) { return Value(value); }
  static Value number(double value) { return Value(value); }
  static Value text(MarkedText text) { return Value(std::make_shared<const MarkedText>(std::move(text))); }
  static Value text(std::string_view bytes, Origin origin) { return text(MarkedText(bytes, origin)); }
  static Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  static Value map(Map map);
  static Value callable(std::shared_ptr<const Callable> callable) { return Value(std::move(callable)); }
  static Value name_space(Namespace* space) { return Value(space); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }

  // Null for a value of another type.
  const bool* as_boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* as_integer() const { return std::get_if<int64_t>(&value_); }
  const double* as_number() const { return std::get_if<double>(&value_); }
  const MarkedText* as_text() const { return pointer<MarkedText>(); }
  const List* as_list() const { return pointer<List>(); }
  const Map* as_map() const { return pointer<Map>(); }
  const Callable* as_callable() const { return pointer<Callable>(); }
  Namespace* as_namespace() const {
    const auto* space = std::get_if<Namespace*>(&value_);
    return space ? *space : nullptr;
  }

  /// Python's truth: empty, zero, None and undefined are false.
  bool truth() const;
  /// "str", "int", ... as Python calls it, for messages.
  std::string_view type_name() const;
  /// How deep lists, maps and methods of these are nested; 0 for anything else.
  int depth() const;

  /// Lists and maps nest no deeper, so that recursion over values is safe.
  static constexpr int kMaxDepth = 200;

 private:
  struct Undefined {};
  struct None {};
  using Variant = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const MarkedText>,
                               std::shared_ptr<const List>, std::shared_ptr<const Map>,
                               std::shared_ptr<const Callable>, Namespace*>;

  explicit Value(Variant value) : value_(std::move(value)) {}
  template <class T>
  const T* pointer() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&value_);
    return found ? found->get() : nullptr;
  }

  Variant value_;
};

struct List {
  std::vector<Value> items;
  ListKind kind;
  int depth;  // of the deepest item, plus one

  /// Has a length and indices, for Python.
  bool is_sequence() const { return kind == ListKind::list || kind == ListKind::tuple; }
};

/// Keys in the order of their first insertion, as in Python.
class Map {
 public:
  struct Entry {
    Value key;  // a text
    Value value;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  /// Null when there is no such key.
  const Value* find(std::string_view key) const;
  void set(const MarkedText& key, Value value);
  void set(std::string_view key, Value value) {
    set(MarkedText(key, Origin::chat_template), std::move(value));
  }
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  int depth_ = 1;
};

/// str() of Python.
MarkedText to_text(const Value& value);
/// repr() of Python: texts in quotes.
void append_repr(const Value& value, MarkedText& out);
/// 1e+16, 0.1, 2.0, inf: the shortest that reads back as the same number.
std::string float_repr(double value);

}  // namespace carat::jinja
