// Source of a template -> tree. What chat templates use of Jinja is read; everything else is refused here, by
// name, so that a template never renders to something other than its author meant.
#pragma once
#include <string>
#include <string_view>

#include "chat/jinja_ast.h"

namespace carat::jinja {

/// Throws Error{corrupt} for bad syntax and Error{unsupported} for statements, filters and tests that are not
/// known, with `name`, line and column.
Block parse_template(std::string_view source, const std::string& name);

}  // namespace carat::jinja
