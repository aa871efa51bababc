#include "engine/prefix_cache.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace carat {

PrefixCache::Key PrefixCache::key_of(Key parent, std::span<const int32_t> tokens,
                                     std::string_view salt) const {
  Key key = parent;
  if (parent == kRoot) {
    for (const char c : salt) key = random_bits(key, static_cast<unsigned char>(c) + 1u);
  }
  for (const int32_t token : tokens) key = random_bits(key, static_cast<uint32_t>(token));
  key &= key_bits_;
  return key == kRoot ? 1 : key;
}

PrefixCache::Node* PrefixCache::find(Key key, Key parent, std::span<const int32_t> tokens,
                                     std::string_view salt) {
  const auto found = nodes_.find(key);
  if (found == nodes_.end()) return nullptr;
  Node& node = found->second;
  const bool same = node.parent == parent && std::ranges::equal(node.tokens, tokens) &&
                    (parent != kRoot || node.salt == salt);
  return same ? &node : nullptr;
}

PrefixCache::Node* PrefixCache::insert(Key key, Key parent, std::span<const int32_t> tokens,
                                       std::string_view salt) {
  const auto [place, inserted] = nodes_.try_emplace(key);
  if (!inserted) return nullptr;
  Node& node = place->second;
  node.parent = parent;
  node.tokens.assign(tokens.begin(), tokens.end());
  if (parent == kRoot) node.salt = salt;
  node.pages.fill(-1);
  if (parent != kRoot) ++nodes_.at(parent).children;
  return &node;
}

void PrefixCache::set_page(Key key, int group, int32_t page) {
  nodes_.at(key).pages[group] = page;
  owners_[group][page] = key;
}

int32_t PrefixCache::lose_page(int group, int32_t page) {
  const auto owner = owners_[group].find(page);
  if (owner == owners_[group].end()) return -1;
  const Key key = owner->second;
  owners_[group].erase(owner);
  Node& node = nodes_.at(key);
  node.pages[group] = -1;
  if (group != kFullGroup) return -1;
  CHECK(node.children == 0);
  const int32_t other = node.pages[kSlidingGroup];
  if (other >= 0) owners_[kSlidingGroup].erase(other);
  if (node.parent != kRoot) --nodes_.at(node.parent).children;
  nodes_.erase(key);
  return other;
}

}  // namespace carat
