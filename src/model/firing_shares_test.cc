#include "model/firing_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/test_prepared.h"
#include "os/test_folder.h"

namespace thermocline::model {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kTokensKey[] = "thermocline.profile.tokens";

// Counts of the neurons of layer 0: `first` and then nothing.
void SetCounts(gguf::TestFile& file, size_t num_neurons,
               const std::vector<int32_t>& first) {
  std::string bytes;
  for (size_t i = 0; i < num_neurons; ++i) {
    bytes += gguf::Raw(i < first.size() ? first[i] : int32_t{0});
  }
  file.SetTensor(std::string("blk.0.") + prepared::kProfileCounts, DType::kI32,
                 {num_neurons}, bytes);
}

std::shared_ptr<const Model> OpenFile(gguf::TestFile file) {
  const os::TestFolder folder;
  auto model = Model::Open(folder.Write("m.gguf", file.Bytes()));
  EXPECT_TRUE(model) << model.error().message;
  return *model;
}

TEST(FiringSharesTest, AreOfTheTokens) {
  gguf::TestFile file = TestModelWithParts();  // of 1000 tokens
  SetCounts(file, 64, {500, 0, 1000});
  const auto model = OpenFile(file);
  std::vector<float> shares = FiringShares(*model, 0);
  ASSERT_EQ(shares.size(), 64u);
  shares.resize(4);
  EXPECT_THAT(shares, ElementsAre(0.5f, 0.0f, 1.0f, 0.0f));
  EXPECT_THAT(ExpertShares(*model, 0), IsEmpty());
}

TEST(FiringSharesTest, WithoutAProfileThereAreNone) {
  const auto model = OpenFile(TestPreparedModel());
  EXPECT_THAT(FiringShares(*model, 0), IsEmpty());
  EXPECT_THAT(ExpertShares(*model, 0), IsEmpty());
}

TEST(FiringSharesTest, OfTheGreatestCountWhereTokensAreNotSaid) {
  gguf::TestFile file = TestPreparedModel();
  for (int l = 0; l < kTestLayers; ++l) {
    file.SetTensor("blk." + std::to_string(l) + "." + prepared::kProfileCounts,
                   DType::kI32, {64});
  }
  SetCounts(file, 64, {8, 2, -5});
  std::vector<float> shares = FiringShares(*OpenFile(file), 0);
  ASSERT_EQ(shares.size(), 64u);
  shares.resize(3);
  EXPECT_THAT(shares, ElementsAre(1.0f, 0.25f, 0.0f));
  EXPECT_THAT(FiringShares(*OpenFile(file), 1), Each(0.0f));
}

TEST(FiringSharesTest, ExpertsShareWhatATokenUses) {
  gguf::TestFile file = TestPreparedExpertModel();
  file.Set(kTokensKey, gguf::ValueType::kU64, gguf::Raw(uint64_t{100}));
  const auto config_model = OpenFile(TestPreparedExpertModel());
  const FfnSpec& ffn = config_model->config().layers[0].ffn;
  ASSERT_GT(ffn.num_experts, 1u);
  const size_t num_neurons = ffn.width * ffn.num_experts;
  for (size_t l = 0; l < config_model->config().num_layers; ++l) {
    file.SetTensor("blk." + std::to_string(l) + "." + prepared::kProfileCounts,
                   DType::kI32, {num_neurons});
  }
  EXPECT_THAT(ExpertShares(*OpenFile(file), 0), Each(0.0f));
  // Of all that fired the first expert has all: it is used always.
  SetCounts(file, num_neurons, {7, 7});
  const std::vector<float> shares = ExpertShares(*OpenFile(file), 0);
  ASSERT_EQ(shares.size(), ffn.num_experts);
  EXPECT_EQ(shares[0], 1.0f);
  EXPECT_EQ(shares[1], 0.0f);
  // Both of the first two alike, of all that is used.
  SetCounts(file, num_neurons, std::vector<int32_t>(2 * ffn.width, int32_t{3}));
  EXPECT_FLOAT_EQ(ExpertShares(*OpenFile(file), 0)[1],
                  std::min(1.0f, static_cast<float>(ffn.num_experts_used) / 2));
}

TEST(FiringSharesTest, OfNeuronsAsOfAModel) {
  const std::vector<float> neurons = {0.5f, 0.5f, 0.25f, 0.25f, 0, 0};
  EXPECT_THAT(SharesOfExperts(neurons, 3, 1),
              ElementsAre(2.0f / 3.0f, 1.0f / 3.0f, 0.0f));
  EXPECT_THAT(SharesOfExperts(neurons, 3, 2),
              ElementsAre(1.0f, 2.0f / 3.0f, 0.0f));
}

}  // namespace
}  // namespace thermocline::model
