#include "storage/open_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "os/test_folder.h"

namespace thermocline::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<OpenFile> OpenOne(const std::string& path, bool direct) {
  return OpenForReads(path, direct);
}

TEST(OpenFileTest, KnowsItsSizeAndAlignments) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(5000, 'x'));
  const auto cached = OpenOne(path, false);
  ASSERT_TRUE(cached.has_value());
  EXPECT_EQ(cached->num_bytes, 5000u);
  EXPECT_FALSE(cached->is_direct());
  EXPECT_EQ(cached->offset_alignment, 1u);
  EXPECT_EQ(cached->memory_alignment, 1u);

  const auto direct = OpenOne(path, true);
  ASSERT_TRUE(direct.has_value());
  if (!direct->is_direct()) GTEST_SKIP() << "no O_DIRECT in " << folder.path();
  EXPECT_TRUE(std::has_single_bit(direct->offset_alignment));
  EXPECT_TRUE(std::has_single_bit(direct->memory_alignment));
  EXPECT_GE(direct->offset_alignment, 512u);
  EXPECT_LE(direct->offset_alignment, 4096u);
}

TEST(OpenFileTest, AlignmentIsThatOfThePickiest) {
  std::vector<OpenFile> files(3);
  EXPECT_EQ(AlignmentOf(files), 1u);
  files[1].offset_alignment = 512;
  EXPECT_EQ(AlignmentOf(files), 512u);
  files[2].memory_alignment = 4096;
  EXPECT_EQ(AlignmentOf(files), 4096u);
}

TEST(OpenFileTest, MessagesSayWhereAndWhetherTheFileHasChanged) {
  const os::TestFolder folder;
  const std::string path = folder.Write("file", std::string(5000, 'x'));
  const auto file = OpenOne(path, false);
  ASSERT_TRUE(file.has_value());
  const Read inside{.offset = 4096, .num_bytes = 904};
  const Read across{.offset = 4096, .num_bytes = 905};
  EXPECT_TRUE(CheckRange(*file, inside).has_value());
  EXPECT_EQ(CheckRange(*file, across).error().message,
            path + ": ends after 5000 bytes, and not with 905 bytes at 4096");
  EXPECT_EQ(FailedRead(*file, inside, EIO).error().message,
            path + ": cannot read 904 bytes at 4096: Input/output error");

  std::filesystem::resize_file(path, 4999);
  for (const Status& status :
       {CheckRange(*file, across), FailedRead(*file, inside, EIO),
        EndedRead(*file, inside)}) {
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr(path), HasSubstr("was changed")));
  }
}

}  // namespace
}  // namespace thermocline::storage
