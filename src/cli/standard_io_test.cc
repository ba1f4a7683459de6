#include "cli/standard_io.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

TEST(WriteStdoutTest, WritesBytesAsTheyAre) {
  ::testing::internal::CaptureStdout();
  const std::string text("a\0b\xff\n", 5);
  ASSERT_TRUE(WriteStdout(text).has_value());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), text);
}

// Runs `body` with descriptor `fd` replaced by `other`.
template <typename Body>
void WithDescriptor(int fd, int other, Body&& body) {
  const int saved = ::dup(fd);
  ::dup2(other, fd);
  body();
  ::dup2(saved, fd);
  ::close(saved);
}

TEST(WriteStdoutTest, TellsAGoneReaderFromAFullDisk) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  Status gone;
  WithDescriptor(STDOUT_FILENO, ends[1], [&] { gone = WriteStdout("x"); });
  ::close(ends[1]);
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code, ErrorCode::kCancelled);

  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  Status error;
  WithDescriptor(STDOUT_FILENO, full, [&] { error = WriteStdout("x"); });
  ::close(full);
  ASSERT_FALSE(error.has_value());
  EXPECT_EQ(error.error().code, ErrorCode::kIo);
  EXPECT_THAT(error.error().message,
              ::testing::HasSubstr("cannot write standard output: No space"));
}

TEST(ReadStdinTest, ReadsAllBytesUpToTheLimit) {
  const std::string text("x\0y\n", 4);
  for (const size_t limit : {size_t{4}, size_t{3}}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), 4);
    ::close(ends[1]);
    Result<std::string> read;
    WithDescriptor(STDIN_FILENO, ends[0], [&] { read = ReadStdin(limit); });
    ::close(ends[0]);
    ASSERT_EQ(read.has_value(), limit == 4);
    if (read.has_value()) {
      EXPECT_EQ(*read, text);
    } else {
      EXPECT_EQ(read.error().code, ErrorCode::kResourceExhausted);
    }
  }
}

TEST(ReadTextTest, ReadsFilesAndStandardInput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "in", 2), 2);
  ::close(ends[1]);
  Result<std::string> read;
  WithDescriptor(STDIN_FILENO, ends[0], [&] { read = ReadText("-"); });
  ::close(ends[0]);
  EXPECT_EQ(read.value(), "in");
  EXPECT_EQ(ReadText("/dev/null").value(), "");
  EXPECT_EQ(ReadBytes("/dev/null").value(), "");
  EXPECT_EQ(ReadText("/nowhere").error().code, ErrorCode::kNotFound);
}

TEST(ReadTextTest, DropsAByteOrderMarkInFront) {
  const os::TestFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  const std::string path = folder.Write("text", mark + mark + "a");
  EXPECT_EQ(ReadText(path).value(), mark + "a");
  EXPECT_EQ(LongText::Open(path)->text(), mark + "a");
  EXPECT_EQ(ReadBytes(path).value(), mark + mark + "a");
}

TEST(LongTextTest, FilesAndStandardInput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "in", 2), 2);
  ::close(ends[1]);
  WithDescriptor(STDIN_FILENO, ends[0], [&] {
    const auto read = LongText::Open("-");
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->text(), "in");
  });
  ::close(ends[0]);
  const os::TestFolder folder;
  const auto file = LongText::Open(folder.Write("text", "of a file"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->text(), "of a file");
  const auto empty = LongText::Open(folder.Write("empty", ""));
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->text(), "");
  EXPECT_EQ(LongText::Open("/dev/null").value().text(), "");
  EXPECT_EQ(LongText::Open("/nowhere").error().code, ErrorCode::kNotFound);
}

TEST(EnsureStandardStreamsDeathTest, FillsClosedDescriptors) {
  EXPECT_EXIT(
      {
        ::close(STDIN_FILENO);
        ::close(STDOUT_FILENO);
        EnsureStandardStreams();
        const bool empty = ReadStdin() == "";
        const Status written = WriteStdout("nobody hears this");
        const bool told = !written && written.error().code == ErrorCode::kIo;
        const int next = ::open("/dev/null", O_RDONLY);
        ::_exit(empty && told && next > STDERR_FILENO ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(InputNameTest, TellsStandardInputAndDropsFolders) {
  for (const char* path : {"-", "/dev/stdin"}) {
    EXPECT_EQ(InputName(path), "standard input");
    EXPECT_EQ(InputFileName(path), "standard input");
  }
  EXPECT_EQ(InputName("a/text.txt"), "a/text.txt");
  EXPECT_EQ(InputFileName("a/text.txt"), "text.txt");
}

}  // namespace
}  // namespace thermocline::cli
