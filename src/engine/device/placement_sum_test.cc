#include "engine/device/placement_sum.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/math.h"
#include "engine/device/test_plans.h"
#include "engine/device/weight_loader.h"
#include "engine/kv/device_kv.h"

namespace thermocline::engine {
namespace {

using testing::LayoutWithout;
using testing::OpenPlanned;
using testing::PlannedModel;

constexpr uint64_t kPages = 6;

struct Summed {
  explicit Summed(const std::string& kind) : planned(OpenPlanned(kind)) {
    Demands demands;
    demands.layers.resize(config().num_layers);
    parts = PlanDeviceParts(*planned.model, planned.choice,
                            LayoutWithout(std::nullopt), 64, demands);
  }
  const model::Config& config() const { return planned.model->config(); }
  PlacementSum Sum(uint64_t budget = UINT64_MAX) const {
    return PlacementSum(config(), parts, kPages, budget);
  }

  PlannedModel planned;
  DeviceParts parts;
};

uint64_t Pieces(uint64_t num_bytes) {
  return RoundUp<uint64_t>(num_bytes, 256);
}

// Every part is a buffer of its own, in pieces; executors share one lane.
TEST(PlacementSumTest, CountsWhatIsAllocated) {
  const Summed dense("dense");
  PlacementSum sum = dense.Sum();
  EXPECT_EQ(sum.device_bytes(), 0u);
  ASSERT_TRUE(sum.AddAttention(2) && sum.AddAttention(0));
  ASSERT_TRUE(sum.AddFfn(1) && sum.AddHead());
  const Placement placement = sum.Take();
  const auto& layers = dense.parts.layers;
  EXPECT_EQ(placement.weight_bytes, Pieces(layers[0].attention->num_bytes) +
                                        Pieces(layers[2].attention->num_bytes) +
                                        Pieces(layers[1].matrix_bytes) +
                                        Pieces(dense.parts.head->num_bytes));
  const std::vector<size_t> attending = {0, 2};
  EXPECT_EQ(placement.kv_bytes,
            Pieces(DeviceKvBytes(dense.config(), attending, kPages)));
  EXPECT_EQ(placement.num_kv_pages, kPages);
  LaneNeed need = layers[0].attention->need;
  need.Cover(layers[1].ffn_need);
  need.Cover(dense.parts.head->need);
  EXPECT_EQ(placement.lane_bytes, Pieces(need.device_bytes));
  EXPECT_EQ(placement.pinned_bytes,
            std::max(Pieces(need.pinned_bytes), WeightLoader::kStagingBytes));
  EXPECT_EQ(placement.record_bytes, 0u);
  EXPECT_TRUE(placement.layers[0].attention && placement.layers[2].attention);
  EXPECT_FALSE(placement.layers[1].attention);
  EXPECT_TRUE(placement.layers[1].matrices && placement.head);
}

TEST(PlacementSumTest, NeuronsShareABufferAndExpertsHaveTheirOwn) {
  const Summed fast("fast");
  const LayerParts& neurons = fast.parts.layers[1];
  PlacementSum sum = fast.Sum();
  ASSERT_TRUE(sum.AddNeuron(1, 7) && sum.AddNeuron(1, 3));
  ASSERT_TRUE(sum.AddPredictor(0));
  Placement placement = sum.Take();
  EXPECT_EQ(placement.record_bytes,
            Pieces(neurons.other_bytes + 2 * neurons.record_bytes));
  EXPECT_EQ(placement.layers[1].resident, (std::vector<uint32_t>{3, 7}));
  EXPECT_EQ(placement.weight_bytes,
            Pieces(fast.parts.layers[0].predictor->num_bytes));
  EXPECT_EQ(placement.num_kv_pages, 0u);

  // All at once are as many as one by one.
  PlacementSum whole = fast.Sum();
  PlacementSum singly = fast.Sum();
  ASSERT_TRUE(whole.AddFfn(2));
  for (uint32_t i = 0; i < 160; ++i) ASSERT_TRUE(singly.AddNeuron(2, i));
  EXPECT_EQ(whole.device_bytes(), singly.device_bytes());
  EXPECT_EQ(whole.Take().layers[2].resident, singly.Take().layers[2].resident);

  const Summed mixture("mixture");
  PlacementSum some = mixture.Sum();
  PlacementSum all = mixture.Sum();
  ASSERT_TRUE(all.AddFfn(0));
  for (uint32_t e = 0; e < 8; ++e) ASSERT_TRUE(some.AddExpert(0, 7 - e));
  EXPECT_EQ(some.device_bytes(), all.device_bytes());
  placement = some.Take();
  EXPECT_EQ(placement.layers[0].experts, all.Take().layers[0].experts);
  EXPECT_EQ(placement.record_bytes,
            8 * Pieces(mixture.parts.layers[0].expert_bytes[0]));
}

TEST(PlacementSumTest, WhatDoesNotFitChangesNothing) {
  const Summed dense("dense");
  PlacementSum exact = dense.Sum();
  ASSERT_TRUE(exact.AddAttention(1));
  const uint64_t needed = exact.device_bytes();
  PlacementSum sum = dense.Sum(needed);
  EXPECT_TRUE(sum.AddAttention(1));
  EXPECT_FALSE(sum.AddAttention(0));
  EXPECT_FALSE(sum.AddHead());
  EXPECT_FALSE(sum.AddFfn(0));
  EXPECT_EQ(sum.device_bytes(), needed);
  const Placement placement = sum.Take();
  EXPECT_EQ(placement.device_bytes(), needed);
  EXPECT_FALSE(placement.layers[0].attention || placement.layers[0].matrices ||
               placement.head);
  PlacementSum too_small = dense.Sum(needed - 1);
  EXPECT_FALSE(too_small.AddAttention(1));
  EXPECT_TRUE(too_small.Take().empty());
}

}  // namespace
}  // namespace thermocline::engine
