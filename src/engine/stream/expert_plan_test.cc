#include "engine/stream/expert_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/left_tensors.h"
#include "engine/testing/tiny_model.h"
#include "gguf/test_file.h"
#include "model/test_prepared.h"

namespace thermocline::engine {
namespace {

// Whose tensors are left, and the slot that one expert of it takes.
struct LeftCase {
  const char* name;
  std::shared_ptr<const model::Model> model;
  size_t num_tensors;
  size_t num_experts;
};

std::shared_ptr<const model::Model> ParseMixture(gguf::TestFile file) {
  static std::vector<std::unique_ptr<std::string>> kept;
  kept.push_back(std::make_unique<std::string>(file.Bytes()));
  return model::Model::FromFile(
             gguf::File::Parse(std::as_bytes(std::span(*kept.back())), "file")
                 .value())
      .value();
}

TEST(ExpertPlanTest, WhatIsLeftAreTheExperts) {
  testing::TinySpec old;
  testing::UseArchitecture("mixtral", old);
  old.expert_tensors = true;
  const std::vector<LeftCase> cases = {
      {"stacks", ParseMixture(model::TestExpertModel()), 3 * 2, 4},
      {"one by one", testing::MakeTinyModel(old), 3 * 2 * 8, 8},
      {"records", ParseMixture(model::TestPreparedExpertModel()), 2, 4},
      {"gates beside records",
       ParseMixture(model::TestPreparedExpertModel(false)), 2 * 2, 4}};
  for (const LeftCase& subject : cases) {
    SCOPED_TRACE(subject.name);
    const gguf::File& file = subject.model->file();
    const auto names = ExpertTensors(file, subject.model->config());
    EXPECT_EQ(names.size(), subject.num_tensors);
    uint64_t num_bytes = 0;
    for (const std::string& name : names) {
      ASSERT_NE(file.FindTensor(name), nullptr) << name;
      num_bytes += file.FindTensor(name)->num_bytes;
    }
    EXPECT_EQ(NumExperts(subject.model->config()), 2 * subject.num_experts);
    const auto left = LeftOf(file, subject.model->config(), names);
    ASSERT_TRUE(left);
    EXPECT_EQ(left->unit, StreamUnit::kExperts);
    const uint64_t expert_bytes = num_bytes / (2 * subject.num_experts);
    EXPECT_GE(left->block_bytes, expert_bytes);
    EXPECT_LE(left->block_bytes, expert_bytes + 6 * kBlockAlignment);
  }
}

TEST(ExpertPlanTest, SlotsAreSharedOutEvenly) {
  model::Config config;
  config.layers.resize(
      3, model::LayerSpec{.ffn = {.num_experts = 8, .num_experts_used = 2}});
  const auto plan = [&](uint64_t num_slots) {
    return PlanExpertSlots(config, 4096, num_slots * 4096 + 17);
  };
  EXPECT_EQ(plan(0).num_slots(), 4u);
  EXPECT_EQ(plan(11).pass_slots, 4u);
  EXPECT_EQ(plan(11).resident, (std::vector<uint32_t>{3, 2, 2}));
  EXPECT_EQ(plan(1000).pass_slots, 8u);
  EXPECT_EQ(plan(1000).resident, (std::vector<uint32_t>{8, 8, 8}));
}

// The profile's, of each expert's neurons together.
TEST(ExpertPlanTest, TheProfileSaysWhoStays) {
  gguf::TestFile file = model::TestPreparedExpertModel();
  std::string counts;
  for (int32_t i = 0; i < 4 * 64; ++i) {
    counts += gguf::Raw(i / 64 == 2 ? int32_t{5} : int32_t{1});
  }
  file.SetTensor("blk.1.tc_profile.counts", DType::kI32, {4 * 64}, counts);
  const auto model = ParseMixture(file);
  const auto policy = MakeExpertPolicy(
      *model, {.unit = StreamUnit::kExperts, .blocks = {.resident = {1, 1}}});
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->layers.size(), 2u);
  EXPECT_EQ(policy->policy->Initial(0), std::vector<uint32_t>{0});
  EXPECT_EQ(policy->policy->Initial(1), std::vector<uint32_t>{2});
  EXPECT_FALSE(MakeExpertPolicy(
      *model, {.blocks = {.resident = {1, 1}}, .policy = "no policy"}));
}

}  // namespace
}  // namespace thermocline::engine
