#include "cli/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using Args = std::vector<std::string>;

bool TakesValue(std::string_view flag) {
  return flag == "-p" || flag == "-n" || flag == "-c" || flag == "--ctk";
}

Args Rewrite(const Args& args) { return RewriteArgs(args, TakesValue); }

TEST(RewriteArgsTest, GivesKnownMultiLetterFlagsTwoDashes) {
  EXPECT_THAT(Rewrite({"run", "-ctk", "f16", "-ngl", "99", "-fa"}),
              ElementsAre("run", "--ctk", "f16", "--ngl", "99", "--fa"));
  EXPECT_THAT(Rewrite({"-ctk=f16", "-no-cnv"}),
              ElementsAre("--ctk=f16", "--no-cnv"));
}

TEST(RewriteArgsTest, LeavesValuesAlone) {
  EXPECT_THAT(Rewrite({"-p", "-ctk", "-ctk", "-ctk"}),
              ElementsAre("-p", "-ctk", "--ctk", "-ctk"));
  EXPECT_THAT(Rewrite({"-p", "--", "-ctk"}), ElementsAre("-p", "--", "--ctk"));
}

TEST(RewriteArgsTest, LeavesOtherArgumentsAlone) {
  const Args args = {"-n",  "-1",     "-n128", "-1", "-c", "4096",
                     "-ct", "--ctk2", "-x",    "-",  "",   "-mM.gguf"};
  EXPECT_EQ(Rewrite(args), args);
}

TEST(RewriteArgsTest, StopsAtTheDoubleDash) {
  EXPECT_THAT(Rewrite({"-fa", "--", "-fa"}), ElementsAre("--fa", "--", "-fa"));
}

TEST(RewriteArgsTest, SurvivesAMissingValue) {
  EXPECT_THAT(Rewrite({"-p"}), ElementsAre("-p"));
  EXPECT_THAT(Rewrite({}), ElementsAre());
}

TEST(FlagAsTypedTest, UndoesTheRewriting) {
  EXPECT_EQ(FlagAsTyped("--ngl"), "-ngl");
  EXPECT_EQ(FlagAsTyped("--ctk=f16"), "-ctk=f16");
  EXPECT_EQ(FlagAsTyped("--prompt"), "--prompt");
  EXPECT_EQ(FlagAsTyped("-p"), "-p");
}

}  // namespace
}  // namespace thermocline::cli
