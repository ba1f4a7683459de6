#include "model/split_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "model/test_split.h"

namespace thermocline::model {
namespace {

using gguf::CountField;
using gguf::ParsedCopy;
using gguf::Raw;
using gguf::TestFile;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of the model that the split files below are for.
Config TwoLayersOfEight() {
  Config config;
  config.num_layers = 2;
  config.layers.assign(2, LayerSpec{.ffn = {.width = 8}});
  return config;
}
TestFile Order() { return TestOrder(2, 8); }
TestFile Hot() { return TestHot(2, 8); }

Result<Split> ReadTestSplit(TestFile file) {
  const ParsedCopy parsed(file.Bytes());
  if (!parsed.file) return tl::unexpected(parsed.file.error());
  return ReadSplit(**parsed.file, TwoLayersOfEight());
}

void ExpectRefusedSplit(TestFile file, const std::string& part,
                        const std::string& other = "") {
  const auto split = ReadTestSplit(std::move(file));
  ASSERT_FALSE(split) << part;
  EXPECT_THAT(split.error().message,
              AllOf(HasSubstr("test.gguf"), HasSubstr(part), HasSubstr(other)));
}

TEST(SplitFile, AnOrder) {
  const auto split = ReadTestSplit(Order());
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_FALSE(split->hot);
  ASSERT_TRUE(split->order);
  EXPECT_EQ(split->order->group_size, 2);
  EXPECT_THAT(split->order->pattern, ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(split->order->layers,
              ElementsAre(ElementsAre(0, 3, 6, 1, 4, 7, 2, 5),
                          ElementsAre(1, 4, 7, 2, 5, 0, 3, 6)));
}

TEST(SplitFile, HotNeurons) {
  const auto split = ReadTestSplit(Hot());
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_FALSE(split->order);
  ASSERT_TRUE(split->hot);
  EXPECT_EQ(split->hot->vram_bytes, uint64_t{1} << 30);
  EXPECT_THAT(split->hot->layers,
              ElementsAre(ElementsAre(1, 3, 5, 7), ElementsAre(1, 3, 5, 7)));
}

TEST(SplitFile, LayersOfOtherWidthsHaveNone) {
  const ParsedCopy parsed(Order().Bytes());
  Config config = TwoLayersOfEight();
  config.layers[1].ffn.width = 16;
  const auto split = ReadSplit(**parsed.file, config);
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(split.error().message,
              AllOf(HasSubstr("a split file has one number of neurons"),
                    HasSubstr("layer 1 16")));
}

// A layer on one side alone may come without its list, as PowerInfer drops it.
TEST(SplitFile, FullAndEmptyLayersNeedNoList) {
  TestFile file = Hot();
  file.RemoveTensor("blk.0.gpu_bucket").RemoveTensor("blk.1.gpu_bucket");
  SetIndices("blk.0.gpu_idx", std::vector<int32_t>(8, 1), file);
  SetIndices("blk.1.gpu_idx", std::vector<int32_t>(8, 0), file);
  const auto split = ReadTestSplit(file);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->hot->layers[0].size(), 8u);
  EXPECT_EQ(split->hot->layers[1].size(), 0u);
}

TEST(SplitFile, AListMayHaveNoElements) {
  TestFile file = Hot();
  SetIndices("blk.0.gpu_idx", std::vector<int32_t>(8, 0), file);
  SetIndices("blk.0.gpu_bucket", {}, file);
  const auto split = ReadTestSplit(file);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_TRUE(split->hot->layers[0].empty());
  SetIndices("blk.1.gpu_bucket", {}, file);
  EXPECT_FALSE(ReadTestSplit(file));
}

TEST(SplitFile, OfAnotherModel) {
  ExpectRefusedSplit(TestOrder(1, 8), "ffn_normalized_pattern",
                     "another model?");
  ExpectRefusedSplit(TestOrder(3, 8), "has 3 elements; the model has 2 layers");
  ExpectRefusedSplit(TestOrder(2, 4), "blk.0.ffn_reorder_perms",
                     "has 4 elements; the model has 8 neurons per layer");
  ExpectRefusedSplit(TestOrder(2, 16), "has 16 elements", "another model?");
  TestFile file = Order();
  SetIndices("blk.2.ffn_reorder_perms", {0, 1, 2, 3, 4, 5, 6, 7}, file);
  ExpectRefusedSplit(file, "blk.2.ffn_reorder_perms", "belongs to no layer");
  file = Order();
  file.RemoveTensor("blk.1.ffn_reorder_perms");
  ExpectRefusedSplit(file, "\"blk.1.ffn_reorder_perms\" is missing",
                     "another model?");
  ExpectRefusedSplit(TestHot(3, 8), "generic.gpu_index.block_count",
                     "is 3; the model has 2 layers");
  ExpectRefusedSplit(TestHot(2, 4), "blk.0.gpu_idx", "has 4 elements");
  ExpectRefusedSplit(TestHot(2, 16), "blk.0.gpu_idx", "has 16 elements");
}

TEST(SplitFile, NoSplitAtAll) {
  TestFile file;
  file.SetText("general.architecture", "llama");
  ExpectRefusedSplit(file, "not a split file");
  ExpectRefusedSplit(TestFile(), "not a split file");
}

TEST(SplitFile, GroupSizes) {
  for (const int32_t size : {0, -1, 3, 16, std::numeric_limits<int32_t>::min(),
                             std::numeric_limits<int32_t>::max()}) {
    TestFile file = Order();
    file.Set("ffn_group_size", ValueType::kI32, Raw(size));
    ExpectRefusedSplit(file, "\"ffn_group_size\" is " + std::to_string(size),
                       "must divide the 8 neurons");
  }
  for (const int32_t size : {1, 8}) {
    TestFile file = Order();
    file.Set("ffn_group_size", ValueType::kI32, Raw(size));
    EXPECT_TRUE(ReadTestSplit(file));
  }
  TestFile file = Order();
  file.Remove("ffn_group_size");
  ExpectRefusedSplit(file, "key \"ffn_group_size\" is missing");
}

TEST(SplitFile, Patterns) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& pattern : {std::vector<float>{0.5f, 0.4f},
                                            {0, 0},
                                            {1.5f, -0.5f},
                                            {kNaN, 1.0f},
                                            {kInf, 1.0f},
                                            {kInf, -kInf}}) {
    TestFile file = Order();
    file.SetNumbers("ffn_normalized_pattern", ValueType::kF32, pattern);
    ExpectRefusedSplit(file, "ffn_normalized_pattern", "sum to 1");
  }
  TestFile file = Order();
  file.SetNumbers("ffn_normalized_pattern", ValueType::kF32,
                  std::vector<float>{0.0f, 1.0f});
  EXPECT_TRUE(ReadTestSplit(file));
  file.SetNumbers("ffn_normalized_pattern", ValueType::kI32,
                  std::vector<int32_t>{0, 1});
  ExpectRefusedSplit(file, "must be an array of floats");
  file.SetF32("ffn_normalized_pattern", 1.0f);
  ExpectRefusedSplit(file, "must be an array of floats");
  file.Remove("ffn_normalized_pattern");
  ExpectRefusedSplit(file, "must be an array of floats");
}

