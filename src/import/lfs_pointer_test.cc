#include "import/lfs_pointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::importer {
namespace {

TEST(CheckDownloadedTest, PointersAreNotTheFile) {
  const Status pointer = CheckDownloaded(
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\n"
      "size 12345\n",
      "hf/model.safetensors");
  ASSERT_FALSE(pointer.has_value());
  EXPECT_EQ(pointer.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(pointer.error().message,
              ::testing::StartsWith("hf/model.safetensors: is a Git LFS "
                                    "pointer"));
}

TEST(CheckDownloadedTest, OtherTextsMayBeTheFile) {
  for (const char* text : {"", "version", "{}", "#version: 0.2\n"}) {
    EXPECT_TRUE(CheckDownloaded(text, "f").has_value()) << text;
  }
}

}  // namespace
}  // namespace thermocline::importer
