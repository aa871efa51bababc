#include "base/error.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace carat {
namespace {

TEST(Error, JoinsItsPartsIntoOneMessage) {
  expect_error(ErrorKind::corrupt, {"f.bin: 12 bytes missing"},
               [] { fail(ErrorKind::corrupt, "f.bin", ": ", 12, " bytes missing"); });
}

TEST(Error, IsAStandardException) { EXPECT_THROW(fail(ErrorKind::unsupported, "x"), std::runtime_error); }

TEST(CheckDeathTest, AbortsAndNamesTheCondition) {
  CHECK(1 + 1 == 2);
  EXPECT_DEATH(CHECK(1 + 1 == 3), "error_test.cc:[0-9]+: CHECK failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace carat
