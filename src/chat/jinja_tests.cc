// The tests of templates: what may stand behind `is`, and in select() and its relatives.
#include <algorithm>

#include "base/error.h"
#include "chat/jinja_operators.h"
#include "chat/jinja_runtime.h"

namespace carat::jinja {
namespace {

Value holds(bool condition) { return Value::boolean(condition); }

Value is_defined(BuiltinCall& call) { return holds(!call.self.is_undefined()); }
Value is_undefined(BuiltinCall& call) { return holds(call.self.is_undefined()); }
Value is_none(BuiltinCall& call) { return holds(call.self.is_none()); }
Value is_boolean(BuiltinCall& call) { return holds(call.self.as_boolean() != nullptr); }
Value is_true(BuiltinCall& call) { return holds(call.self.as_boolean() && *call.self.as_boolean()); }
Value is_false(BuiltinCall& call) { return holds(call.self.as_boolean() && !*call.self.as_boolean()); }
Value is_integer(BuiltinCall& call) { return holds(call.self.as_integer() != nullptr); }
Value is_float(BuiltinCall& call) { return holds(call.self.as_number() != nullptr); }
Value is_number(BuiltinCall& call) { return holds(as_number(call.self).has_value()); }
Value is_string(BuiltinCall& call) { return holds(call.self.as_text() != nullptr); }
Value is_mapping(BuiltinCall& call) { return holds(call.self.as_map() != nullptr); }
Value is_callable(BuiltinCall& call) { return holds(call.self.as_callable() != nullptr); }

/// What has a length and an index, as Python sees it: undefined does, a generator doesn't.
Value is_sequence(BuiltinCall& call) {
  const List* list = call.self.as_list();
  return holds(call.self.is_undefined() || call.self.as_text() || call.self.as_map() ||
               (list && list->is_sequence()));
}
Value is_iterable(BuiltinCall& call) {
  return holds(call.self.is_undefined() || call.self.as_text() || call.self.as_map() || call.self.as_list());
}

Value is_odd(BuiltinCall& call) { return holds(integer_argument(call.self, "the value") % 2 != 0); }
Value is_even(BuiltinCall& call) { return holds(integer_argument(call.self, "the value") % 2 == 0); }
Value is_divisible_by(BuiltinCall& call) {
  const Value rest = arithmetic(call.runtime, "%", call.self, call[0]);
  return holds(!rest.truth());
}

struct LetterRange {
  char first, last;
};
constexpr LetterRange kLower{'a', 'z'}, kUpper{'A', 'Z'};

bool has_only(BuiltinCall& call, LetterRange wanted, LetterRange other) {
  const MarkedText* text = call.self.as_text();
  if (!text) return false;
  call.runtime.spend_scan(text->size());
  const auto has = [&](LetterRange range) {
    return std::ranges::any_of(text->bytes(), [&](char c) { return c >= range.first && c <= range.last; });
  };
  return has(wanted) && !has(other);
}
Value is_lower(BuiltinCall& call) { return holds(has_only(call, kLower, kUpper)); }
Value is_upper(BuiltinCall& call) { return holds(has_only(call, kUpper, kLower)); }

Value is_equal(BuiltinCall& call) { return holds(compare(call.runtime, "==", call.self, call[0])); }
Value is_unequal(BuiltinCall& call) { return holds(compare(call.runtime, "!=", call.self, call[0])); }
Value is_less(BuiltinCall& call) { return holds(compare(call.runtime, "<", call.self, call[0])); }
Value is_at_most(BuiltinCall& call) { return holds(compare(call.runtime, "<=", call.self, call[0])); }
Value is_greater(BuiltinCall& call) { return holds(compare(call.runtime, ">", call.self, call[0])); }
Value is_at_least(BuiltinCall& call) { return holds(compare(call.runtime, ">=", call.self, call[0])); }
Value is_in(BuiltinCall& call) { return holds(contains(call.runtime, call[0], call.self)); }

}  // namespace

const Builtin* find_test(std::string_view name) {
  static const std::vector<Builtin> tests = {
      {"!=", is_unequal, {"other"}},
      {"<", is_less, {"other"}},
      {"<=", is_at_most, {"other"}},
      {"==", is_equal, {"other"}},
      {">", is_greater, {"other"}},
      {">=", is_at_least, {"other"}},
      {"boolean", is_boolean},
      {"callable", is_callable},
      {"defined", is_defined},
      {"divisibleby", is_divisible_by, {"num"}},
      {"eq", is_equal, {"other"}},
      {"equalto", is_equal, {"other"}},
      {"even", is_even},
      {"false", is_false},
      {"float", is_float},
      {"ge", is_at_least, {"other"}},
      {"greaterthan", is_greater, {"other"}},
      {"gt", is_greater, {"other"}},
      {"in", is_in, {"seq"}},
      {"integer", is_integer},
      {"iterable", is_iterable},
      {"le", is_at_most, {"other"}},
      {"lessthan", is_less, {"other"}},
      {"lower", is_lower},
      {"lt", is_less, {"other"}},
      {"mapping", is_mapping},
      {"ne", is_unequal, {"other"}},
      {"none", is_none},
      {"number", is_number},
      {"odd", is_odd},
      {"sequence", is_sequence},
      {"string", is_string},
      {"true", is_true},
      {"undefined", is_undefined},
      {"upper", is_upper},
  };
  const auto found = std::ranges::find(tests, name, &Builtin::name);
  return found == tests.end() ? nullptr : &*found;
}

}  // namespace carat::jinja
