// Methods of strings, mappings and lists that templates call. Those that would change a value don't exist:
// the sandbox that chat templates are written for refuses them.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "chat/jinja_operators.h"
#include "chat/jinja_runtime.h"
#include "chat/jinja_texts.h"

namespace carat::jinja {
namespace {

const MarkedText& self_text(const BuiltinCall& call) { return *call.self.as_text(); }

int64_t optional_count(const BuiltinCall& call, std::size_t at) {
  return call.given(at) ? integer_argument(call[at], "the count") : -1;
}

Value text_upper(BuiltinCall& call) { return call.runtime.text(upper(self_text(call))); }
Value text_lower(BuiltinCall& call) { return call.runtime.text(lower(self_text(call))); }
Value text_title(BuiltinCall& call) { return call.runtime.text(titled(self_text(call))); }
Value text_capitalize(BuiltinCall& call) { return call.runtime.text(capitalized(self_text(call))); }
Value text_strip(BuiltinCall& call) {
  return call.runtime.text(stripped(call.runtime, self_text(call), call[0], Ends::both));
}
Value text_lstrip(BuiltinCall& call) {
  return call.runtime.text(stripped(call.runtime, self_text(call), call[0], Ends::left));
}
Value text_rstrip(BuiltinCall& call) {
  return call.runtime.text(stripped(call.runtime, self_text(call), call[0], Ends::right));
}

Value text_split(BuiltinCall& call) {
  return call.runtime.list(split(call.runtime, self_text(call), call[0], optional_count(call, 1)));
}
Value text_splitlines(BuiltinCall& call) {
  return call.runtime.list(split_lines(call.runtime, self_text(call)));
}

Value text_replace(BuiltinCall& call) {
  return call.runtime.text(replaced(call.runtime, self_text(call), text_argument(call[0], "old"),
                                    text_argument(call[1], "new"), optional_count(call, 2)));
}

Value text_join(BuiltinCall& call) {
  const std::vector<Value> items = items_of(call.runtime, call[0]);
  for (const Value& item : items) text_argument(item, "an item of join()");
  return call.runtime.text(joined(call.runtime, items, self_text(call)));
}

using HasAffix = bool (*)(const std::string& text, const std::string& affix);
bool begins_with(const std::string& text, const std::string& prefix) { return text.starts_with(prefix); }
bool closes_with(const std::string& text, const std::string& suffix) { return text.ends_with(suffix); }

bool has_affix(BuiltinCall& call, const Value& affix, HasAffix has) {
  const std::string& bytes = text_argument(affix, "the affix").bytes();
  call.runtime.spend_scan(bytes.size());
  return has(self_text(call).bytes(), bytes);
}
/// Whether the text has one of the affixes, given as a string or a tuple of strings.
Value any_affix(BuiltinCall& call, HasAffix has) {
  const List* list = call[0].as_list();
  if (!list || list->kind != ListKind::tuple) return Value::boolean(has_affix(call, call[0], has));
  return Value::boolean(
      std::ranges::any_of(list->items, [&](const Value& affix) { return has_affix(call, affix, has); }));
}
Value text_startswith(BuiltinCall& call) { return any_affix(call, begins_with); }
Value text_endswith(BuiltinCall& call) { return any_affix(call, closes_with); }

Value text_removeprefix(BuiltinCall& call) {
  if (!has_affix(call, call[0], begins_with)) return call.self;
  const MarkedText& text = self_text(call);
  return call.runtime.text(text.part(call[0].as_text()->size(), text.size()));
}
Value text_removesuffix(BuiltinCall& call) {
  if (!has_affix(call, call[0], closes_with)) return call.self;
  const MarkedText& text = self_text(call);
  return call.runtime.text(text.part(0, text.size() - call[0].as_text()->size()));
}

Value text_count(BuiltinCall& call) {
  const std::string &text = self_text(call).bytes(), &part = text_argument(call[0], "the part").bytes();
  if (part.empty()) fail(ErrorKind::unsupported, "counting an empty string is not supported");
  call.runtime.spend_search(text.size(), part.size());
  int64_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return Value::integer(count);
}

/// In characters, -1 when it isn't there.
Value text_find(BuiltinCall& call) {
  const MarkedText& text = self_text(call);
  const std::string& part = text_argument(call[0], "the part").bytes();
  call.runtime.spend_search(text.size(), part.size());
  const std::size_t found = text.bytes().find(part);
  if (found == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(*length_of(call.runtime, Value::text(text.part(0, found)))));
}

Value text_isdigit(BuiltinCall& call) {
  call.runtime.spend_scan(self_text(call).size());
  const std::string& text = self_text(call).bytes();
  return Value::boolean(!text.empty() &&
                        std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }));
}

