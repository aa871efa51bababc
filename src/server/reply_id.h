// Names for replies and tool calls that nobody can guess or meet twice.
#pragma once
#include <string>
#include <string_view>

namespace carat {

/// `prefix` and 24 random letters and digits.
std::string random_id(std::string_view prefix);

}  // namespace carat
