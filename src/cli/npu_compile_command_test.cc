#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/commands.h"
#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Who reads the help has no use for it, and a compile finds it by the path of
// the program that runs.
TEST(NpuCompileCommandTest, IsForTheProgramAlone) {
  EXPECT_THAT(RunMain({"--help"}).out, Not(HasSubstr("npu-compile")));
  EXPECT_THAT(NpuCompileCommand(), ElementsAre(HasSubstr("/"), "npu-compile"));
}

TEST(NpuCompileCommandTest, AFolderWithoutAJobIsAnError) {
  const MainResult result = RunMain({"npu-compile", "/no/such/folder"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("/no/such/folder"));
  EXPECT_EQ(RunMain({"npu-compile"}).exit_code, 2);
}

}  // namespace
}  // namespace thermocline::cli
