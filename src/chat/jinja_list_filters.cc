#include "chat/jinja_list_filters.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/jinja_operators.h"
#include "chat/jinja_texts.h"

namespace carat::jinja {
namespace {

/// "a.b.0" of a value, or an integer index; the value itself when there is no path.
Value follow_path(Runtime& runtime, Value value, const Value& path) {
  if (path.is_undefined() || path.is_none()) return value;
  if (path.as_integer()) return subscript(runtime, value, path);
  const std::string& names = text_argument(path, "attribute").bytes();
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string_view name = std::string_view(names).substr(begin, end - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index =
        !name.empty() && parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size();
    if (value.is_undefined())
      fail(ErrorKind::invalid_argument, "no attribute ", in_quotes(name), " of undefined");
    value = subscript(runtime, value,
                      is_index ? Value::integer(index) : Value::text(name, Origin::chat_template));
    begin = end + 1;
  }
  return value;
}

/// What values are compared by: texts without regard to case unless asked for.
Value sort_key(Runtime& runtime, const Value& value, bool case_sensitive) {
  return case_sensitive || !value.as_text() ? value : runtime.text(lower(*value.as_text()));
}

void sort_by_keys(Runtime& runtime, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? less(runtime, b.first, a.first) : less(runtime, a.first, b.first);
  });
}

std::vector<Value> seconds(std::vector<std::pair<Value, Value>>& pairs) {
  std::vector<Value> values;
  for (auto& pair : pairs) values.push_back(std::move(pair.second));
  return values;
}

Value pair_of(Runtime& runtime, const Map::Entry& entry) {
  return runtime.list({entry.key, entry.value}, ListKind::tuple);
}

Value dictsort_filter(BuiltinCall& call) {
  const Map* map = call.self.as_map();
  if (!map) fail(ErrorKind::invalid_argument, "dictsort of ", call.self.type_name());
  const std::string by = call.given(1) ? text_argument(call[1], "by").bytes() : "key";
  if (by != "key" && by != "value") fail(ErrorKind::invalid_argument, "dictsort is by key or by value");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Map::Entry& entry : map->entries())
    keyed.emplace_back(sort_key(call.runtime, by == "key" ? entry.key : entry.value, call[0].truth()),
                       pair_of(call.runtime, entry));
  sort_by_keys(call.runtime, keyed, call[2].truth());
  return call.runtime.list(seconds(keyed));
}

Value sort_filter(BuiltinCall& call) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items_of(call.runtime, call.self)) {
    Value key = sort_key(call.runtime, follow_path(call.runtime, item, call[2]), call[1].truth());
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_by_keys(call.runtime, keyed, call[0].truth());
  return call.runtime.list(seconds(keyed));
}

Value unique_filter(BuiltinCall& call) {
  std::vector<Value> keys, unique;
  for (Value& item : items_of(call.runtime, call.self)) {
    const Value key = sort_key(call.runtime, follow_path(call.runtime, item, call[1]), call[0].truth());
    if (std::ranges::any_of(keys, [&](const Value& seen) { return equal(call.runtime, seen, key); }))
      continue;
    keys.push_back(key);
    unique.push_back(std::move(item));
  }
  return call.runtime.list(std::move(unique), ListKind::generator);
}

/// The least item, or the greatest; undefined of nothing.
Value extreme(BuiltinCall& call, bool greatest) {
  Value best, best_key;
  bool first = true;
  for (Value& item : items_of(call.runtime, call.self)) {
    const Value key = sort_key(call.runtime, follow_path(call.runtime, item, call[1]), call[0].truth());
    if (!std::exchange(first, false) &&
        !(greatest ? less(call.runtime, best_key, key) : less(call.runtime, key, best_key)))
      continue;
    best = std::move(item);
    best_key = key;
  }
  return best;
}
Value max_filter(BuiltinCall& call) { return extreme(call, true); }
Value min_filter(BuiltinCall& call) { return extreme(call, false); }

Value sum_filter(BuiltinCall& call) {
  Value sum = call.given(1) ? call[1] : Value::integer(0);
  for (const Value& item : items_of(call.runtime, call.self))
    sum = arithmetic(call.runtime, "+", sum, follow_path(call.runtime, item, call[0]));
  return sum;
}

Value first_filter(BuiltinCall& call) {
  const std::vector<Value> items = items_of(call.runtime, call.self);
  return items.empty() ? Value() : items.front();
}

Value last_filter(BuiltinCall& call) {
  const std::vector<Value> items = items_of(call.runtime, call.self);
  return items.empty() ? Value() : items.back();
}

Value list_filter(BuiltinCall& call) { return call.runtime.list(items_of(call.runtime, call.self)); }

