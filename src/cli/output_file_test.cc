#include "cli/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

using Paths = std::vector<std::string>;

TEST(RefuseToReplaceInputTest, KnowsAFileByAllItsNames) {
  const os::TestFolder folder;
  const std::string input = folder.Write("input", "x");
  const std::string other = folder.Write("other", "x");
  std::filesystem::create_symlink("input", folder / "link");
  const Paths inputs = {folder / "absent", input};
  for (const std::string& output :
       {input, folder / "./input", folder / "link"}) {
    const Status status = RefuseToReplaceInput(output, inputs);
    ASSERT_FALSE(status.has_value()) << output;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(output));
  }
  for (const std::string& output : {other, folder / "new", folder / "absent"}) {
    EXPECT_TRUE(RefuseToReplaceInput(output, inputs).has_value()) << output;
  }
}

// One terminal may be both ends.
TEST(RefuseToReplaceInputTest, DevicesReplaceNothing) {
  EXPECT_TRUE(
      RefuseToReplaceInput("/dev/null", Paths{"/dev/null"}).has_value());
}

TEST(FilesInTest, ListsAFolder) {
  const os::TestFolder folder;
  folder.Write("a", "");
  folder.Write("b/c", "");
  EXPECT_THAT(FilesIn(folder.path()),
              UnorderedElementsAre(folder / "a", folder / "b"));
  EXPECT_TRUE(FilesIn(folder / "absent").empty());
  EXPECT_TRUE(FilesIn(folder / "a").empty());
}

TEST(RefuseToReplaceInputTest, ADashIsNoName) {
  const auto status = RefuseToReplaceInput("-", {});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("/dev/stdout"));
}

TEST(ModelFilesTest, NamesTheShards) {
  EXPECT_EQ(ModelFiles("d/m.gguf"), Paths{"d/m.gguf"});
  EXPECT_THAT(ModelFiles("d/m-00001-of-00002.gguf"),
              ::testing::IsSupersetOf(
                  {"d/m-00001-of-00002.gguf", "d/m-00002-of-00002.gguf"}));
}

}  // namespace
}  // namespace thermocline::cli
