#include "cli/eval_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(EvalCommandTest, HelpNamesItsCommands) {
  const MainResult result = RunMain({"eval", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* name : {"logits", "ppl", "kl", "mc"}) {
    EXPECT_THAT(result.out, HasSubstr(std::string("  ") + name));
  }
  EXPECT_EQ(RunMain({"eval"}).exit_code, 2);
}

}  // namespace
}  // namespace thermocline::cli
