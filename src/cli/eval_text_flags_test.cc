#include "cli/eval_text_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/test_files.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;

TEST(ChunkLengthTest, TheFlagElse512ElseTheModels) {
  SessionFlags flags;
  EXPECT_EQ(ChunkLength(flags, 4096), 512);
  EXPECT_EQ(ChunkLength(flags, 256), 256);
  flags.context = 64;
  EXPECT_EQ(ChunkLength(flags, 4096), 64);
  flags.context = 0;
  EXPECT_EQ(ChunkLength(flags, 4096), 4096);
}

TEST(CheckChunkFlagTest, RefusesChunksThatAreTooShort) {
  SessionFlags flags;
  EXPECT_NO_THROW(CheckChunkFlag(flags));
  flags.context = 3;
  EXPECT_THROW(CheckChunkFlag(flags), CLI::ValidationError);
}

TEST(TokensOfTest, NamesATextThatIsTooShort) {
  const auto model = model::Model::Open(kStories);
  ASSERT_TRUE(model.has_value());
  TextFlags flags;
  flags.text_file = "some.txt";
  const auto short_one = TokensOf(flags, **model, "Once", 16);
  ASSERT_FALSE(short_one.has_value());
  EXPECT_THAT(short_one.error().message, HasSubstr("some.txt: the text has "));
  EXPECT_TRUE(
      TokensOf(flags, **model, "Once upon a time, there was a girl", 4));
}

}  // namespace
}  // namespace thermocline::cli
