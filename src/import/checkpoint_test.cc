#include "import/checkpoint.h"

#include <gtest/gtest.h>

#include "import/hf_test_folder.h"

namespace thermocline::importer {
namespace {

constexpr char kIndex[] = "model.safetensors.index.json";

std::string OneTensor(const std::string& name) {
  return ToSafetensors({{name, {"F32", {1}, {1.0f}}}});
}

void ExpectBadCheckpoint(const os::TestFolder& folder, ErrorCode code,
                         const std::string& part) {
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_FALSE(checkpoint.has_value()) << part;
  EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
  EXPECT_NE(checkpoint.error().message.find(part), std::string::npos)
      << checkpoint.error().message;
}

TEST(CheckpointTest, OneFile) {
  const os::TestFolder folder;
  folder.Write("model.safetensors", OneTensor("t"));
  const auto opened = Checkpoint::Open(folder.path());
  ASSERT_TRUE(opened.has_value());
  EXPECT_NE(opened->Find("t"), nullptr);
  EXPECT_EQ(opened->Find("u"), nullptr);
}

TEST(CheckpointTest, ShardsJoin) {
  const os::TestFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("2.safetensors", OneTensor("b"));
  folder.Write(kIndex, R"({"metadata": {}, "weight_map":
      {"a": "1.safetensors", "b": "2.safetensors"}})");
  const Checkpoint checkpoint = Checkpoint::Open(folder.path()).value();
  EXPECT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(checkpoint.Find("b")->bytes.size(), 4u);
}

TEST(CheckpointTest, NothingThere) {
  const os::TestFolder folder;
  ExpectBadCheckpoint(folder, ErrorCode::kNotFound, "model.safetensors");
}

TEST(CheckpointTest, MissingShardIsNamed) {
  const os::TestFolder folder;
  folder.Write(kIndex, R"({"weight_map": {"a": "1.safetensors"}})");
  ExpectBadCheckpoint(folder, ErrorCode::kNotFound, "1.safetensors");
}

TEST(CheckpointTest, MissingTensorIsNamed) {
  const os::TestFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write(kIndex, R"({"weight_map": {"a": "1.safetensors",
                                          "gone": "1.safetensors"}})");
  ExpectBadCheckpoint(folder, ErrorCode::kCorrupt, "\"gone\"");
}

TEST(CheckpointTest, TensorInAnotherShardThanTheIndexSays) {
  const os::TestFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("2.safetensors", OneTensor("b"));
  folder.Write(kIndex, R"({"weight_map": {"a": "2.safetensors",
                                          "b": "1.safetensors"}})");
  ExpectBadCheckpoint(folder, ErrorCode::kCorrupt,
                      "1.safetensors: tensor \"b\"");
  ExpectBadCheckpoint(folder, ErrorCode::kCorrupt, kIndex);
}

TEST(CheckpointTest, TensorThatTheIndexDoesNotListIsNamed) {
  const os::TestFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("2.safetensors", SafetensorsBytes(
                                    R"({"b": {"dtype": "F32", "shape": [1],
                             "data_offsets": [0, 4]},
                       "more": {"dtype": "F32", "shape": [1],
                                "data_offsets": [4, 8]}})",
                                    "01234567"));
  folder.Write(kIndex, R"({"weight_map": {"a": "1.safetensors",
                                          "b": "2.safetensors"}})");
  ExpectBadCheckpoint(folder, ErrorCode::kCorrupt,
                      "2.safetensors: tensor \"more\"");
  ExpectBadCheckpoint(folder, ErrorCode::kCorrupt, kIndex);
}

TEST(CheckpointTest, OtherWeightsAreNamed) {
  for (const char* name : {"pytorch_model.bin", "consolidated.00.pth",
                           "pytorch_model.bin.index.json"}) {
    const os::TestFolder folder;
    folder.Write(name, "x");
    ExpectBadCheckpoint(folder, ErrorCode::kNotFound, name);
    ExpectBadCheckpoint(folder, ErrorCode::kNotFound, "model.safetensors");
  }
}

TEST(CheckpointTest, TensorInTwoShards) {
  const os::TestFolder folder;
  folder.Write("1.safetensors", OneTensor("a"));
  folder.Write("2.safetensors", OneTensor("a"));
  folder.Write(kIndex, R"({"weight_map": {"a": "1.safetensors",
                                          "b": "2.safetensors"}})");
  ExpectBadCheckpoint(folder, ErrorCode::kCorrupt, "\"a\"");
}

}  // namespace
}  // namespace thermocline::importer
