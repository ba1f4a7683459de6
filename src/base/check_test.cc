#include "base/check.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(CheckTest, PassingCheckDoesNothing) { TC_CHECK(1 + 1 == 2); }

TEST(CheckDeathTest, FailingCheckNamesTheCondition) {
  EXPECT_DEATH(TC_CHECK(1 + 1 == 3), "check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace thermocline
