// The vocabulary as a tree of bytes, in which a mask looks at beginnings that tokens share once. Built once
// per tokenizer; immutable.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace carat::grammar {

/// Ordinary tokens only. Nodes are numbered in the order of a walk that visits a node before its children;
/// node 0 is the root.
class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);

  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  uint8_t byte(uint32_t node) const { return bytes_[node]; }
  /// The first node behind the subtree of `node`.
  uint32_t behind(uint32_t node) const { return behind_[node]; }
  bool has_children(uint32_t node) const { return behind_[node] > node + 1; }
  /// Whose bytes end here; usually none or one.
  std::span<const int32_t> tokens(uint32_t node) const {
    return std::span(ids_).subspan(first_id_[node], first_id_[node + 1] - first_id_[node]);
  }
  /// All ordinary tokens.
  std::span<const int32_t> tokens() const { return ids_; }
  /// Tokens that begin with a byte up to `byte`.
  uint32_t tokens_up_to(uint8_t byte) const { return beginning_[byte]; }
  /// The most characters of a token.
  uint32_t most_characters() const { return most_characters_; }

  /// The node below the root of the tokens that begin with `byte`, or 0 when there are none.
  uint32_t first_node(uint8_t byte) const {
    uint32_t node = 1;
    while (node < size() && bytes_[node] < byte) node = behind_[node];
    return node < size() && bytes_[node] == byte ? node : 0;
  }
  /// Of the node and all below it.
  std::span<const int32_t> tokens_from(uint32_t node) const {
    return std::span(ids_).subspan(first_id_[node], first_id_[behind(node)] - first_id_[node]);
  }

  /// Visits the nodes below `root` that `step(state, byte)` reaches: step returns whether the byte leads on,
  /// and `reach(node, state)` is called for each node that was.
  template <class State, class Step, class Reach>
  void walk(uint32_t root, const State& start, Step&& step, Reach&& reach) const {
    struct Open {
      uint32_t behind;
      State state;
    };
    std::vector<Open> open{{behind(root), start}};
    for (uint32_t node = root + 1; node < behind(root);) {
      while (node >= open.back().behind) open.pop_back();
      State state = open.back().state;
      if (!step(state, byte(node))) {
        node = behind(node);
        continue;
      }
      reach(node, state);
      if (has_children(node)) open.push_back({behind(node), state});
      ++node;
    }
  }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> behind_, first_id_;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> beginning_;
  uint32_t most_characters_ = 0;
};

}  // namespace carat::grammar
