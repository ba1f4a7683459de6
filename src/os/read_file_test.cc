#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "os/file.h"
#include "os/test_folder.h"

namespace thermocline::os {
namespace {

TEST(ReadFileTest, BytesComeAsTheyAre) {
  const TestFolder folder;
  std::string text("a\0\r\n\xff", 5);
  EXPECT_EQ(ReadFile(folder.Write("f", text)).value(), text);
  EXPECT_EQ(ReadFile(folder.Write("empty", "")).value(), "");
  text.assign(3'000'001, 'x');
  EXPECT_EQ(ReadFile(folder.Write("large", text)).value(), text);
}

TEST(ReadFileTest, ErrorsNameThePath) {
  const TestFolder folder;
  folder.Write("file", "x");
  for (const auto& [path, code] :
       {std::pair(folder / "nowhere", ErrorCode::kNotFound),
        std::pair(folder / "file/child", ErrorCode::kNotFound),
        std::pair(folder.path(), ErrorCode::kIo)}) {
    const auto read = ReadFile(path);
    ASSERT_FALSE(read.has_value()) << path;
    EXPECT_EQ(read.error().code, code) << path;
    EXPECT_EQ(read.error().message.find(path + ": "), 0u)
        << read.error().message;
  }
}

TEST(HasEntryTest, LinksThatLeadNowhereCount) {
  const TestFolder folder;
  EXPECT_TRUE(HasEntry(folder.Write("file", "x")));
  EXPECT_TRUE(HasEntry(folder.path()));
  EXPECT_FALSE(HasEntry(folder / "nowhere"));
  EXPECT_FALSE(HasEntry(folder / "file/child"));
  ASSERT_EQ(symlink("nowhere", (folder / "link").c_str()), 0);
  EXPECT_TRUE(HasEntry(folder / "link"));
}

TEST(ReadFileTest, LimitIsInclusive) {
  const TestFolder folder;
  const std::string path = folder.Write("f", "12345");
  EXPECT_EQ(ReadFile(path, 5).value(), "12345");
  const auto refused = ReadFile(path, 4);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

// Such files announce no size.
TEST(ReadFileTest, ProcfsAndPipes) {
  EXPECT_FALSE(ReadFile("/proc/self/status").value().empty());
  const TestFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string text(200'000, 'y');
  std::thread writer([&] { std::ofstream(fifo) << text; });
  EXPECT_EQ(ReadFile(fifo).value(), text);
  writer.join();
  std::thread second([&] { std::ofstream(fifo) << "123456"; });
  EXPECT_EQ(ReadFile(fifo, 3).error().code, ErrorCode::kResourceExhausted);
  second.join();
}

TEST(ReadFileTest, StandardInput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "hello", 5), 5);
  close(ends[1]);
  const int saved = dup(0);
  dup2(ends[0], 0);
  close(ends[0]);
  EXPECT_EQ(ReadFile("/dev/stdin").value(), "hello");
  if (saved >= 0) {
    dup2(saved, 0);
    close(saved);
  }
}

}  // namespace
}  // namespace thermocline::os
