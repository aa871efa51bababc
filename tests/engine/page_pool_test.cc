#include "engine/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace carat {
namespace {

TEST(PagePool, HandsOutEveryPageOnce) {
  PagePool pool(5);
  std::set<int32_t> pages;
  while (pool.available() > 0) pages.insert(pool.take());
  EXPECT_EQ(pages, (std::set<int32_t>{0, 1, 2, 3, 4}));
}

TEST(PagePool, APageReturnsWhenItsLastHolderDropsIt) {
  PagePool pool(1);
  const int32_t page = pool.take();
  pool.hold(page);
  pool.drop(page);
  EXPECT_EQ(pool.available(), 0);
  EXPECT_EQ(pool.holders(page), 1);
  pool.drop(page);
  EXPECT_EQ(pool.available(), 1);
}

TEST(PagePool, TakesEmptyPagesFirstAndThenTheOneKeptLongest) {
  PagePool pool(4);
  const int32_t a = pool.take(), b = pool.take(), c = pool.take();
  for (const int32_t page : {b, a}) {
    pool.keep(page);
    pool.drop(page);
  }
  pool.drop(c);
  EXPECT_EQ(pool.available(), 4);
  const std::set<int32_t> first{pool.take(), pool.take()};
  EXPECT_FALSE(first.contains(a) || first.contains(b));
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
}

TEST(PagePool, APageDroppedToTheFrontOfTheLineIsTheNextToGo) {
  PagePool pool(3);
  const int32_t pages[] = {pool.take(), pool.take(), pool.take()};
  for (const int32_t page : pages) pool.keep(page);
  pool.drop(pages[0]);
  pool.drop(pages[1], PagePool::Line::front);
  pool.drop(pages[2]);
  EXPECT_EQ(pool.take(), pages[1]);
  EXPECT_EQ(pool.take(), pages[0]);
}

TEST(PagePool, AKeptPageCanBeHeldAgain) {
  PagePool pool(2);
  const int32_t page = pool.take();
  pool.keep(page);
  pool.drop(page);
  pool.hold(page);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_NE(pool.take(), page);
  pool.drop(page);
  EXPECT_EQ(pool.take(), page);
}

TEST(PagePool, AForgottenPageIsEmptyAgain) {
  PagePool pool(2);
  const int32_t held = pool.take(), kept = pool.take();
  for (const int32_t page : {held, kept}) pool.keep(page);
  pool.drop(kept);
  pool.forget(kept);
  pool.forget(held);
  EXPECT_EQ(pool.available(), 1);
  pool.drop(held);
  EXPECT_EQ(pool.available(), 2);
  pool.take();
  pool.take();
  EXPECT_EQ(pool.available(), 0);
}

}  // namespace
}  // namespace carat
