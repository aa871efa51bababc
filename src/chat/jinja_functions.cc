// The global functions of chat templates.
#include <algorithm>
#include <array>
#include <ctime>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/jinja_operators.h"
#include "chat/jinja_runtime.h"
#include "text/unicode.h"

namespace carat::jinja {
namespace {

/// range(end), range(begin, end) or range(begin, end, step).
Value range_function(BuiltinCall& call) {
  const bool from_zero = !call.given(1);
  const int64_t begin = from_zero ? 0 : integer_argument(call[0], "the begin of range()");
  const int64_t end = integer_argument(call[from_zero ? 0 : 1], "the end of range()");
  const int64_t step = call.given(2) ? integer_argument(call[2], "the step of range()") : 1;
  if (step == 0) fail(ErrorKind::invalid_argument, "the step of range() is 0");
  std::vector<Value> numbers;
  int64_t at = begin;
  while (step > 0 ? at < end : at > end) {
    call.runtime.spend_steps(1);
    numbers.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::list(std::move(numbers));
}

Map named_values(BuiltinCall& call) {
  Map map;
  for (const Value& argument : call.values) {
    const Map* base = argument.as_map();
    if (!base) fail(ErrorKind::unsupported, "only mappings and name=value may be given here");
    call.runtime.spend_steps(8 * base->size());
    for (const Map::Entry& entry : base->entries()) {
      call.runtime.spend_bytes(entry.key.as_text()->size());
      map.set(*entry.key.as_text(), entry.value);
    }
  }
  for (const auto& [name, value] : call.named) map.set(name, value);
  return map;
}

Value namespace_function(BuiltinCall& call) {
  Namespace* space = call.runtime.new_namespace();
  space->values = named_values(call);
  return Value::name_space(space);
}

Value dict_function(BuiltinCall& call) { return Value::map(named_values(call)); }

Value raise_exception_function(BuiltinCall& call) {
  fail(ErrorKind::invalid_argument, "the template says ", in_quotes(to_text(call[0]).bytes(), 500));
}

/// Local time, formatted by strftime().
Value strftime_now_function(BuiltinCall& call) {
  const std::string& format = text_argument(call[0], "the format of strftime_now()").bytes();
  const std::time_t now = call.runtime.now();
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 1024> text{};
  if (format.size() > 256 || format.find('\0') != format.npos)
    fail(ErrorKind::unsupported, "the format of strftime_now() is not usable: ", in_quotes(format));
  const std::size_t length = std::strftime(text.data(), text.size(), format.c_str(), &local);
  return call.runtime.text(
      MarkedText(replace_invalid_utf8(std::string_view(text.data(), length)), Origin::chat_template));
}

}  // namespace

const Builtin* find_function(std::string_view name) {
  static const std::vector<Builtin> functions = {
      {"dict", dict_function, {}, true},
      {"namespace", namespace_function, {}, true},
      {"raise_exception", raise_exception_function, {"message"}},
      {"range", range_function, {"start", "stop", "step"}},
      {"strftime_now", strftime_now_function, {"format"}},
  };
  const auto found = std::ranges::find(functions, name, &Builtin::name);
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace carat::jinja
