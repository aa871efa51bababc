// What templates can call, and what one rendering may spend: shared by the evaluator, the operators and the
// tables of filters, tests, methods and functions.
#pragma once
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/jinja.h"
#include "chat/value.h"

namespace carat::jinja {

struct Macro;
class Runtime;

/// One call of a builtin.
struct BuiltinCall {
  Runtime& runtime;
  Value self;                 // what is filtered or tested, or whose method it is
  std::vector<Value> values;  // one per parameter, undefined where not given; then further ones
  std::vector<std::pair<std::string_view, Value>> named;  // further ones

  const Value& operator[](std::size_t i) const { return values[i]; }
  bool given(std::size_t i) const { return i < values.size() && !values[i].is_undefined(); }
};

/// A filter, test, method or function.
struct Builtin {
  std::string_view name;
  Value (*run)(BuiltinCall&);
  std::vector<std::string_view> parameters = {};
  bool takes_more = false;  // arguments beyond its parameters
};

/// Null when there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
/// A method of the value's type.
const Builtin* find_method(const Value& self, std::string_view name);

struct Callable {
  const Macro* macro;      // or
  const Builtin* builtin;  // with its object
  Value self;
};

struct Namespace {
  Map values;
};

/// Arguments of a call, evaluated.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

class Runtime {
 public:
  Runtime(RenderLimits limits, std::time_t now) : limits_(limits), now_(now) {}

  void spend_steps(std::size_t steps);
  void spend_bytes(std::size_t bytes);
  /// Reading `bytes` of text from end to end.
  void spend_scan(std::size_t bytes) { spend_steps(bytes / 64 + 1); }
  /// Looking for `part` in `text`, at worst.
  void spend_search(std::size_t text, std::size_t part) { spend_steps(text / 64 * (part + 1) + 1); }
  std::time_t now() const { return now_; }
  int max_depth() const { return limits_.depth; }

  /// Lives as long as the rendering; values refer to it without owning it, so that cycles are harmless.
  Namespace* new_namespace();

  // Values whose size counts.
  Value text(MarkedText text);
  Value list(std::vector<Value> items, ListKind kind = ListKind::list);

 private:
  RenderLimits limits_;
  std::time_t now_;
  std::deque<Namespace> namespaces_;
};

/// Calls with the arguments put in the order of its parameters. Throws Error{invalid_argument} for too many
/// arguments and unknown names.
Value call_builtin(Runtime& runtime, const Builtin& builtin, Value self, CallArguments arguments);

}  // namespace carat::jinja
