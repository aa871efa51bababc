// Automata for JSON numbers within bounds. Used by json_schema.h.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "grammar/byte_dfa.h"

namespace carat::grammar {

/// A decimal without exponent, as digits: "12", "5" is 12.5.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // no zero in front, but for "0" itself
  std::string fraction;     // no zeros at the end

  /// Of a number as JSON spells it; nullopt when it has more than 300 digits.
  static std::optional<Decimal> parse(std::string_view json);
  bool is_whole() const { return fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};

/// Less than, equal to or more than 0, as `one` is less than, equal to or more than `other`.
int compare(const Decimal& one, const Decimal& other);

struct Bound {
  Decimal value;
  bool inclusive = true;
};

struct NumberRange {
  bool whole = false;  // digits alone, neither fraction nor exponent
  std::optional<Bound> least, most;
  int multiple_of = 1;  // up to kMostMultiple; needs `whole`

  static constexpr int kMostMultiple = 1000;
};

/// The first state of an automaton for the numbers of the range, or nullopt when there are none. Numbers have
/// at most 18 digits before and 24 behind the point; without bounds also an exponent of up to two digits.
std::optional<DfaState> add_numbers(ByteDfas& dfas, const NumberRange& range);

}  // namespace carat::grammar
