// Deterministic automata over bytes: the regular parts of a grammar, such as a number, a key or the inside of
// a text. All automata of a grammar share one table of states. Used by the other parts of grammar/.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carat::grammar {

using DfaState = uint32_t;
inline constexpr DfaState kNoState = 0xFFFFFFFF;
inline constexpr uint32_t kUnlimited = 0xFFFFFFFF;

/// Where a match stands: a state, and how many characters a text still needs and may still have.
struct Leaf {
  DfaState state = kNoState;
  uint32_t needed = 0, left = kUnlimited;

  bool operator==(const Leaf&) const = default;
};

class ByteDfas {
 public:
  struct Edge {
    uint8_t first, last;
    DfaState to;
  };

  /// Has the texts below from the beginning, under the same numbers in every table.
  ByteDfas();
  std::size_t size() const { return states_.size(); }
  static std::size_t shared_states();

  // Texts, which count their characters (see advance()).
  DfaState json_text() const { return json_text_; }    // behind the first quote, the last one included
  DfaState json_key() const { return json_key_; }      // the same, each character spelled in only one way
  DfaState gemma_text() const { return gemma_text_; }  // between quote tokens: anything but <|"|>

  DfaState add(bool accepts);
  /// Edges of a state don't overlap.
  void add_edge(DfaState from, uint8_t first, uint8_t last, DfaState to);
  void add_edge(DfaState from, char byte, DfaState to) {
    add_edge(from, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
  }
  /// `bytes`, and then what `end` matches.
  DfaState chain(std::string_view bytes, DfaState end);
  /// One of `words`, none of them empty.
  DfaState any_of(std::span<const std::string> words);
  /// json_key(), but none of these keys, which are spelled as json_key() would and have their last quote.
  DfaState key_but(std::span<const std::string> keys);
  /// Takes out what leads nowhere among the states from `first` on. False when nothing is left of `start`.
  bool prune(DfaState first, DfaState start);

  /// A shared state from which most bytes lead where they lead from this one; kNoState for most.
  DfaState base(DfaState state) const { return states_[state].base; }

  bool accepts(DfaState state) const { return states_[state].accepts; }
  std::span<const Edge> edges(DfaState state) const { return states_[state].edges; }
  DfaState step(DfaState state, uint8_t byte) const {
    for (const Edge& edge : states_[state].edges)
      if (byte >= edge.first && byte <= edge.last) return edge.to;
    return kNoState;
  }
  /// Takes the byte, if the automaton and the number of characters allow it.
  bool advance(Leaf& leaf, uint8_t byte) const {
    const DfaState to = step(leaf.state, byte);
    if (to == kNoState) return false;
    if (states_[leaf.state].begins_character && !count_character(leaf, to)) return false;
    leaf.state = to;
    return true;
  }
  /// Of a text; where it also accepts, what follows is a special token and no byte.
  bool begins_character(DfaState state) const { return states_[state].begins_character; }
  bool accepts(const Leaf& leaf) const { return accepts(leaf.state) && leaf.needed == 0; }

 private:
  struct State {
    std::vector<Edge> edges;
    bool accepts = false;
    DfaState base = kNoState;
    bool begins_character = false;  // the next byte begins a character, or is the quote behind the last one
  };

  bool count_character(Leaf& leaf, DfaState to) const {
    const bool is_quote = states_[to].accepts && !states_[to].begins_character;
    if (is_quote) return leaf.needed == 0;
    if (leaf.left == 0) return false;
    if (leaf.left != kUnlimited) --leaf.left;
    if (leaf.needed > 0) --leaf.needed;
    return true;
  }
  void add_multibyte(DfaState from, DfaState to);
  DfaState add_text();
  DfaState add_json_text(bool one_spelling);
  void add_unicode_escapes(DfaState from, DfaState to);
  DfaState add_gemma_text();

  std::vector<State> states_;
  DfaState json_text_, json_key_, gemma_text_;
};

}  // namespace carat::grammar
