#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "os/file.h"
#include "os/test_folder.h"
#include "probe/storage_rates.h"

namespace thermocline::probe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StorageFileTest, HasNoNameAndRandomBytes) {
  const os::TestFolder folder;
  constexpr uint64_t kBytes = (uint64_t{1} << 20) + 100;
  auto file = MakeTestFile(folder.path(), kBytes, 3, {});
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(folder.num_entries(), 0);
  const auto text = os::ReadFile(file->path);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(text->size(), kBytes);
  EXPECT_NE(text->substr(0, 64), text->substr(64, 64));
  struct stat info = {};
  ASSERT_EQ(fstat(file->fd.get(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0u);
}

TEST(StorageFileTest, LeavesTheDiskSomeSpace) {
  const os::TestFolder folder;
  const auto file = MakeTestFile(
      folder.path(), uint64_t{1} << 60, 3,
      [](auto...) { ADD_FAILURE() << "nothing is to be written"; });
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(file.error().message,
              AllOf(HasSubstr(folder.path()), HasSubstr("is to leave 256")));
  const auto nowhere = MakeTestFile(folder / "absent", 1, 3, {});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace thermocline::probe
