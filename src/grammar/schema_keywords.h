// The keywords that schemas may have. Used by json_schema.cc.
#pragma once
#include <string>
#include <string_view>

#include "grammar/json_value.h"

namespace carat::grammar {

struct Keyword {
  std::string_view name;
  std::string_view type;  // of the values that it restricts; empty: of all
};

/// Null for annotations and for what isn't supported.
const Keyword* find_keyword(std::string_view name);

/// Throws SchemaError for a keyword that is not supported, or has a value of a wrong type.
void check_keywords(const JsonValue& schema, const std::string& place);

}  // namespace carat::grammar
