#include "grammar/state_sets.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/random.h"

namespace carat::grammar {
namespace {

constexpr SetId kUnknown = 0xFFFFFFFF;
constexpr std::size_t kMostConfigs = 20'000;  // an ambiguous schema may need any number

auto order_of(const Config& config) {
  return std::tuple(config.node, config.stack, config.leaf.state, config.leaf.needed, config.leaf.left);
}

uint64_t hash_of(std::span<const Config> configs) {
  uint64_t hash = configs.size();
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15 + (hash >> 29); };
  for (const Config& config : configs) {
    mix(uint64_t{config.node} << 32 | config.stack);
    mix(uint64_t{config.leaf.needed} << 32 | config.leaf.left);
    mix(config.leaf.state);
  }
  return hash;
}

}  // namespace

StateSets::StateSets(const Program& program, Node entry) : program_(&program), frames_{{0, 0, 0}} {
  intern({});
  std::vector<Config> configs;
  close(entry, 0, configs);
  CHECK(intern(std::move(configs)) == kStart);
}

SetId StateSets::step(SetId set, uint8_t byte) {
  if (sets_[set].steps && (*sets_[set].steps)[byte] != kUnknown) return (*sets_[set].steps)[byte];
  std::vector<Config> next;
  const std::size_t count = sets_[set].configs.size();
  for (std::size_t i = 0; i < count; ++i) {
    Config config = sets_[set].configs[i];
    const Program::Position& position = (*program_)[config.node];
    if (position.kind != NodeKind::match || !program_->dfas().advance(config.leaf, byte)) continue;
    if (!program_->dfas().edges(config.leaf.state).empty()) next.push_back(config);
    if (program_->dfas().accepts(config.leaf)) close(position.next, config.stack, next);
  }
  const SetId result = intern(std::move(next));
  Set& from = sets_[set];
  if (!from.steps) {
    from.steps = std::make_unique<Steps>();
    from.steps->fill(kUnknown);
  }
  return (*from.steps)[byte] = result;
}

SetId StateSets::step_token(SetId set, int32_t token) {
  std::vector<Config> next;
  const std::vector<Config> configs = sets_[set].configs;
  for (const Config& config : configs) {
    const Program::Position& position = (*program_)[config.node];
    if (position.kind == NodeKind::token && position.what == static_cast<uint32_t>(token))
      close(position.next, config.stack, next);
  }
  return intern(std::move(next));
}

SetId StateSets::step_end(SetId set) {
  if (!has(set, NodeKind::end)) return kDead;
  return intern({{Program::kEnd, 0}});
}

SetId StateSets::behind(const Config& config) {
  std::vector<Config> configs;
  close((*program_)[config.node].next, config.stack, configs);
  return intern(std::move(configs));
}

void StateSets::close(Node node, uint32_t stack, std::vector<Config>& configs) {
  std::set<std::pair<Node, uint32_t>> seen;
  open_.assign(1, {node, stack});
  while (!open_.empty()) {
    std::tie(node, stack) = open_.back();
    open_.pop_back();
    const Program::Position& position = (*program_)[node];
    const uint32_t height = position.height;
    if (height > Program::kMaxDepth - frames_[stack].depth || !seen.emplace(node, stack).second) continue;
    if (configs.size() + seen.size() > kMostConfigs)
      fail(ErrorKind::unsupported, "the schema is too ambiguous: more than ", kMostConfigs,
           " of its parts may stand at one place of the reply");
    switch (position.kind) {
      case NodeKind::back:
        open_.emplace_back(frames_[stack].back, frames_[stack].parent);
        break;
      case NodeKind::match:
        add_match(node, stack, configs);
        break;
      case NodeKind::thought:
        open_.emplace_back(position.next, stack);
        [[fallthrough]];
      case NodeKind::end:
      case NodeKind::token:
        configs.push_back({node, stack});
        break;
      case NodeKind::choice:
        for (const Node target : position.targets) open_.emplace_back(target, stack);
        break;
      case NodeKind::call:
        open_.emplace_back(position.what,
                           position.next == Program::kBack ? stack : push(position.next, stack));
        break;
    }
  }
}

void StateSets::add_match(Node node, uint32_t stack, std::vector<Config>& configs) {
  const Program::Position& position = (*program_)[node];
  const Leaf leaf = {position.what, position.least, position.most};
  configs.push_back({node, stack, leaf});
  if (program_->dfas().accepts(leaf)) open_.emplace_back(position.next, stack);
}

uint32_t StateSets::push(Node back, uint32_t parent) {
  const auto [found, is_new] = frame_ids_.try_emplace({back, parent}, static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back({back, parent, frames_[parent].depth + 1});
  return found->second;
}

SetId StateSets::intern(std::vector<Config> configs) {
  std::ranges::sort(configs, {}, order_of);
  configs.erase(std::unique(configs.begin(), configs.end()), configs.end());
  const uint64_t hash = hash_of(configs);
  const auto [begin, end] = sets_by_hash_.equal_range(hash);
  for (auto known = begin; known != end; ++known)
    if (sets_[known->second].configs == configs) return known->second;
  Set set;
  for (const Config& config : configs) set.kinds |= 1u << static_cast<int>((*program_)[config.node].kind);
  set.configs = std::move(configs);
  sets_.push_back(std::move(set));
  const auto id = static_cast<SetId>(sets_.size() - 1);
  sets_by_hash_.emplace(hash, id);
  return id;
}

}  // namespace carat::grammar
