// Filters on lists and mappings: part of the table of filters in jinja_filters.cc.
#pragma once
#include <vector>

#include "chat/jinja_runtime.h"

namespace carat::jinja {

const std::vector<Builtin>& list_filters();

}  // namespace carat::jinja
