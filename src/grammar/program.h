// A grammar as a program: nodes that match bytes or one special token, choose, call a rule and return. The
// pushdown automaton whose states are sets of positions in it is in state_sets.h. Built by notation.h and
// json_schema.h.
#pragma once
#include <cstdint>
#include <vector>

#include "grammar/byte_dfa.h"

namespace carat::grammar {

using Node = uint32_t;

enum class NodeKind : uint8_t {
  back,     // end of a rule: to where it was called from
  end,      // the reply is complete
  match,    // bytes that an automaton accepts
  token,    // one special token
  thought,  // any ordinary tokens
  choice,   // of targets
  call      // of a rule
};

class Program {
 public:
  struct Position {
    NodeKind kind;
    Node next = 0;
    uint32_t what = 0;   // the automaton's first state, the token, or the rule
    uint32_t least = 0;  // characters of a counted text
    uint32_t most = kUnlimited;
    uint32_t height = kUnlimited;  // calls inside one another that the shortest way back takes
    std::vector<Node> targets = {};
  };
  /// Rules inside one another. Each array and object is one, so that this bounds the nesting of a reply;
  /// parsers have bounds too, Gemma's calls are read up to 64 deep.
  static constexpr uint32_t kMaxDepth = 60;
  static constexpr std::size_t kMaxNodes = 200'000;
  static constexpr Node kBack = 0, kEnd = 1;

  Program() : nodes_{{NodeKind::back}, {NodeKind::end}} {}

  ByteDfas& dfas() { return dfas_; }
  const ByteDfas& dfas() const { return dfas_; }
  const Position& operator[](Node node) const { return nodes_[node]; }
  std::size_t size() const { return nodes_.size(); }

  Node match(DfaState start, Node next) { return add({NodeKind::match, next, start}); }
  /// Of an automaton for texts.
  Node match_counted(DfaState start, uint32_t least, uint32_t most, Node next) {
    return add({NodeKind::match, next, start, least, most});
  }
  Node token(int32_t id, Node next) { return add({NodeKind::token, next, static_cast<uint32_t>(id)}); }
  Node thought(Node next) { return add({NodeKind::thought, next}); }
  Node call(Node rule, Node next) { return add({NodeKind::call, next, rule}); }
  /// Without a target: what can't be.
  Node choice(std::vector<Node> targets = {}) {
    const Node node = add({NodeKind::choice});
    nodes_[node].targets = std::move(targets);
    return node;
  }
  void add_target(Node choice, Node target) { nodes_[choice].targets.push_back(target); }

  /// After everything was added. False when there is no text that gets from `entry` to the end.
  bool finish(Node entry);

 private:
  Node add(Position position);
  uint32_t height_of(const Position& position) const;

  ByteDfas dfas_;
  std::vector<Position> nodes_;
};

}  // namespace carat::grammar
