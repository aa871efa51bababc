// Schemas as data: keywords, references, and schemas that have to hold together as one. Used by
// json_schema.cc.
#pragma once
#include <string>
#include <string_view>

#include "grammar/json_value.h"

namespace carat::grammar {

/// Throws SchemaError.
[[noreturn]] void refuse_unsupported(const std::string& keyword, const std::string& place,
                                     const std::string& why = "is not supported");
[[noreturn]] void refuse_invalid(const std::string& keyword, const std::string& place,
                                 const std::string& why);

/// A keyword that says nothing about whether a value is valid, such as "title".
bool is_annotation(std::string_view keyword);
/// The schema without annotations.
JsonValue assertions_of(const JsonValue& schema);

/// What "#/$defs/name" refers to. Throws SchemaError.
const JsonValue& resolve(const JsonValue& root, const std::string& reference, const std::string& place);

/// A schema for what satisfies both, which are objects or booleans. Throws SchemaError where that is no
/// simple schema.
JsonValue merged(const JsonValue& one, const JsonValue& other, const std::string& place);

/// Whether surely no value satisfies both.
bool are_disjoint(const JsonValue& root, const JsonValue& one, const JsonValue& other, int depth = 0);

}  // namespace carat::grammar