Value items_filter(BuiltinCall& call) {
  std::vector<Value> pairs;
  if (const Map* map = call.self.as_map()) {
    for (const Map::Entry& entry : map->entries()) pairs.push_back(pair_of(call.runtime, entry));
  } else if (!call.self.is_undefined()) {
    fail(ErrorKind::invalid_argument, "items of ", call.self.type_name());
  }
  return call.runtime.list(std::move(pairs), ListKind::generator);
}

Value join_filter(BuiltinCall& call) {
  std::vector<Value> items = items_of(call.runtime, call.self);
  for (Value& item : items) item = follow_path(call.runtime, std::move(item), call[1]);
  return call.runtime.text(joined(call.runtime, items, call.given(0) ? to_text(call[0]) : MarkedText()));
}

Value reverse_filter(BuiltinCall& call) {
  std::vector<Value> items = items_of(call.runtime, call.self);
  std::ranges::reverse(items);
  if (call.self.as_text()) return call.runtime.text(joined(call.runtime, items, {}));
  return call.runtime.list(std::move(items), ListKind::generator);
}

/// map('filter', arguments...) or map(attribute='name', default=...).
Value map_filter(BuiltinCall& call) {
  Value path, fallback;
  for (const auto& [name, value] : call.named) {
    if (name == "attribute")
      path = value;
    else if (name == "default")
      fallback = value;
    else
      fail(ErrorKind::unsupported, "map() with the argument ", in_quotes(name), " is not supported");
  }
  std::vector<Value> results = items_of(call.runtime, call.self);
  if (!path.is_undefined()) {
    for (Value& item : results) {
      item = follow_path(call.runtime, std::move(item), path);
      if (item.is_undefined()) item = fallback;
    }
    return call.runtime.list(std::move(results), ListKind::generator);
  }
  if (call.values.empty()) fail(ErrorKind::invalid_argument, "map() needs a filter or an attribute");
  const std::string& name = text_argument(call[0], "the filter of map()").bytes();
  const Builtin* filter = find_filter(name);
  if (!filter) fail(ErrorKind::unsupported, "no filter ", in_quotes(name));
  for (Value& item : results)
    item = call_builtin(call.runtime, *filter, std::move(item),
                        {{call.values.begin() + 1, call.values.end()}, {}});
  return call.runtime.list(std::move(results), ListKind::generator);
}

/// The items that pass a test, or with `wanted` false those that don't; without a test, true items. The test
/// comes after `path`, when there is one.
Value selected(BuiltinCall& call, bool by_attribute, bool wanted) {
  if (!call.named.empty())
    fail(ErrorKind::invalid_argument, "no further argument ", in_quotes(call.named[0].first));
  const std::size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && call.values.empty()) fail(ErrorKind::invalid_argument, "no attribute is given");
  const Builtin* test = nullptr;
  CallArguments arguments;
  if (call.values.size() > test_at) {
    const std::string& name = text_argument(call[test_at], "the test").bytes();
    test = find_test(name);
    if (!test) fail(ErrorKind::unsupported, "no test ", in_quotes(name));
    arguments.positional.assign(call.values.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                                call.values.end());
  }
  std::vector<Value> results;
  for (Value& item : items_of(call.runtime, call.self)) {
    Value tested = by_attribute ? follow_path(call.runtime, item, call[0]) : item;
    const bool passes =
        test ? call_builtin(call.runtime, *test, std::move(tested), arguments).truth() : tested.truth();
    if (passes == wanted) results.push_back(std::move(item));
  }
  return call.runtime.list(std::move(results), ListKind::generator);
}
Value select_filter(BuiltinCall& call) { return selected(call, false, true); }
Value reject_filter(BuiltinCall& call) { return selected(call, false, false); }
Value selectattr_filter(BuiltinCall& call) { return selected(call, true, true); }
Value rejectattr_filter(BuiltinCall& call) { return selected(call, true, false); }

}  // namespace

const std::vector<Builtin>& list_filters() {
  static const std::vector<Builtin> filters = {
      {"dictsort", dictsort_filter, {"case_sensitive", "by", "reverse"}},
      {"first", first_filter},
      {"items", items_filter},
      {"join", join_filter, {"d", "attribute"}},
      {"last", last_filter},
      {"list", list_filter},
      {"map", map_filter, {}, true},
      {"max", max_filter, {"case_sensitive", "attribute"}},
      {"min", min_filter, {"case_sensitive", "attribute"}},
      {"reject", reject_filter, {}, true},
      {"rejectattr", rejectattr_filter, {}, true},
      {"reverse", reverse_filter},
      {"select", select_filter, {}, true},
      {"selectattr", selectattr_filter, {}, true},
      {"sort", sort_filter, {"reverse", "case_sensitive", "attribute"}},
      {"sum", sum_filter, {"attribute", "start"}},
      {"unique", unique_filter, {"case_sensitive", "attribute"}},
  };
  return filters;
}

}  // namespace carat::jinja
