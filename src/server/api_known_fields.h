// All fields of requests that mean something at one endpoint or another, or to other servers of these APIs. A
// parser has what it asks for; what it doesn't ask for is refused by this table instead of being dropped.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "chat/value.h"

namespace carat {

/// Whether `value` of the field `name` asks for something that an endpoint must not drop. Not so for unknown
/// names, null, and what is the default anyway, such as `n: 1` and `stream: false`.
bool asks_for_something(std::string_view name, const jinja::Value& value);

/// Whether the field has no effect where no reply is made.
bool shapes_only_the_reply(std::string_view name);

/// Of the names in `known`, one that says the same as `name`; empty: none.
std::string_view same_meaning(std::string_view name, const std::set<std::string, std::less<>>& known);

}  // namespace carat
