#include "grammar/program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace carat::grammar {

Node Program::add(Position position) {
  if (nodes_.size() >= kMaxNodes)
    fail(ErrorKind::unsupported, "the grammar has more than ", kMaxNodes, " nodes; make the schema smaller");
  nodes_.push_back(std::move(position));
  return static_cast<Node>(nodes_.size() - 1);
}

uint32_t Program::height_of(const Position& position) const {
  switch (position.kind) {
    case NodeKind::back:
    case NodeKind::end:
      return 0;
    case NodeKind::match:
    case NodeKind::token:
    case NodeKind::thought:
      return nodes_[position.next].height;
    case NodeKind::choice: {
      uint32_t least = kUnlimited;
      for (const Node target : position.targets) least = std::min(least, nodes_[target].height);
      return least;
    }
    case NodeKind::call: {
      const uint32_t rule = nodes_[position.what].height;
      if (rule == kUnlimited || position.next == kBack) return rule;
      return std::max(rule + 1, nodes_[position.next].height);
    }
  }
  return kUnlimited;
}

/// The least solution, from above: nodes mostly come after those that they lead to, so that a few rounds do.
bool Program::finish(Node entry) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Position& position : nodes_) {
      const uint32_t height = height_of(position);
      changed |= height != position.height;
      position.height = height;
    }
  }
  return nodes_[entry].height <= kMaxDepth;
}

}  // namespace carat::grammar
