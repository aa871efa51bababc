#include "chat/jinja_runtime.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace carat::jinja {

void Runtime::spend_steps(std::size_t steps) {
  if (steps > static_cast<std::size_t>(limits_.steps))
    fail(ErrorKind::invalid_argument, "the template takes more steps than a chat template may");
  limits_.steps -= static_cast<int64_t>(steps);
}

void Runtime::spend_bytes(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(limits_.text_bytes))
    fail(ErrorKind::invalid_argument, "the template writes more text than a chat template may");
  limits_.text_bytes -= static_cast<int64_t>(bytes);
}

Namespace* Runtime::new_namespace() {
  spend_steps(8);
  return &namespaces_.emplace_back();
}

Value Runtime::text(MarkedText text) {
  spend_steps(8);  // many small texts take memory too
  spend_bytes(text.size());
  return Value::text(std::move(text));
}

Value Runtime::list(std::vector<Value> items, ListKind kind) {
  spend_steps(items.size());
  return Value::list(std::move(items), kind);
}

Value call_builtin(Runtime& runtime, const Builtin& builtin, Value self, CallArguments arguments) {
  const std::vector<std::string_view>& parameters = builtin.parameters;
  const std::size_t given = arguments.positional.size();
  if (given > parameters.size() && !builtin.takes_more)
    fail(ErrorKind::invalid_argument, builtin.name, "() takes ", parameters.size(), " arguments, not ",
         given);
  BuiltinCall call{runtime, std::move(self), std::move(arguments.positional), {}};
  call.values.resize(std::max(given, parameters.size()));
  for (auto& [name, value] : arguments.named) {
    const auto place = static_cast<std::size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (place < parameters.size() && place >= given)
      call.values[place] = std::move(value);
    else if (builtin.takes_more)
      call.named.emplace_back(name, std::move(value));
    else
      fail(ErrorKind::invalid_argument, builtin.name, "() takes no further argument ", in_quotes(name));
  }
  return builtin.run(call);
}

}  // namespace carat::jinja