TEST(SplitFile, Permutations) {
  const std::string name = "blk.1.ffn_reorder_perms";
  TestFile file = Order();
  SetIndices(name, {0, 1, 2, 3, 4, 5, 6, 6}, file);
  ExpectRefusedSplit(file, name, "no permutation: 6 occurs twice");
  SetIndices(name, {0, 1, 2, 3, 4, 5, 6, 8}, file);
  ExpectRefusedSplit(file, name, "element 7 is 8; it must be 0 to 7");
  SetIndices(name, {-1, 1, 2, 3, 4, 5, 6, 7}, file);
  ExpectRefusedSplit(file, name, "element 0 is -1");
  file.SetTensor(name, DType::kF32, {8});
  ExpectRefusedSplit(file, name, "a vector of I32");
  file.SetTensor(name, DType::kI32, {4, 2});
  ExpectRefusedSplit(file, name, "a vector of I32");
}

TEST(SplitFile, ListsAndFlagsThatDisagree) {
  const std::string list = "blk.1.gpu_bucket";
  TestFile file = Hot();
  SetIndices(list, {1, 3, 5}, file);
  ExpectRefusedSplit(file, list, "lists 3 neurons that are not the 4");
  SetIndices(list, {1, 3, 4, 7}, file);
  ExpectRefusedSplit(file, list, "blk.1.gpu_idx");
  SetIndices(list, {1, 5, 3, 7}, file);
  ExpectRefusedSplit(file, list, "element 2 is 3 behind 5");
  SetIndices(list, {1, 3, 3, 5, 7}, file);
  ExpectRefusedSplit(file, list, "neurons must ascend");
  SetIndices(list, {1, 3, 5, 9}, file);
  ExpectRefusedSplit(file, list, "element 3 is 9");
  SetIndices(list, {0, 1, 2, 3, 4, 5, 6, 7, 7}, file);
  ExpectRefusedSplit(file, list, "has 9 elements");
  file.RemoveTensor(list);
  ExpectRefusedSplit(file, list, "is missing");
  file = Hot();
  SetIndices("blk.0.gpu_idx", {0, 1, 0, 1, 0, 1, 0, 2}, file);
  ExpectRefusedSplit(file, "blk.0.gpu_idx",
                     "element 7 is 2; it must be 0 to 1");
}

