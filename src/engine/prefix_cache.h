// Which pages hold which beginning of a text. One node per page of text: its key hashes the node before it
// and its tokens, and a node is only ever taken for what it is after comparing both, so that no collision of
// hashes can hand out another text's pages. Used by KvPages.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/gemma4.h"

namespace carat {

class PrefixCache {
 public:
  using Key = uint64_t;
  static constexpr Key kRoot = 0;  // before the first page

  struct Node {
    Key parent = kRoot;
    std::vector<int32_t> tokens;
    std::string salt;                        // of a text's first page: texts with another salt never match
    std::array<int32_t, kKvGroups> pages{};  // -1: not in this group
    int children = 0;
  };

  /// `key_bits`: the bits of a hash that are used; a test lowers it to provoke collisions.
  explicit PrefixCache(int page_tokens, uint64_t key_bits = ~uint64_t{0})
      : page_tokens_(page_tokens), key_bits_(key_bits) {}

  /// The key of the page of text `tokens` that follows `parent`. `salt` counts for first pages only.
  Key key_of(Key parent, std::span<const int32_t> tokens, std::string_view salt) const;
  /// The node of exactly this text, or null.
  Node* find(Key key, Key parent, std::span<const int32_t> tokens, std::string_view salt);
  /// A new node; null when its key is taken by another text, which then is not cached.
  Node* insert(Key key, Key parent, std::span<const int32_t> tokens, std::string_view salt);
  /// Makes `page` the node's in this group.
  void set_page(Key key, int group, int32_t page);
  /// A page is about to get other content. Its node dies with its full-attention page; returns the page that
  /// this frees in the other group, or -1. Children must have died before.
  int32_t lose_page(int group, int32_t page);

  int page_tokens() const { return page_tokens_; }
  std::size_t size() const { return nodes_.size(); }

 private:
  int page_tokens_;
  uint64_t key_bits_;
  std::unordered_map<Key, Node> nodes_;
  std::array<std::unordered_map<int32_t, Key>, kKvGroups> owners_;  // page -> node
};

}  // namespace carat
