#include "engine/stream/stream_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/testing/tiny_model.h"
#include "os/test_folder.h"

namespace thermocline::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StreamFilesTest : public ::testing::Test {
 protected:
  void ExpectRefused(const gguf::File& file, const std::string& why) const {
    const auto refused = OpenStreamFiles(file, {}, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr(path_ + ": "), HasSubstr(why)));
  }
  std::unique_ptr<gguf::File> Open() const {
    folder_.Write("m.gguf", text_);
    return gguf::File::Open(path_).value();
  }
  static std::string TextOf(const gguf::File& file) {
    const gguf::TensorInfo& first = file.tensors().front();
    return {reinterpret_cast<const char*>(first.data - first.offset),
            file.num_file_bytes()};
  }

  const os::TestFolder folder_;
  const std::string path_ = folder_ / "m.gguf";
  const std::string text_ = TextOf(testing::MakeTinyModel({})->file());
};

TEST_F(StreamFilesTest, AreThoseThatWereOpened) {
  const auto file = Open();
  const auto reader = OpenStreamFiles(*file, {}, {});
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_THAT(ShardBytes(*file, **reader),
              ::testing::ElementsAre(text_.size()));
  for (const std::string& other : {text_.substr(1), text_ + "x"}) {
    folder_.Write("m.gguf", other);
    ExpectRefused(*file, "was changed while it was in use");
  }
}

// Of the same size and time as the one that was opened.
TEST_F(StreamFilesTest, OneThatTookItsPlaceIsNoticed) {
  const auto file = Open();
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  const std::string other = folder_.Write("other", text_);
  const timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, other.c_str(), times, 0), 0);
  ASSERT_EQ(std::rename(other.c_str(), path_.c_str()), 0);
  ExpectRefused(*file, "was replaced by another file after it was opened");
}

TEST_F(StreamFilesTest, OneThatWasWrittenOverIsNoticed) {
  const auto file = Open();
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0},
                             {.tv_sec = 1, .tv_nsec = 1}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  ExpectRefused(*file, "was changed while it was in use");
}

// Files of readers that are no files, and models in memory, have nothing to
// compare but their size.
TEST_F(StreamFilesTest, WhereThereIsNoFileTheSizeCounts) {
  const auto file = Open();
  for (const size_t num_bytes : {text_.size(), text_.size() - 1}) {
    const auto opened = OpenStreamFiles(
        *file,
        {.open =
             [&](const std::vector<std::string>&) {
               return storage::MakeFakeReader(
                   {std::as_bytes(std::span(text_)).first(num_bytes)}, {});
             }},
        {});
    EXPECT_EQ(opened.has_value(), num_bytes == text_.size());
    if (opened) continue;
    EXPECT_THAT(opened.error().message, HasSubstr("it has changed since"));
  }
}

}  // namespace
}  // namespace thermocline::engine
