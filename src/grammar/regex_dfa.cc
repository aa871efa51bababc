#include "grammar/regex_dfa.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chat/python_text.h"
#include "grammar/regex_parser.h"

namespace carat::grammar {
namespace {

constexpr std::size_t kMostNfaStates = 20'000, kMostDfaStates = 20'000, kMostWork = 2'000'000;

using NfaState = uint32_t;

/// Thompson's automaton, over the bytes that spell the characters.
class Nfa {
 public:
  struct Edge {
    uint8_t first, last;
    NfaState to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<NfaState> empty;
  };

  Nfa(const std::vector<RegexAlternative>& alternatives, Spelling spelling) : spelling_(spelling) {
    const RegexNode anything{RegexNode::Kind::repetition,
                             {},
                             {{RegexNode::Kind::characters, {{0, kMostCodePoint}}, {}, 1, 1}},
                             0,
                             RegexNode::kEndless};
    const NfaState start = add(), end = add();
    for (const RegexAlternative& alternative : alternatives) {
      NfaState at = alternative.at_begin ? start : append(anything, start);
      at = append(alternative.body, at);
      if (!alternative.at_end) at = append(anything, at);
      states_[at].empty.push_back(end);
    }
    accepting_ = end;
    if (spelling_ != Spelling::json) return;
    accepting_ = add();
    states_[end].edges.push_back({'"', '"', accepting_});
  }

  const State& operator[](NfaState state) const { return states_[state]; }
  NfaState accepting() const { return accepting_; }

  /// Adds what is reached without a byte.
  std::vector<NfaState> closure(std::vector<NfaState> open) const {
    std::set<NfaState> seen(open.begin(), open.end());
    while (!open.empty()) {
      const NfaState state = open.back();
      open.pop_back();
      for (const NfaState to : states_[state].empty)
        if (seen.insert(to).second) open.push_back(to);
    }
    return {seen.begin(), seen.end()};
  }

 private:
  NfaState add() {
    if (states_.size() >= kMostNfaStates) throw std::invalid_argument("is too large");
    states_.emplace_back();
    return static_cast<NfaState>(states_.size() - 1);
  }

  /// Returns where the part ends.
  NfaState append(const RegexNode& node, NfaState from) {
    switch (node.kind) {
      case RegexNode::Kind::characters: {
        const NfaState to = add();
        for (const auto& [first, last] : node.characters) add_characters(from, to, first, last);
        return to;
      }
      case RegexNode::Kind::sequence:
        for (const RegexNode& part : node.parts) from = append(part, from);
        return from;
      case RegexNode::Kind::alternatives: {
        const NfaState end = add();
        for (const RegexNode& part : node.parts) {
          const NfaState begin = add();
          states_[from].empty.push_back(begin);
          states_[append(part, begin)].empty.push_back(end);
        }
        return end;
      }
      case RegexNode::Kind::repetition:
        return append_copies(node, from);
    }
    return from;
  }

  NfaState append_copies(const RegexNode& node, NfaState from) {
    for (int i = 0; i < node.least; ++i) from = append(node.parts[0], from);
    const NfaState end = add();
    if (node.most == RegexNode::kEndless) {
      const NfaState again = add();
      states_[from].empty.push_back(again);
      states_[append(node.parts[0], again)].empty.push_back(again);
      states_[again].empty.push_back(end);
      return end;
    }
    for (int i = node.least; i < node.most; ++i) {
      states_[from].empty.push_back(end);
      from = append(node.parts[0], from);
    }
    states_[from].empty.push_back(end);
    return end;
  }

  void add_characters(NfaState from, NfaState to, uint32_t first, uint32_t last) {
    if (spelling_ == Spelling::json) {
      for (const uint32_t code : {0x22u, 0x5Cu}) {
        if (code < first || code > last) continue;
        add_bytes(from, to, std::string{'\\', static_cast<char>(code)});
        if (code > first) add_characters(from, to, first, code - 1);
        if (code < last) add_characters(from, to, code + 1, last);
        return;
      }
      for (; first < 0x20 && first <= last; ++first) add_bytes(from, to, control_escape(first));
    }
    if (first <= last) add_code_points(from, to, first, last);
  }

  static std::string control_escape(uint32_t code) {
    static constexpr std::string_view kShort = "\b\f\n\r\t", kLetters = "bfnrt", kHex = "0123456789abcdef";
    if (const std::size_t at = kShort.find(static_cast<char>(code)); at != kShort.npos)
      return {'\\', kLetters[at]};
    return {'\\', 'u', '0', '0', kHex[code >> 4], kHex[code & 15]};
  }

  void add_bytes(NfaState from, NfaState to, const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const NfaState next = i + 1 == bytes.size() ? to : add();
      const auto byte = static_cast<uint8_t>(bytes[i]);
      states_[from].edges.push_back({byte, byte, next});
      from = next;
    }
  }

  void add_code_points(NfaState from, NfaState to, uint32_t first, uint32_t last) {
    static constexpr std::array<std::pair<uint32_t, uint32_t>, 5> kSameLength = {
        {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMostCodePoint}}};
    for (const auto& [begin, end] : kSameLength) {
      const uint32_t low = std::max(first, begin), high = std::min(last, end);
      if (low > high) continue;
      std::string low_bytes, high_bytes;
      append_utf8(low, low_bytes);
      append_utf8(high, high_bytes);
      add_byte_range(from, to, low_bytes, high_bytes);
    }
  }

