// Masks that depend on an automaton's state alone, not on where in the grammar it is used. Inside a text
// nearly all tokens stay inside, whatever comes behind it; only tokens that reach its end have to be looked
// at again. This is the idea of context-independent tokens in XGrammar (Dong et al., arXiv:2411.15100).
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "grammar/byte_dfa.h"
#include "grammar/token_trie.h"

namespace carat::grammar {

/// What may follow inside one automaton.
struct LeafMask {
  std::vector<int32_t> few;     // the tokens, when they are few
  std::vector<uint32_t> words;  // else a bit for each
  std::vector<uint32_t> exits;  // nodes of the trie that have children and where the automaton may end
};

/// A cache; safe to use from any thread.
class LeafMasks {
 public:
  /// Keeps about `most` masks, of up to a bit per token each.
  explicit LeafMasks(std::size_t most) : most_(most) {}

  /// `shared` has the masks of the states that all grammars have.
  std::shared_ptr<const LeafMask> get(const TokenTrie& trie, const ByteDfas& dfas, const Leaf& leaf,
                                      LeafMasks& shared);
  std::shared_ptr<const LeafMask> get(const TokenTrie& trie, const ByteDfas& dfas, const Leaf& leaf) {
    return get(trie, dfas, leaf, *this);
  }

 private:
  struct Hash {
    std::size_t operator()(const Leaf& leaf) const {
      return (leaf.state * std::size_t{0x9E3779B97F4A7C15} ^ leaf.needed) * 0x9E3779B97F4A7C15 ^ leaf.left;
    }
  };
  const std::size_t most_;
  std::mutex mutex_;
  std::unordered_map<Leaf, std::shared_ptr<const LeafMask>, Hash> masks_;
};

inline void set_bit(std::span<uint32_t> words, int32_t token) {
  const auto bit = static_cast<uint32_t>(token);
  if (bit / 32 < words.size()) words[bit / 32] |= 1u << bit % 32;
}

inline void clear_bit(std::span<uint32_t> words, int32_t token) {
  const auto bit = static_cast<uint32_t>(token);
  if (bit / 32 < words.size()) words[bit / 32] &= ~(1u << bit % 32);
}

}  // namespace carat::grammar
