// What the values of options may be, with messages of one line: CLI11's own print the largest double in full.
// Used by command_line.cc.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace carat {

/// Returns what is wrong with the value, such as "must be 1 or more, not 0"; empty when nothing is. May
/// rewrite the value into the form that is converted afterwards.
using ValueCheck = std::function<std::string(std::string& value)>;

/// A decimal integer in [least, most].
ValueCheck whole_number(int64_t least, int64_t most);
/// A decimal integer below 2^64.
ValueCheck seed_number();
/// A finite number in [least, most].
ValueCheck real_number(double least, double most);
ValueCheck one_of(std::initializer_list<const char*> words);
/// true or false, in the spellings that variables of the environment use.
ValueCheck truth_value();
/// Not an empty text; `what` says what to give instead.
ValueCheck not_empty(const char* what);

/// The candidate that `word` was probably meant to be, empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace carat
