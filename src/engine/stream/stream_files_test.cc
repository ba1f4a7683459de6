#include "engine/stream/stream_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/testing/tiny_model.h"
#include "os/test_folder.h"

namespace thermocline::engine {
namespace {

TEST(StreamFilesTest, AreThoseThatWereOpened) {
  const auto tiny = testing::MakeTinyModel({});
  const gguf::TensorInfo& first = tiny->file().tensors().front();
  const std::string text(
      reinterpret_cast<const char*>(first.data - first.offset),
      tiny->file().num_file_bytes());
  const os::TestFolder folder;
  const auto file = gguf::File::Open(folder.Write("m.gguf", text)).value();
  const auto reader = OpenStreamFiles(*file, {});
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_THAT(ShardBytes(*file, **reader), ::testing::ElementsAre(text.size()));
  for (const std::string& other : {text.substr(1), text + "x"}) {
    folder.Write("m.gguf", other);
    const auto refused = OpenStreamFiles(*file, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
    EXPECT_THAT(refused.error().message,
                ::testing::HasSubstr("it has changed since"));
  }
}

}  // namespace
}  // namespace thermocline::engine
