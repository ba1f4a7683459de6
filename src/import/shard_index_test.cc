#include "import/shard_index.h"

#include <gtest/gtest.h>

namespace thermocline::importer {
namespace {

void ExpectBadShardIndex(const std::string& text, const std::string& part) {
  const auto shards = ParseShardIndex(text, "index.json");
  ASSERT_FALSE(shards.has_value()) << text;
  EXPECT_EQ(shards.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(shards.error().message.find("index.json"), std::string::npos);
  EXPECT_NE(shards.error().message.find(part), std::string::npos)
      << shards.error().message;
}

constexpr char kGood[] = R"({"metadata": {"total_size": 8},
    "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})";

TEST(ShardIndexTest, FilesByTensor) {
  EXPECT_EQ(ParseShardIndex(kGood, "index.json").value(),
            (std::map<std::string, std::string>{{"a", "1.safetensors"},
                                                {"b", "2.safetensors"}}));
}

TEST(ShardIndexTest, ShardsStayInTheFolder) {
  for (const char* name : {"../1.safetensors", "/etc/passwd", "x/y", "..", ".",
                           "", "./1.safetensors", "1\\u0000"}) {
    ExpectBadShardIndex(
        std::string(R"({"weight_map": {"a": ")") + name + "\"}}",
        "plain file name for tensor \"a\"");
  }
  ExpectBadShardIndex(R"({"weight_map": {"a": 7}})", "plain file name");
}

TEST(ShardIndexTest, SenselessIndexes) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
        R"({"weight_map": null})", R"({"weight_map": {"a": "x", "a": "y"}})"}) {
    ExpectBadShardIndex(text, "");
  }
}

TEST(ShardIndexTest, EveryTruncationIsAnError) {
  const std::string whole = kGood;
  for (size_t size = 0; size < whole.size(); ++size) {
    ExpectBadShardIndex(whole.substr(0, size), "JSON");
  }
}

}  // namespace
}  // namespace thermocline::importer
