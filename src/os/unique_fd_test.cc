#include "os/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "os/test_folder.h"

namespace thermocline::os {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesWhenItGoes) {
  int number = -1;
  {
    const UniqueFd fd(dup(0));
    ASSERT_TRUE(fd);
    number = fd.get();
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
  EXPECT_FALSE(UniqueFd());
}

TEST(UniqueFdTest, MovesHandOver) {
  UniqueFd a(dup(0));
  const int number = a.get();
  UniqueFd b = std::move(a);
  EXPECT_EQ(b.get(), number);
  UniqueFd c;
  c = std::move(b);
  EXPECT_EQ(c.get(), number);
  EXPECT_EQ(c.Close(), 0);
  EXPECT_FALSE(IsOpen(number));
  EXPECT_EQ(c.Close(), 0);
}

TEST(UniqueFdTest, CloseReportsErrors) {
  UniqueFd fd(dup(0));
  close(fd.get());
  EXPECT_EQ(fd.Close(), EBADF);
}

TEST(FileErrorTest, NamesPathActionAndReason) {
  const Error missing = FileError("a/b", "cannot open", ENOENT);
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.message, "a/b: cannot open: No such file or directory");
  EXPECT_EQ(FileError("a", "cannot open", EACCES).code, ErrorCode::kIo);
}

TEST(OpenForReadingTest, FoldersAndZeroBytesAreRefused) {
  const TestFolder folder;
  const auto as_file = OpenForReading(folder.path(), PipePolicy::kNoWait);
  ASSERT_FALSE(as_file.has_value());
  EXPECT_NE(as_file.error().message.find("is a folder"), std::string::npos);
  EXPECT_FALSE(
      OpenForReading(std::string("a\0b", 3), PipePolicy::kNoWait).has_value());
  EXPECT_TRUE(OpenForReading(folder.Write("x", "y"), PipePolicy::kWaitForWriter)
                  .has_value());
}

}  // namespace
}  // namespace thermocline::os
