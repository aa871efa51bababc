#include "grammar/number_dfa.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <utility>
#include <vector>

namespace carat::grammar {
namespace {

constexpr int kWholeDigits = 18, kFractionDigits = 24, kMostDigits = 300;
/// So many decimal digits are different numbers as doubles too: who reads the number must not round it to a
/// bound that it has to differ from.
constexpr int kExactDigits = 15;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

enum class Phase : int8_t {
  start,
  sign,
  zero,   // a single 0
  whole,  // other digits
  point,
  fraction,
  exponent,  // e
  exponent_sign,
  exponent_digit,
  exponent_digits  // both
};

/// What has been read of a number, as far as the rest depends on it.
struct Read {
  Phase phase = Phase::start;
  bool negative = false;
  int8_t digits = 0;  // of the part that is being read
  std::strong_ordering from =
      std::strong_ordering::equal;                        // the size so far, beside the smallest one allowed
  std::strong_ordering to = std::strong_ordering::equal;  // and beside the largest one
  int remainder = 0;
  int8_t fraction_left = 0;  // digits

  auto key() const {
    return std::array{static_cast<int>(phase), int{negative}, int{digits}, sign(from), sign(to), remainder,
                      int{fraction_left}};
  }
  static int sign(std::strong_ordering order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }
};

/// Bounds of the size, for one sign; a bound that isn't there is null.
struct SizeBounds {
  bool possible = true;
  std::optional<Bound> from, to;
};

bool is_zero(const Decimal& value) { return value.whole == "0" && value.fraction.empty(); }

SizeBounds size_bounds(const std::optional<Bound>& least, const std::optional<Bound>& most) {
  SizeBounds bounds;
  const bool below_zero =
      most && ((most->value.negative && !is_zero(most->value)) || (is_zero(most->value) && !most->inclusive));
  bounds.possible = !below_zero;
  if (most) bounds.to = most;
  if (least && (!least->value.negative || is_zero(least->value))) bounds.from = least;
  return bounds;
}

std::optional<Bound> negated(std::optional<Bound> bound) {
  if (bound) bound->value.negative = !bound->value.negative;
  return bound;
}

class NumberAutomaton {
 public:
  explicit NumberAutomaton(const NumberRange& range)
      : range_(range),
        sizes_{size_bounds(range.least, range.most), size_bounds(negated(range.most), negated(range.least))},
        bounded_(range.least || range.most),
        is_open_(!range.whole &&
                 ((range.least && !range.least->inclusive) || (range.most && !range.most->inclusive))) {}

  bool accepts(const Read& read) const {
    switch (read.phase) {
      case Phase::zero:
      case Phase::whole:
        return is_within(ended_whole(read), read.negative) && read.remainder == 0;
      case Phase::fraction:
        return is_within(read, read.negative);
      case Phase::exponent_digit:
      case Phase::exponent_digits:
        return true;
      default:
        return false;
    }
  }

