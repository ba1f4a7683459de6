#include "cli/stream_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "model/config.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(PolicyFlagTest, NamesThoseThereAre) {
  const MainResult result =
      RunMain({"run", "-m", "m", "-p", "a", "--policy", "x"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("two-queue"));
}

}  // namespace
}  // namespace thermocline::cli
