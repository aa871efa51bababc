// The pushdown automaton of a program: its states are sets of positions, each with the calls it is inside of.
// States get numbers as they come up, and remember where a byte leads. One per request, for one thread.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/program.h"

namespace carat::grammar {

using SetId = uint32_t;

/// A position: a node of any kind but back, choice and call.
struct Config {
  Node node;
  uint32_t stack;  // of calls; see StateSets::Frame
  Leaf leaf = {};  // of a match

  bool operator==(const Config&) const = default;
};

class StateSets {
 public:
  static constexpr SetId kDead = 0, kStart = 1;

  /// The program has to outlive this.
  StateSets(const Program& program, Node entry);

  std::span<const Config> configs(SetId set) const { return sets_[set].configs; }
  bool has(SetId set, NodeKind kind) const { return sets_[set].kinds >> static_cast<int>(kind) & 1; }
  SetId step(SetId set, uint8_t byte);
  /// By a special token that is none of the end tokens.
  SetId step_token(SetId set, int32_t token);
  /// By an end token, behind which only end tokens come.
  SetId step_end(SetId set);
  /// Behind the match at `config`, as if its automaton accepted here.
  SetId behind(const Config& config);
  /// Of the matches of `set` that `is_chosen`.
  template <class Choice>
  SetId subset(SetId set, Choice&& is_chosen) {
    std::vector<Config> chosen;
    for (const Config& config : sets_[set].configs)
      if ((*program_)[config.node].kind == NodeKind::match && is_chosen(config)) chosen.push_back(config);
    return intern(std::move(chosen));
  }
  /// Each takes about a kilobyte.
  std::size_t size() const { return sets_.size(); }

 private:
  using Steps = std::array<SetId, 256>;
  struct Set {
    std::vector<Config> configs;
    unsigned kinds = 0;            // bit k: has a config of NodeKind k
    std::unique_ptr<Steps> steps;  // kUnknown where not looked at yet
  };
  struct Frame {
    Node back;        // where the rule returns to
    uint32_t parent;  // its stack there
    uint32_t depth;
  };

  /// Adds the configs that `node` leads to without a byte.
  void close(Node node, uint32_t stack, std::vector<Config>& configs);
  void add_match(Node node, uint32_t stack, std::vector<Config>& configs);
  uint32_t push(Node back, uint32_t parent);
  SetId intern(std::vector<Config> configs);

  const Program* program_;
  std::vector<Set> sets_;
  std::unordered_multimap<uint64_t, SetId> sets_by_hash_;
  std::vector<Frame> frames_;  // 0: no call
  std::map<std::pair<Node, uint32_t>, uint32_t> frame_ids_;
  std::vector<std::pair<Node, uint32_t>> open_;  // of close()
};

}  // namespace carat::grammar