  std::optional<Read> step(const Read& read, char c) const {
    switch (read.phase) {
      case Phase::start:
        if (c == '-' && sizes_[1].possible) return Read{.phase = Phase::sign, .negative = true};
        return sizes_[0].possible ? first_digit(read, c) : std::nullopt;
      case Phase::sign:
        return first_digit(read, c);
      case Phase::zero:
      case Phase::whole:
        if (is_digit(c)) return read.phase == Phase::whole ? next_digit(read, c) : std::nullopt;
        if (range_.whole) return std::nullopt;
        if (c == '.') return pointed(read);
        return c == 'e' || c == 'E' ? exponent(read, Phase::exponent) : std::nullopt;
      case Phase::point:
      case Phase::fraction:
        if (is_digit(c)) return fraction_digit(read, c);
        return read.phase == Phase::fraction && (c == 'e' || c == 'E') ? exponent(read, Phase::exponent)
                                                                       : std::nullopt;
      case Phase::exponent:
        if (c == '+' || c == '-') return exponent(read, Phase::exponent_sign);
        [[fallthrough]];
      case Phase::exponent_sign:
        return is_digit(c) ? exponent(read, Phase::exponent_digit) : std::nullopt;
      case Phase::exponent_digit:
        return is_digit(c) ? exponent(read, Phase::exponent_digits) : std::nullopt;
      case Phase::exponent_digits:
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  const SizeBounds& sizes(bool negative) const { return sizes_[negative ? 1 : 0]; }

  static std::strong_ordering compared(std::strong_ordering so_far, char digit,
                                       const std::optional<Bound>& bound, const std::string Decimal::* part,
                                       int at) {
    if (so_far != 0 || !bound) return so_far;
    const std::string& digits = bound->value.*part;
    const bool is_whole = part == &Decimal::whole;
    if (at >= static_cast<int>(digits.size()))
      return is_whole || digit > '0' ? std::strong_ordering::greater : so_far;
    return digit <=> digits[static_cast<std::size_t>(at)];
  }

  std::optional<Read> first_digit(const Read& read, char c) const {
    if (!is_digit(c)) return std::nullopt;
    Read next = read;
    next.phase = c == '0' ? Phase::zero : Phase::whole;
    return next_digit(next, c);
  }

  std::optional<Read> next_digit(Read next, char c) const {
    if (next.digits == (is_open_ ? kExactDigits : kWholeDigits)) return std::nullopt;
    const SizeBounds& bounds = sizes(next.negative);
    // More digits than the bound has are more than it, whatever came before.
    const auto read_digit = [&](std::strong_ordering so_far, const std::optional<Bound>& bound) {
      if (bound && next.digits >= static_cast<int>(bound->value.whole.size()))
        return std::strong_ordering::greater;
      return compared(so_far, c, bound, &Decimal::whole, next.digits);
    };
    next.from = read_digit(next.from, bounds.from);
    next.to = read_digit(next.to, bounds.to);
    next.remainder = (next.remainder * 10 + (c - '0')) % range_.multiple_of;
    ++next.digits;
    return next;
  }

  /// Fewer digits than the bound has are less than it.
  Read ended_whole(Read read) const {
    const auto shorter = [&](const std::optional<Bound>& bound) {
      return bound && read.digits < static_cast<int>(bound->value.whole.size());
    };
    if (shorter(sizes(read.negative).from)) read.from = std::strong_ordering::less;
    if (shorter(sizes(read.negative).to)) read.to = std::strong_ordering::less;
    read.digits = 0;
    return read;
  }

  std::optional<Read> pointed(const Read& read) const {
    Read next = ended_whole(read);
    next.phase = Phase::point;
    next.fraction_left = static_cast<int8_t>(is_open_ ? kExactDigits - read.digits : kFractionDigits);
    return next;
  }

  std::optional<Read> fraction_digit(Read next, char c) const {
    if (next.fraction_left == 0) return std::nullopt;
    const SizeBounds& bounds = sizes(next.negative);
    next.from = compared(next.from, c, bounds.from, &Decimal::fraction, next.digits);
    next.to = compared(next.to, c, bounds.to, &Decimal::fraction, next.digits);
    next.phase = Phase::fraction;
    ++next.digits;
    --next.fraction_left;
    return next;
  }

  std::optional<Read> exponent(const Read&, Phase phase) const {
    return bounded_ ? std::nullopt : std::optional(Read{.phase = phase});
  }

  bool is_within(const Read& read, bool negative) const {
    const auto beside = [&](std::strong_ordering so_far, const std::optional<Bound>& bound) {
      const bool goes_on = static_cast<int>(bound->value.fraction.size()) > read.digits;
      return so_far == 0 && goes_on ? std::strong_ordering::less : so_far;
    };
    if (const auto& bound = sizes(negative).from) {
      const auto order = beside(read.from, bound);
      if (order < 0 || (order == 0 && !bound->inclusive)) return false;
    }
    if (const auto& bound = sizes(negative).to) {
      const auto order = beside(read.to, bound);
      if (order > 0 || (order == 0 && !bound->inclusive)) return false;
    }
    return true;
  }

  const NumberRange& range_;
  SizeBounds sizes_[2];  // of numbers from zero up, and of those with a minus sign
  bool bounded_, is_open_;
};

/// Digits of "12.5e-3" with the place of the point.
std::optional<Decimal> shifted(bool negative, std::string digits, int point) {
  if (point > kMostDigits || point < -kMostDigits) return std::nullopt;
  if (point < 0) {
    std::string padded(static_cast<std::size_t>(-point), '0');
    padded += digits;
    digits = std::move(padded);
    point = 0;
  }
  if (static_cast<int>(digits.size()) < point) digits.resize(static_cast<std::size_t>(point), '0');
  const std::size_t first = digits.find_first_not_of('0');
  const auto whole_digits = static_cast<std::size_t>(point);
  Decimal value{negative, std::string(1, '0'), digits.substr(whole_digits)};
  if (first < whole_digits) value.whole = digits.substr(first, whole_digits - first);
  while (value.fraction.ends_with('0')) value.fraction.pop_back();
  return value;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view json) {
  const bool negative = json.starts_with('-');
  if (negative) json.remove_prefix(1);
  std::string digits;
  int point = -1;
  std::size_t at = 0;
  for (; at < json.size() && json[at] != 'e' && json[at] != 'E'; ++at) {
    if (json[at] == '.')
      point = static_cast<int>(digits.size());
    else
      digits += json[at];
  }
  if (digits.size() > kMostDigits) return std::nullopt;
  if (point < 0) point = static_cast<int>(digits.size());
  if (at < json.size()) {
    int exponent = 0;
    const bool down = json[at + 1] == '-';
    for (const char c : json.substr(at + 1))
      if (is_digit(c)) exponent = std::min(exponent * 10 + (c - '0'), 10 * kMostDigits);
    point += down ? -exponent : exponent;
  }
  return shifted(negative, std::move(digits), point);
}

int compare(const Decimal& one, const Decimal& other) {
  if (is_zero(one) && is_zero(other)) return 0;
  if (one.negative != other.negative) return one.negative ? -1 : 1;
  const int direction = one.negative ? -1 : 1;
  if (one.whole.size() != other.whole.size())
    return one.whole.size() < other.whole.size() ? -direction : direction;
  int order = one.whole.compare(other.whole);
  if (order == 0) order = one.fraction.compare(other.fraction);
  return order < 0 ? -direction : order > 0 ? direction : 0;
}

std::optional<DfaState> add_numbers(ByteDfas& dfas, const NumberRange& range) {
  const NumberAutomaton automaton(range);
  std::map<std::array<int, 7>, DfaState> states;
  std::vector<Read> open;
  const auto state_of = [&](const Read& read) {
    const auto [found, is_new] = states.try_emplace(read.key());
    if (is_new) {
      found->second = dfas.add(automaton.accepts(read));
      open.push_back(read);
    }
    return found->second;
  };
  const DfaState start = state_of({});
  while (!open.empty()) {
    const Read read = open.back();
    open.pop_back();
    const DfaState from = states.at(read.key());
    for (const char c : std::string_view("0123456789-+.eE"))
      if (const auto next = automaton.step(read, c)) dfas.add_edge(from, c, state_of(*next));
  }
  return dfas.prune(start, start) ? std::optional(start) : std::nullopt;
}

}  // namespace carat::grammar
