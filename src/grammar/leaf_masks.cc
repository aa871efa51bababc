#include "grammar/leaf_masks.h"

#include <algorithm>
#include <utility>

namespace carat::grammar {
namespace {

constexpr std::size_t kFew = 1024;

/// Adds the tokens and exits from `node` of the trie on, before whose last byte the automaton stands at
/// `leaf`.
void add_below(const TokenTrie& trie, const ByteDfas& dfas, uint32_t node, const Leaf& leaf, LeafMask& mask) {
  const auto reach = [&](uint32_t reached, const Leaf& at) {
    const auto tokens = trie.tokens(reached);
    mask.few.insert(mask.few.end(), tokens.begin(), tokens.end());
    if (trie.has_children(reached) && dfas.accepts(at) && !dfas.begins_character(at.state))
      mask.exits.push_back(reached);
  };
  const auto step = [&](Leaf& at, uint8_t byte) { return dfas.advance(at, byte); };
  Leaf start = leaf;
  if (node != 0) {
    if (!step(start, trie.byte(node))) return;
    reach(node, start);
  }
  trie.walk(node, start, step, reach);
}

void pack(LeafMask& mask) {
  if (mask.few.size() <= kFew) return;
  const std::vector<int32_t> many = std::exchange(mask.few, {});
  if (mask.words.empty()) mask.words.assign(static_cast<std::size_t>(std::ranges::max(many)) / 32 + 1, 0);
  for (const int32_t token : many) set_bit(mask.words, token);
}

LeafMask compute(const TokenTrie& trie, const ByteDfas& dfas, const Leaf& leaf) {
  LeafMask mask;
  add_below(trie, dfas, 0, leaf, mask);
  pack(mask);
  return mask;
}

/// The mask of a state that leads elsewhere than `base` for a few bytes.
LeafMask compute_beside(const LeafMask& base, const TokenTrie& trie, const ByteDfas& dfas, const Leaf& leaf) {
  LeafMask mask = {.few = {}, .words = base.words, .exits = base.exits};
  if (mask.words.empty()) return compute(trie, dfas, leaf);
  for (int byte = 0; byte < 256; ++byte) {
    const auto first = static_cast<uint8_t>(byte);
    const uint32_t node = trie.first_node(first);
    if (node == 0 || dfas.step(leaf.state, first) == dfas.step(dfas.base(leaf.state), first)) continue;
    for (const int32_t token : trie.tokens_from(node)) clear_bit(mask.words, token);
    std::erase_if(mask.exits, [&](uint32_t exit) { return exit >= node && exit < trie.behind(node); });
    add_below(trie, dfas, node, leaf, mask);
  }
  pack(mask);
  return mask;
}

}  // namespace

std::shared_ptr<const LeafMask> LeafMasks::get(const TokenTrie& trie, const ByteDfas& dfas, const Leaf& leaf,
                                               LeafMasks& shared) {
  // Numbers of characters that no token reaches are all the same.
  const uint32_t reach = trie.most_characters();
  const Leaf key = {leaf.state, std::min(leaf.needed, reach + 1), leaf.left > reach ? kUnlimited : leaf.left};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = masks_.find(key); found != masks_.end()) return found->second;
  }
  const DfaState base = dfas.base(leaf.state);
  auto mask = std::make_shared<const LeafMask>(
      base == kNoState ? compute(trie, dfas, key)
                       : compute_beside(*shared.get(trie, dfas, {.state = base}), trie, dfas, key));
  const std::lock_guard lock(mutex_);
  if (masks_.size() >= most_) masks_.clear();
  masks_.emplace(key, mask);
  return mask;
}

}  // namespace carat::grammar