Value map_get(BuiltinCall& call) {
  const MarkedText* key = call[0].as_text();
  if (key) call.runtime.spend_scan(key->size());
  const Value* found = key ? call.self.as_map()->find(key->bytes()) : nullptr;
  if (found) return *found;
  return call.given(1) ? call[1] : Value::none();
}

Value map_keys(BuiltinCall& call) {
  return call.runtime.list(items_of(call.runtime, call.self), ListKind::view);
}
Value map_values(BuiltinCall& call) {
  std::vector<Value> values;
  for (const Map::Entry& entry : call.self.as_map()->entries()) values.push_back(entry.value);
  return call.runtime.list(std::move(values), ListKind::view);
}
Value map_items(BuiltinCall& call) {
  std::vector<Value> pairs;
  for (const Map::Entry& entry : call.self.as_map()->entries())
    pairs.push_back(call.runtime.list({entry.key, entry.value}, ListKind::tuple));
  return call.runtime.list(std::move(pairs), ListKind::view);
}

Value list_index(BuiltinCall& call) {
  const std::vector<Value>& items = call.self.as_list()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(call.runtime, items[i], call[0])) return Value::integer(static_cast<int64_t>(i));
  fail(ErrorKind::invalid_argument, "index() of an item that is not in the list");
}
Value list_count(BuiltinCall& call) {
  int64_t count = 0;
  for (const Value& item : call.self.as_list()->items) count += equal(call.runtime, item, call[0]) ? 1 : 0;
  return Value::integer(count);
}

const std::vector<Builtin>& text_methods() {
  static const std::vector<Builtin> methods = {
      {"capitalize", text_capitalize},
      {"count", text_count, {"sub"}},
      {"endswith", text_endswith, {"suffix"}},
      {"find", text_find, {"sub"}},
      {"isdigit", text_isdigit},
      {"join", text_join, {"iterable"}},
      {"lower", text_lower},
      {"lstrip", text_lstrip, {"chars"}},
      {"removeprefix", text_removeprefix, {"prefix"}},
      {"removesuffix", text_removesuffix, {"suffix"}},
      {"replace", text_replace, {"old", "new", "count"}},
      {"rstrip", text_rstrip, {"chars"}},
      {"split", text_split, {"sep", "maxsplit"}},
      {"splitlines", text_splitlines},
      {"startswith", text_startswith, {"prefix"}},
      {"strip", text_strip, {"chars"}},
      {"title", text_title},
      {"upper", text_upper},
  };
  return methods;
}

const std::vector<Builtin>& map_methods() {
  static const std::vector<Builtin> methods = {
      {"get", map_get, {"key", "default"}},
      {"items", map_items},
      {"keys", map_keys},
      {"values", map_values},
  };
  return methods;
}

const std::vector<Builtin>& list_methods() {
  static const std::vector<Builtin> methods = {
      {"count", list_count, {"value"}},
      {"index", list_index, {"value"}},
  };
  return methods;
}

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  static const std::vector<Builtin> none;
  const std::vector<Builtin>& methods = self.as_text()                                    ? text_methods()
                                        : self.as_map()                                   ? map_methods()
                                        : self.as_list() && self.as_list()->is_sequence() ? list_methods()
                                                                                          : none;
  const auto found = std::ranges::find(methods, name, &Builtin::name);
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace carat::jinja
