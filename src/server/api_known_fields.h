// All fields of requests that mean something at one endpoint or another, or to other servers of these APIs. A
// parser has what it asks for; what it doesn't ask for is refused by this table instead of being dropped.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "chat/value.h"

namespace carat {

/// Names of fields.
using FieldNames = std::set<std::string, std::less<>>;

/// Whether the table has a field of this name.
bool is_known_field(std::string_view name);

/// Whether `value` of the field `name` asks for something that an endpoint with the fields `known` must not
/// drop. Not so for names outside the table, null, what is the default anyway, such as `n: 1` and `stream:
/// false`, and what turns off something that the endpoint hasn't got.
bool asks_for_something(std::string_view name, const jinja::Value& value, const FieldNames& known);

/// Whether the field has no effect where no reply is made.
bool shapes_only_the_reply(std::string_view name);

/// Of the names in `known`, one that says the same as `name`; empty: none.
std::string_view same_meaning(std::string_view name, const FieldNames& known);

}  // namespace carat
