#include "gguf/split.h"

#include <gtest/gtest.h>

namespace thermocline::gguf {
namespace {

TEST(ShardName, TakesThePatternApart) {
  const auto name =
      ParseShardName("/some/folder/model-Q4_K-00002-of-00007.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "/some/folder/model-Q4_K");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 7);
}

TEST(ShardName, RefusesEverythingElse) {
  for (const char* path : {"", "model.gguf", "-of-", "m-00001-of-00002.bin",
                           "m-0001-of-00002.gguf", "m-00003-of-00002.gguf",
                           "m-00000-of-00002.gguf", "m--0001-of-00002.gguf",
                           "m-+0001-of-00002.gguf", "m-0000x-of-00002.gguf",
                           "m-00001-of-0000x.gguf", "m_00001-of-00002.gguf",
                           "m-00001_of-00002.gguf", "m-00001-of-00002.gguf "}) {
    EXPECT_FALSE(ParseShardName(path)) << path;
  }
}

TEST(ShardName, GoesBack) {
  EXPECT_EQ(ShardPath("a/b", 3, 12), "a/b-00003-of-00012.gguf");
  EXPECT_EQ(ParseShardName(ShardPath("x", 99999, 99999))->number, 99999);
}

}  // namespace
}  // namespace thermocline::gguf
