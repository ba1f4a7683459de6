#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/test_main.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(ConvertCommandTest, RefusesToReplaceItsInput) {
  const std::string folder = TempPath("hf");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << "{}";
  const MainResult result =
      RunMain({"convert", folder, "-o", folder + "/./config.json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("one of the files to read"));
  std::filesystem::remove_all(folder);
}

TEST(ConvertCommandTest, NamesAMissingFolderAndLeavesNoFile) {
  const std::string output = TempPath("none.gguf");
  const MainResult result = RunMain({"convert", "no/such", "-o", output});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no/such: does not exist"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(ConvertCommandTest, TheOutputHasLlamaCppsNameToo) {
  const MainResult result =
      RunMain({"convert", "no/such", "--outfile", TempPath("none.gguf")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no/such"));
}

}  // namespace
}  // namespace thermocline::cli
