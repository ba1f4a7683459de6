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

TEST(RewriteArgsTest, GivesMultiLetterFlagsTwoDashes) {
  EXPECT_THAT(Rewrite({"run", "-ctk", "f16", "-ngl", "99", "-fa"}),
              ElementsAre("run", "--ctk", "f16", "--ngl", "99", "--fa"));
  EXPECT_THAT(Rewrite({"-ctk=f16", "-no-cnv"}),
              ElementsAre("--ctk=f16", "--no-cnv"));
  EXPECT_THAT(Rewrite({"-pg", "1,2", "-rs", "-mM.gguf"}),
              ElementsAre("--pg", "1,2", "--rs", "--mM.gguf"));
}

TEST(RewriteArgsTest, TakesUnderscoresInLongNames) {
  EXPECT_THAT(Rewrite({"--ctx_size", "9", "--n_gpu_layers=a_b", "-no_cnv"}),
              ElementsAre("--ctx-size", "9", "--n-gpu-layers=a_b", "--no-cnv"));
  EXPECT_THAT(Rewrite({"a_b", "-p", "--a_b", "--", "--a_b"}),
              ElementsAre("a_b", "-p", "--a_b", "--", "--a_b"));
}

TEST(RewriteArgsTest, LeavesValuesAlone) {
  EXPECT_THAT(Rewrite({"-p", "-ctk", "-ctk", "-ctk"}),
              ElementsAre("-p", "-ctk", "--ctk", "-ctk"));
  EXPECT_THAT(Rewrite({"-p", "--", "-ctk"}), ElementsAre("-p", "--", "--ctk"));
}

TEST(RewriteArgsTest, LeavesOtherArgumentsAlone) {
  const Args args = {"-n",   "-1",     "-n128", "-n-1", "-c=9", "-c",
                     "4096", "--ctk2", "-x",    "-",    "",     "-1e5"};
  EXPECT_EQ(Rewrite(args), args);
}

TEST(RewriteArgsTest, StopsAtTheDoubleDash) {
  EXPECT_THAT(Rewrite({"-fa", "--", "-fa"}), ElementsAre("--fa", "--", "-fa"));
}

TEST(RewriteArgsTest, SurvivesAMissingValue) {
  EXPECT_THAT(Rewrite({"-p"}), ElementsAre("-p"));
  EXPECT_THAT(Rewrite({}), ElementsAre());
}

TEST(AsTypedTest, UndoesTheRewriting) {
  const Args typed = {"run", "-ngl", "--prompt", "-ctk=f16", "--a_b=c_d"};
  EXPECT_EQ(AsTyped("--ngl", typed), "-ngl");
  EXPECT_EQ(AsTyped("--ctk=f16", typed), "-ctk=f16");
  EXPECT_EQ(AsTyped("--prompt", typed), "--prompt");
  EXPECT_EQ(AsTyped("--a-b=c_d", typed), "--a_b=c_d");
  EXPECT_EQ(AsTyped("-p", typed), "-p");
}

}  // namespace
}  // namespace thermocline::cli
