#include "engine/device/placement_worth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/device/test_plans.h"
#include "gguf/test_file.h"
#include "model/test_prepared.h"

namespace thermocline::engine {
namespace {

using testing::LayoutWithout;
using testing::OpenPlanned;
using testing::PlannedModel;

std::vector<PlacedUnit> Ranked(const model::Model& model,
                               const FfnChoice& choice, Demands demands = {}) {
  demands.layers.resize(model.config().num_layers);
  const DeviceParts parts =
      PlanDeviceParts(model, choice, LayoutWithout(std::nullopt), 64, demands);
  return RankUnits(model, parts, demands, choice.mode, 4);
}

// "head matrices2 attention0": neurons and experts as "n5/1" of layer 1.
std::string Text(const std::vector<PlacedUnit>& units, size_t count) {
  std::string text;
  for (size_t i = 0; i < std::min(count, units.size()); ++i) {
    const PlacedUnit& unit = units[i];
    const std::string layer = std::to_string(unit.layer_idx);
    const std::string one = std::to_string(unit.idx) + "/" + layer;
    switch (unit.kind) {
      case PlacedKind::kHead:
        text += "head ";
        break;
      case PlacedKind::kPredictor:
        text += "predictor" + layer + " ";
        break;
      case PlacedKind::kMatrices:
        text += "matrices" + layer + " ";
        break;
      case PlacedKind::kAttention:
        text += "attention" + layer + " ";
        break;
      case PlacedKind::kNeuron:
        text += "n" + one + " ";
        break;
      case PlacedKind::kExpert:
        text += "e" + one + " ";
        break;
    }
  }
  return text;
}

TEST(RankUnits, WhatEveryTokenReadsComesFirstFromTheLastLayerOn) {
  const PlannedModel dense = OpenPlanned("dense");
  ASSERT_NE(dense.model, nullptr);
  EXPECT_EQ(Text(Ranked(*dense.model, dense.choice), 100),
            "head matrices2 matrices1 matrices0 attention2 attention1 "
            "attention0 ");
  const PlannedModel mixture = OpenPlanned("mixture");
  ASSERT_NE(mixture.model, nullptr);
  EXPECT_EQ(Text(Ranked(*mixture.model, mixture.choice), 6),
            "head attention2 attention1 attention0 e0/2 e1/2 ");
}

// Without a profile layers take turns, each with its first neurons.
TEST(RankUnits, NeuronsOfAllLayersInTurn) {
  PlannedModel fast = OpenPlanned("fast");
  ASSERT_NE(fast.model, nullptr);
  EXPECT_EQ(Text(Ranked(*fast.model, fast.choice), 10),
            "head predictor2 predictor1 predictor0 n0/0 n0/1 n0/2 n1/0 n1/1 "
            "n1/2 ");
  fast.choice = {};  // all are computed
  EXPECT_EQ(Text(Ranked(*fast.model, fast.choice), 5),
            "head n0/0 n0/1 n0/2 n1/0 ");
}

TEST(RankUnits, WhatIsDecidedIsNotRanked) {
  const PlannedModel dense = OpenPlanned("dense");
  ASSERT_NE(dense.model, nullptr);
  Demands demands;
  demands.layers.resize(3);
  demands.layers[0] = {Demand::kHost, Demand::kHost, Demand::kHost};
  demands.layers[1].attention = Demand::kDevice;
  demands.head = Demand::kDevice;
  EXPECT_EQ(Text(Ranked(*dense.model, dense.choice, demands), 100),
            "matrices2 matrices1 attention2 ");
}

// A prepared file of two layers of 64 neurons, with these counts.
struct Profiled {
  explicit Profiled(gguf::TestFile file, const std::vector<int32_t>& first,
                    const std::vector<int32_t>& second)
      : parsed(WithCounts(std::move(file), {first, second}).Bytes()),
        model(model::Model::FromFile(std::move(*parsed.file))) {
    EXPECT_TRUE(model) << model.error().message;
  }

  static gguf::TestFile WithCounts(
      gguf::TestFile file, const std::vector<std::vector<int32_t>>& counts) {
    for (size_t i = 0; i < counts.size(); ++i) {
      std::string bytes;
      for (const int32_t count : counts[i]) bytes += gguf::Raw(count);
      file.SetTensor(model::prepared::OfLayer(i, "tc_profile.counts"),
                     DType::kI32, {counts[i].size()}, bytes);
    }
    return file;
  }

  gguf::ParsedCopy parsed;
  Result<std::shared_ptr<const model::Model>> model;
};

TEST(RankUnits, NeuronsThatFiredMostComeFirst) {
  std::vector<int32_t> first(64, 1), second(64, 0);
  first[40] = 900;
  second[9] = 1000;
  second[3] = 700;
  const Profiled profiled(model::TestModelWithParts(), first, second);
  ASSERT_TRUE(profiled.model);
  std::vector<PlacedUnit> units =
      Ranked(**profiled.model, {.mode = FfnMode::kExact});
  std::erase_if(units, [](const PlacedUnit& unit) {
    return unit.kind != PlacedKind::kNeuron;
  });
  EXPECT_EQ(Text(units, 5), "n9/1 n40/0 n3/1 n0/0 n1/0 ");
  EXPECT_EQ(units[0].worth, 1.0f);
  EXPECT_EQ(units[1].worth, 0.9f);
  // One that always fires is worth more than attention, whose context fills.
  units = Ranked(**profiled.model, {.mode = FfnMode::kExact});
  EXPECT_EQ(Text(units, 2), "head n9/1 ");
}

TEST(RankUnits, ExpertsThatAreChosenMostComeFirst) {
  const size_t num_neurons = 4 * 64;
  std::vector<int32_t> first(num_neurons, 0), second(num_neurons, 1);
  std::fill_n(first.begin() + 2 * 64, 64, 10);
  const Profiled profiled(model::TestPreparedExpertModel(), first, second);
  ASSERT_TRUE(profiled.model);
  std::vector<PlacedUnit> units = Ranked(**profiled.model, {});
  std::erase_if(units, [](const PlacedUnit& unit) {
    return unit.kind != PlacedKind::kExpert;
  });
  // Of layer 0 one expert is chosen always, of layer 1 all alike.
  EXPECT_EQ(Text(units, 5), "e2/0 e0/1 e1/1 e2/1 e3/1 ");
  EXPECT_EQ(units[0].worth, 1.0f);
  EXPECT_EQ(units[1].worth, 0.5f);
}

}  // namespace
}  // namespace thermocline::engine