TEST(SplitFile, Capacities) {
  TestFile file = Hot();
  file.Set("split.vram_capacity", ValueType::kI64, Raw(int64_t{-1}));
  ExpectRefusedSplit(file, "split.vram_capacity", "is -1");
  file.Remove("split.vram_capacity");
  ExpectRefusedSplit(file, "\"split.vram_capacity\" is missing");
  file = Hot();
  file.Remove("generic.gpu_index.block_count");
  ExpectRefusedSplit(file, "block_count\" is missing");
}

TEST(SplitFile, UnknownTensorsAreNotOverlooked) {
  for (TestFile file : {Order(), Hot()}) {
    file.SetTensor("blk.0.gpu_idx2", DType::kF32, {1});
    ExpectRefusedSplit(file, "\"blk.0.gpu_idx2\" belongs to no layer");
  }
}

TEST(SplitFile, EveryTruncationIsRefused) {
  for (TestFile file : {Order(), Hot()}) {
    const std::string bytes = file.Bytes();
    for (size_t n = 0; n < bytes.size(); ++n) {
      const ParsedCopy parsed(std::string_view(bytes).substr(0, n));
      if (!parsed.file) continue;
      // Only the padding behind the last tensor may go.
      EXPECT_TRUE(ReadSplit(**parsed.file, TwoLayersOfEight()));
      EXPECT_GT(n + 32, bytes.size());
    }
  }
}

TEST(SplitFile, EveryCountFieldWithEveryBadValue) {
  for (TestFile file : {Order(), Hot()}) {
    const std::string bytes = file.Bytes();
    for (const CountField& field : file.fields()) {
      for (uint64_t value :
           {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 31) - 1,
            uint64_t{1} << 31, (uint64_t{1} << 31) + 1, uint64_t{1} << 32,
            uint64_t{1} << 63, ~uint64_t{0}}) {
        std::string patched = bytes;
        std::memcpy(patched.data() + field.position, &value, field.num_bytes);
        SCOPED_TRACE(field.what + " = " + std::to_string(value));
        const ParsedCopy parsed(patched);
        if (parsed.file) (void)ReadSplit(**parsed.file, TwoLayersOfEight());
      }
    }
  }
}

}  // namespace
}  // namespace thermocline::model
