// JSON schema -> program. Used by grammar_compiler.cc; docs/structured-output.md lists what is understood.
#pragma once
#include <string>
#include <string_view>

#include "grammar/notation.h"

namespace carat::grammar {

/// A value that satisfies the schema, followed by `next`. `name` begins the places in messages, such as "#".
/// `object_only` refuses schemas of other types. Throws SchemaError.
Node add_schema(Notation& notation, std::string_view schema, const std::string& name, bool object_only,
                Node next);

/// Any JSON object.
Node add_any_object(Notation& notation, Node next);

}  // namespace carat::grammar
