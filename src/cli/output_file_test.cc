#include "cli/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST(CheckOutputsTest, RefusesTwoThatAreOne) {
  const os::TestFolder folder;
  const std::string old = folder.Write("old", "x");
  std::filesystem::create_symlink("old", folder / "link");
  std::filesystem::create_symlink("new", folder / "to-new");
  std::filesystem::create_symlink("to-new", folder / "to-link");
  const std::string relative =
      std::filesystem::relative(folder / "new").string();
  for (const Paths& outputs :
       {Paths{folder / "new", folder / "other", folder / "./new"},
        Paths{folder / "new", relative}, Paths{old, folder / "link"},
        Paths{folder / "new", folder / "to-new"},
        Paths{folder / "to-link", folder / "new"}}) {
    const Status status = CheckOutputs(outputs, {});
    ASSERT_FALSE(status.has_value()) << outputs.back();
    EXPECT_THAT(status.error().message,
                HasSubstr(outputs.back() + ": two outputs have this name"));
  }
  EXPECT_TRUE(CheckOutputs(Paths{old, folder / "new", folder / "other"}, {}));
  EXPECT_TRUE(CheckOutputs(Paths{folder / "other", folder / "to-new"}, {}));
  EXPECT_TRUE(CheckOutputs(Paths{"/dev/null", "/dev/null"}, {}));
  EXPECT_FALSE(CheckOutputs(Paths{folder / "new", old}, Paths{old}));
}

TEST(WroteTest, NamesCannotSteerTheTerminal) {
  EXPECT_EQ(Wrote("a b.gguf"), "wrote a b.gguf");
  EXPECT_EQ(Wrote("a\n\x1b[31m.gguf"), "wrote a  [31m.gguf");
}

// One terminal may be both ends.
TEST(RefuseToReplaceInputTest, DevicesReplaceNothing) {
  EXPECT_TRUE(
      RefuseToReplaceInput("/dev/null", Paths{"/dev/null"}).has_value());
}

TEST(CheckOutputTest, WhatCannotBeWritten) {
  const os::TestFolder folder;
  const std::string file = folder.Write("file", "x");
  std::filesystem::create_directory(folder / "folder");
  std::filesystem::create_symlink("folder", folder / "link");
  for (const std::string& output :
       {folder / "folder", folder / "folder/", folder / "link",
        folder / "absent/new", file + "/new", folder / "new/"}) {
    const Status status = CheckOutput(output, {});
    ASSERT_FALSE(status.has_value()) << output;
    EXPECT_THAT(status.error().message, HasSubstr(output));
  }
  EXPECT_EQ(folder.num_entries(), 3);
}

TEST(CheckOutputTest, LeavesNothingAndReplacesNothing) {
  const os::TestFolder folder;
  const std::string file = folder.Write("file", "x");
  EXPECT_TRUE(CheckOutput(file, {}));
  EXPECT_TRUE(CheckOutput(folder / "new", {}));
  EXPECT_FALSE(CheckOutput(file, Paths{file}));
  EXPECT_EQ(os::TestFolder::Read(file), "x");
  EXPECT_EQ(folder.num_entries(), 1);
}

// Opening a pipe would wait for its reader.
TEST(CheckOutputTest, DevicesAndPipesAreNotOpened) {
  const os::TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(CheckOutput(pipe, {}));
  EXPECT_TRUE(CheckOutput("/dev/null", {}));
}

TEST(WriteReportTest, GivesWayWhereAFileIsStandardOutput) {
  const os::TestFolder folder;
  const std::string file = folder.Write("file", "x");
  for (const Paths& outputs : {Paths{}, Paths{file}}) {
    ::testing::internal::CaptureStdout();
    EXPECT_TRUE(WriteReport("wrote it\n", outputs).has_value());
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "wrote it\n");
  }
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(WriteReport("wrote it\n", {file, "/dev/stdout"}).has_value());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "wrote it\n");
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
