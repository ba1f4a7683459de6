#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "os/file.h"
#include "os/test_folder.h"

namespace thermocline::os {
namespace {

TEST(MappedFileTest, ShowsTheBytes) {
  const TestFolder folder;
  const std::string path = folder.Write("f", std::string("ab\0c", 4));
  const auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->path(), path);
  ASSERT_EQ(file->bytes().size(), 4u);
  EXPECT_EQ(std::memcmp(file->bytes().data(), "ab\0c", 4), 0);
}

TEST(MappedFileTest, EmptyFilesMapToNothing) {
  const TestFolder folder;
  const auto file = MappedFile::Open(folder.Write("f", ""));
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, OnlyOrdinaryFilesCanBeMapped) {
  const TestFolder folder;
  EXPECT_EQ(MappedFile::Open(folder / "none").error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(folder.path()).error().code, ErrorCode::kIo);
  EXPECT_EQ(MappedFile::Open("/dev/null").error().code, ErrorCode::kIo);
}

// Nothing ever writes to this pipe: waiting for a writer would be for ever.
TEST(MappedFileTest, APipeIsRefusedAtOnce) {
  const TestFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  const auto file = MappedFile::Open(folder / "fifo");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kIo);
  EXPECT_NE(file.error().message.find("fifo: is a pipe"), std::string::npos);
}

TEST(MappedFileTest, AddressesLeadToThePathWhileItLives) {
  const TestFolder folder;
  const std::string path = folder.Write("f", "0123456789");
  const std::byte* inside = nullptr;
  {
    auto opened = MappedFile::Open(path);
    ASSERT_TRUE(opened.has_value());
    const MappedFile file = std::move(opened).value();
    inside = file.bytes().data();
    ASSERT_NE(FindMappedFile(inside), nullptr);
    EXPECT_EQ(FindMappedFile(inside), FindMappedFile(inside + 9));
    EXPECT_EQ(path, FindMappedFile(inside));
    EXPECT_EQ(FindMappedFile(inside + 10), nullptr);
    EXPECT_EQ(FindMappedFile(inside - 1), nullptr);
  }
  EXPECT_EQ(FindMappedFile(inside), nullptr);
  EXPECT_EQ(FindMappedFile(nullptr), nullptr);
}

TEST(MappedFileTest, MovesKeepTheMapping) {
  const TestFolder folder;
  // A short name lives inside the string object, which moves.
  MappedFile a = MappedFile::Open(folder.Write("a", "aaa")).value();
  MappedFile b = MappedFile::Open(folder.Write("b", "bbbb")).value();
  const std::byte* of_a = a.bytes().data();
  b = std::move(a);
  EXPECT_EQ(b.bytes().data(), of_a);
  EXPECT_STREQ(FindMappedFile(of_a), (folder / "a").c_str());
}

// From 2 MiB on huge pages are asked for; whether there are any shows nowhere.
TEST(MappedFileTest, LargeFilesShowTheirBytesToo) {
  const TestFolder folder;
  std::string text(9'000'001, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 7);
  const MappedFile file = MappedFile::Open(folder.Write("f", text)).value();
  ASSERT_EQ(file.bytes().size(), text.size());
  EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
}

TEST(MappedFileTest, ReadsTheWholeFile) {
  const TestFolder folder;
  std::string text(40'000'000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 7);
  const MappedFile file = MappedFile::Open(folder.Write("f", text)).value();
  std::string read(text.size(), '\0');
  uint64_t last_done = 0;
  const Status status = file.ReadInto(
      std::as_writable_bytes(std::span(read)),
      [&](std::string_view, uint64_t num_done, uint64_t num_total) {
        EXPECT_GT(num_done, last_done);
        EXPECT_EQ(num_total, text.size());
        last_done = num_done;
      });
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(last_done, text.size());
  EXPECT_TRUE(read == text);
}

