#include "cli/option_values.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "base/utf8.h"

namespace carat {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// `text` may be longer than any number: a message needs only its beginning.
std::string plain(const std::string& text) { return printable(text.substr(0, 40)); }

struct Parsed {
  bool number, fits;
};

template <class T>
Parsed parse(const std::string& text, T& value) {
  const char *first = text.data(), *last = first + text.size();
  const auto [end, error] = std::from_chars(first, last, value);
  return {error != std::errc::invalid_argument && end == last, error == std::errc{}};
}

}  // namespace

ValueCheck whole_number(int64_t least, int64_t most) {
  return [least, most](std::string& text) -> std::string {
    int64_t value = 0;
    const auto [number, fits] = parse(text, value);
    const std::string range = " from " + std::to_string(least) + " to " + std::to_string(most);
    if (!number) return "must be a whole number" + range + ", not " + in_quotes(text, 40);
    if (!fits) return "must be" + range + ", not " + plain(text);
    if (value < least) return "must be " + std::to_string(least) + " or more, not " + plain(text);
    if (value > most) return "must be at most " + std::to_string(most) + ", not " + plain(text);
    text = std::to_string(value);  // CLI11 would read a leading zero as octal
    return {};
  };
}

ValueCheck seed_number() {
  return [](std::string& text) -> std::string {
    uint64_t value = 0;
    if (const auto [number, fits] = parse(text, value); !number || !fits) {
      return "must be a whole number from 0 to " + std::to_string(std::numeric_limits<uint64_t>::max()) +
             ", not " + in_quotes(text, 40);
    }
    text = std::to_string(value);
    return {};
  };
}

ValueCheck real_number(double least, double most) {
  return [least, most](std::string& text) -> std::string {
    double value = 0;
    const auto [number, fits] = parse(text, value);
    const std::string range = " from " + shown(least) + " to " + shown(most);
    if (!number) return "must be a number" + range + ", not " + in_quotes(text, 40);
    if (!fits || !(value >= least && value <= most)) return "must be" + range + ", not " + plain(text);
    return {};
  };
}

ValueCheck one_of(std::initializer_list<const char*> words) {
  const std::vector<std::string> known(words.begin(), words.end());
  return [known](std::string& text) -> std::string {
    if (std::ranges::count(known, text) > 0) return {};
    std::string list;
    for (const std::string& word : known) {
      list += list.empty() ? "" : word == known.back() ? " or " : ", ";
      list += word;
    }
    return "must be " + list + ", not " + in_quotes(text, 40);
  };
}

ValueCheck truth_value() {
  return [](std::string& text) -> std::string {
    for (const char* word : {"true", "1", "yes", "on"})
      if (text == word) text = "true";
    for (const char* word : {"false", "0", "no", "off"})
      if (text == word) text = "false";
    return text == "true" || text == "false" ? "" : "must be true or false, not " + in_quotes(text, 40);
  };
}

ValueCheck not_empty(const char* what) {
  return [what](std::string& text) { return text.empty() ? std::string("is empty; give ") + what : ""; };
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  if (word.size() < 3) return best;
  std::size_t least = std::min<std::size_t>(3, word.size() / 2 + 1);  // more edits are no slip
  for (const std::string& candidate : candidates) {
    if (candidate.starts_with(word)) return candidate;
    std::vector<std::size_t> row(candidate.size() + 1);  // of the edit distance, one letter of `word` a row
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i] != candidate[j]);
        diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace carat
