// A regular expression as a tree. Used by regex_dfa.cc.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace carat::grammar {

inline constexpr uint32_t kMostCodePoint = 0x10FFFF;

/// Code points, as ranges in order that neither touch nor overlap.
using CodePoints = std::vector<std::pair<uint32_t, uint32_t>>;
CodePoints complement(const CodePoints& points);

struct RegexNode {
  enum class Kind { characters, sequence, alternatives, repetition };
  static constexpr int kEndless = -1;

  Kind kind = Kind::sequence;
  CodePoints characters = {};
  std::vector<RegexNode> parts = {};
  int least = 1, most = 1;
};

/// One of the alternatives at the top of a pattern.
struct RegexAlternative {
  bool at_begin = false, at_end = false;  // anchored with ^ or $
  RegexNode body;
};

/// Throws std::invalid_argument for what is wrong or not a regular language, in words that follow the
/// pattern's name.
std::vector<RegexAlternative> parse_regex(std::string_view pattern);

}  // namespace carat::grammar