TEST(MappedFileTest, ReadsARange) {
  const TestFolder folder;
  const MappedFile file = MappedFile::Open(folder.Write("f", "abcdef")).value();
  std::string read(3, '\0');
  ASSERT_TRUE(file.ReadRange(2, std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(read, "cde");
  ASSERT_EQ(truncate(file.path().c_str(), 4), 0);
  const Status cut = file.ReadRange(2, std::as_writable_bytes(std::span(read)));
  ASSERT_FALSE(cut.has_value());
  EXPECT_THAT(cut.error().message,
              ::testing::HasSubstr("f: ended at byte 4 of 6"));
}

TEST(MappedFileTest, ReadingMeetsAnEarlyEnd) {
  const TestFolder folder;
  const std::string path = folder.Write("f", std::string(100'000, 'x'));
  const MappedFile file = MappedFile::Open(path).value();
  ASSERT_EQ(truncate(path.c_str(), 12'345), 0);
  std::string read(100'000, '\0');
  const Status status = file.ReadInto(std::as_writable_bytes(std::span(read)));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message,
              ::testing::HasSubstr("f: ended at byte 12345 of 100000"));
}

TEST(MappedFileTest, AnotherFileOfTheNameIsNotRead) {
  const TestFolder folder;
  const std::string path = folder.Write("f", "old");
  const MappedFile file = MappedFile::Open(path).value();
  ASSERT_EQ(std::rename(folder.Write("g", "new").c_str(), path.c_str()), 0);
  std::string read(3, '\0');
  const Status status = file.ReadInto(std::as_writable_bytes(std::span(read)));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("f: was replaced"));
  ASSERT_EQ(std::remove(path.c_str()), 0);
  const Status deleted = file.ReadInto(std::as_writable_bytes(std::span(read)));
  ASSERT_FALSE(deleted.has_value());
  EXPECT_EQ(deleted.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(deleted.error().message, ::testing::HasSubstr(path));
}

// A write that the clock of the file system cannot miss.
void Overwrite(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0},
                             {.tv_sec = 1, .tv_nsec = 1}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(ChangedFilesTest, AFileThatIsWrittenOverIsTold) {
  const TestFolder folder;
  const std::string path = folder.Write("f", "old");
  (void)TakeChangedFiles();  // of other tests
  {
    const MappedFile file = MappedFile::Open(path).value();
    const MappedFile other = MappedFile::Open(folder.Write("g", "g")).value();
    EXPECT_TRUE(CheckMappedFiles().has_value());
    EXPECT_THAT(TakeChangedFiles(), ::testing::IsEmpty());
    Overwrite(path, "new");
    const Status status = CheckMappedFiles();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message,
                ::testing::StartsWith(path + ": was changed while"));
    EXPECT_THAT(TakeChangedFiles(), ::testing::ElementsAre(path));
    EXPECT_THAT(TakeChangedFiles(), ::testing::IsEmpty());
  }
  EXPECT_THAT(TakeChangedFiles(), ::testing::IsEmpty());
  {
    const MappedFile file = MappedFile::Open(path).value();
    ASSERT_EQ(truncate(path.c_str(), 1), 0);
  }
  EXPECT_TRUE(CheckMappedFiles().has_value());
  EXPECT_THAT(TakeChangedFiles(), ::testing::ElementsAre(path));
}

TEST(ChangedFilesTest, WhatIsReplacedOrDeletedStaysAsItWas) {
  const TestFolder folder;
  (void)TakeChangedFiles();
  const std::string path = folder.Write("f", "old");
  {
    const MappedFile file = MappedFile::Open(path).value();
    ASSERT_EQ(std::rename(folder.Write("g", "newer").c_str(), path.c_str()), 0);
    EXPECT_TRUE(CheckMappedFiles().has_value());
    ASSERT_EQ(std::remove(path.c_str()), 0);
    EXPECT_TRUE(CheckMappedFiles().has_value());
  }
  EXPECT_THAT(TakeChangedFiles(), ::testing::IsEmpty());
}

TEST(MappedFileTest, SlotsAreUsedAgain) {
  const TestFolder folder;
  const std::string path = folder.Write("f", "x");
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(MappedFile::Open(path).has_value());
  }
  std::vector<MappedFile> many;
  bool refused = false;
  for (int i = 0; i < 5'000 && !refused; ++i) {
    auto file = MappedFile::Open(path);
    if (file.has_value()) {
      many.push_back(std::move(file).value());
    } else {
      EXPECT_EQ(file.error().code, ErrorCode::kResourceExhausted);
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
  many.clear();
  EXPECT_TRUE(MappedFile::Open(path).has_value());
}

}  // namespace
}  // namespace thermocline::os