  /// The texts from `low` to `high`, which have the same number of bytes.
  void add_byte_range(NfaState from, NfaState to, std::string_view low, std::string_view high) {
    auto first = static_cast<uint8_t>(low[0]), last = static_cast<uint8_t>(high[0]);
    if (low.size() == 1) return states_[from].edges.push_back({first, last, to});
    const std::string least(low.size() - 1, '\x80'), most(low.size() - 1, '\xBF');
    const auto branch = [&](uint8_t begin, uint8_t end, std::string_view rest_low,
                            std::string_view rest_high) {
      const NfaState next = add();
      states_[from].edges.push_back({begin, end, next});
      add_byte_range(next, to, rest_low, rest_high);
    };
    if (first == last) return branch(first, last, low.substr(1), high.substr(1));
    if (low.substr(1) != least) branch(first, first, low.substr(1), most), ++first;
    if (high.substr(1) != most) branch(last, last, least, high.substr(1)), --last;
    if (first <= last) branch(first, last, least, most);
  }

  Spelling spelling_;
  std::vector<State> states_;
  NfaState accepting_ = 0;
};

/// The automaton of sets of Nfa's states, beside that of texts, which counts characters and knows how each is
/// spelled.
class Determinizer {
 public:
  Determinizer(ByteDfas& dfas, const Nfa& nfa) : dfas_(dfas), nfa_(nfa) {}

  DfaState run(const Leaf& text) {
    const DfaState start = state_of({set_of(nfa_.closure({0})), text});
    while (!open_.empty()) {
      const Key key = open_.back();
      open_.pop_back();
      expand(key);
    }
    return start;
  }

 private:
  struct Key {
    std::size_t set;
    Leaf text;
    auto order() const { return std::tuple(set, text.state, text.needed, text.left); }
    bool operator<(const Key& other) const { return order() < other.order(); }
  };
  struct Range {
    uint8_t first, last;
    std::size_t set;
  };
  struct Set {
    std::vector<NfaState> states;
    bool is_expanded = false;
    std::vector<Range> ranges = {};
  };

  DfaState state_of(const Key& key) {
    const auto [found, is_new] = states_.try_emplace(key);
    if (is_new) {
      if (states_.size() > kMostDfaStates) throw std::invalid_argument("is too large");
      const auto& nfa_states = sets_[key.set].states;
      found->second =
          dfas_.add(std::ranges::binary_search(nfa_states, nfa_.accepting()) && dfas_.accepts(key.text));
      open_.push_back(key);
    }
    return found->second;
  }

  void spend(std::size_t work) {
    work_ += work;
    if (work_ > kMostWork) throw std::invalid_argument("is too large");
  }

  std::size_t set_of(std::vector<NfaState> states) {
    spend(states.size());
    const auto [found, is_new] = set_ids_.try_emplace(states, sets_.size());
    if (is_new) sets_.push_back({std::move(states)});
    return found->second;
  }

  void expand(const Key& key) {
    if (!sets_[key.set].is_expanded) find_ranges(key.set);
    const DfaState from = states_.at(key);
    const std::vector<Range> ranges = sets_[key.set].ranges;
    for (const Range& range : ranges) {
      for (int byte = range.first; byte <= range.last; ++byte) {
        Leaf text = key.text;
        if (!dfas_.advance(text, static_cast<uint8_t>(byte))) continue;
        dfas_.add_edge(from, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte),
                       state_of({range.set, text}));
      }
    }
  }

  /// Between two ends of edges all bytes lead to the same set.
  void find_ranges(std::size_t set) {
    std::set<int> begins;
    const std::vector<NfaState> states = sets_[set].states;
    for (const NfaState state : states)
      for (const Nfa::Edge& edge : nfa_[state].edges) begins.insert({edge.first, edge.last + 1});
    spend(states.size() * begins.size() / 8);
    std::vector<Range> ranges;
    for (auto begin = begins.begin(); begin != begins.end() && std::next(begin) != begins.end(); ++begin) {
      std::vector<NfaState> targets;
      for (const NfaState state : states)
        for (const Nfa::Edge& edge : nfa_[state].edges)
          if (edge.first <= *begin && *begin <= edge.last) targets.push_back(edge.to);
      if (targets.empty()) continue;
      ranges.push_back({static_cast<uint8_t>(*begin), static_cast<uint8_t>(*std::next(begin) - 1),
                        set_of(nfa_.closure(std::move(targets)))});
    }
    sets_[set].ranges = std::move(ranges);
    sets_[set].is_expanded = true;
  }

  ByteDfas& dfas_;
  const Nfa& nfa_;
  std::map<Key, DfaState> states_;
  std::vector<Key> open_;
  std::map<std::vector<NfaState>, std::size_t> set_ids_;
  std::vector<Set> sets_;
  std::size_t work_ = 0;
};

}  // namespace

std::optional<DfaState> add_pattern(ByteDfas& dfas, std::string_view pattern, Spelling spelling,
                                    uint32_t least, uint32_t most) {
  const Nfa nfa(parse_regex(pattern), spelling);
  const DfaState text = spelling == Spelling::json ? dfas.json_key() : dfas.gemma_text();
  const DfaState start = Determinizer(dfas, nfa).run({text, least, most});
  return dfas.prune(start, start) ? std::optional(start) : std::nullopt;
}

}  // namespace carat::grammar
