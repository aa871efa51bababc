#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace carat {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixCache, FindsATextOnlyBehindTheOneItFollowed) {
  PrefixCache cache(2);
  const Tokens a{1, 2}, b{3, 4};
  const auto first = cache.key_of(PrefixCache::kRoot, a, ""), second = cache.key_of(first, b, "");
  ASSERT_NE(cache.insert(first, PrefixCache::kRoot, a, ""), nullptr);
  ASSERT_NE(cache.insert(second, first, b, ""), nullptr);
  EXPECT_NE(cache.find(second, first, b, ""), nullptr);
  const auto lone = cache.key_of(PrefixCache::kRoot, b, "");
  EXPECT_NE(lone, second);
  EXPECT_EQ(cache.find(lone, PrefixCache::kRoot, b, ""), nullptr);
}

TEST(PrefixCache, TextsWithAnotherSaltDoNotMatch) {
  PrefixCache cache(1);
  const Tokens text{1};
  const auto key = cache.key_of(PrefixCache::kRoot, text, "a");
  cache.insert(key, PrefixCache::kRoot, text, "a");
  EXPECT_NE(cache.find(key, PrefixCache::kRoot, text, "a"), nullptr);
  EXPECT_NE(cache.key_of(PrefixCache::kRoot, text, "b"), key);
  EXPECT_EQ(cache.find(key, PrefixCache::kRoot, text, "b"), nullptr) << "even if the keys were equal";
}

// With one bit of hash every text collides with every other one.
TEST(PrefixCache, ComparesTokensWhereKeysCollide) {
  PrefixCache cache(1, /*key_bits=*/1);
  const Tokens a{1}, b{2};
  const auto key = cache.key_of(PrefixCache::kRoot, a, "");
  ASSERT_EQ(cache.key_of(PrefixCache::kRoot, b, ""), key);
  ASSERT_NE(cache.insert(key, PrefixCache::kRoot, a, ""), nullptr);
  EXPECT_EQ(cache.find(key, PrefixCache::kRoot, b, ""), nullptr);
  EXPECT_EQ(cache.insert(key, PrefixCache::kRoot, b, ""), nullptr);
  EXPECT_EQ(cache.find(key, key, a, ""), nullptr) << "the same tokens behind another text";
}

TEST(PrefixCache, ANodeDiesWithItsFullPageAndFreesItsSlidingOne) {
  PrefixCache cache(1);
  const Tokens text{1};
  const auto key = cache.key_of(PrefixCache::kRoot, text, "");
  cache.insert(key, PrefixCache::kRoot, text, "");
  cache.set_page(key, kFullGroup, 4);
  cache.set_page(key, kSlidingGroup, 7);
  EXPECT_EQ(cache.lose_page(kSlidingGroup, 7), -1);
  ASSERT_NE(cache.find(key, PrefixCache::kRoot, text, ""), nullptr) << "a later text may bring the page back";
  EXPECT_EQ(cache.find(key, PrefixCache::kRoot, text, "")->pages[kSlidingGroup], -1);
  cache.set_page(key, kSlidingGroup, 8);
  EXPECT_EQ(cache.lose_page(kFullGroup, 4), 8);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.lose_page(kSlidingGroup, 8), -1);
}

}  // namespace
}  // namespace carat
