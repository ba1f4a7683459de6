#include "planner/ffn_curve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/cost.h"
#include "planner/test_problem.h"

namespace thermocline::planner {
namespace {

// Seconds and bytes of any set of a layer's items.
std::pair<double, uint64_t> OfSet(const Hardware& hardware, const Layer& layer,
                                  const LayerPlace& place) {
  Problem problem;
  problem.hardware = hardware;
  problem.layers = {layer};
  Placement placement;
  placement.layers = {place};
  return {PredictCost(problem, placement).layers[0].ffn.seconds,
          DeviceBytes(problem, placement)};
}

TEST(FfnCurveTest, CountsCostWhatTheirPlacementsDo) {
  Random random(5);
  for (const size_t count : {1, 2, 63, 64, 65, 333}) {
    Layer layer;
    layer.neurons = TestNeurons(count, 100, 0.2, random);
    const Hardware hardware = TestHardware();
    const FfnCurve curve(hardware, layer);
    for (size_t n = 0; n <= count; ++n) {
      LayerPlace place;
      place.neurons = curve.Items(n);
      const auto [seconds, bytes] = OfSet(hardware, layer, place);
      EXPECT_NEAR(curve.Seconds(n), seconds, 1e-12 * seconds);
      EXPECT_EQ(curve.Bytes(n), bytes);
    }
  }
}

// All counts are tried where BestAt looks at a few.
TEST(FfnCurveTest, BestAtIsTheBestOfAllCounts) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem = RandomProblem(seed, 90);
    for (const Layer& layer : problem.layers) {
      if (layer.neurons.count() == 0) continue;
      Hardware hardware = problem.hardware;
      hardware.sync_seconds *= 0.01;
      const FfnCurve curve(hardware, layer);
      for (double price = 1e-16; price < 1e-9; price *= 3) {
        double least = curve.Seconds(0);
        for (size_t n = 1; n <= curve.most(); ++n) {
          const double bytes = static_cast<double>(
              n * layer.neurons.record_bytes + layer.neurons.other_bytes);
          least = std::min(least, curve.Seconds(n) + price * bytes);
        }
        const size_t best = curve.BestAt(price, curve.most());
        // Pieces are rounded up where the count is kept, not where it is found.
        const double slack = price * 2 * kPieceBytes;
        EXPECT_LE(curve.Seconds(best) +
                      price * static_cast<double>(curve.Bytes(best)),
                  least * (1 + 1e-12) + slack)
            << seed;
      }
    }
  }
}

// Every subset of a few items, not only the hottest ones.
TEST(FfnCurveTest, NoSubsetIsBelowTheBound) {
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const Problem problem = RandomProblem(seed, 7);
    for (const Layer& layer : problem.layers) {
      const bool are_neurons = layer.experts.experts.empty();
      const size_t count =
          are_neurons ? layer.neurons.count() : layer.experts.experts.size();
      if (count == 0 || count > 8) continue;
      Hardware hardware = problem.hardware;
      hardware.sync_seconds *= 0.001;
      hardware.launch_seconds *= 0.001;
      const FfnCurve curve(hardware, layer);
      for (double price = 1e-15; price < 1e-8; price *= 10) {
        const double bound = curve.BoundAt(price);
        for (uint32_t set = 0; set < 1u << count; ++set) {
          std::vector<uint32_t> items;
          for (uint32_t i = 0; i < count; ++i) {
            if ((set >> i & 1) != 0) items.push_back(i);
          }
          LayerPlace place;
          (are_neurons ? place.neurons : place.experts) = items;
          const auto [seconds, bytes] = OfSet(hardware, layer, place);
          EXPECT_LE(bound, (seconds + price * static_cast<double>(bytes)) *
                               (1 + 1e-12))
              << seed << " " << set;
        }
      }
    }
  }
}

TEST(FfnCurveTest, RulesSettleTheCount) {
  Random random(1);
  Layer layer;
  layer.neurons = TestNeurons(40, 100, 0.2, random);
  const Hardware hardware = TestHardware();
  layer.neurons.rule = Rule::kHost;
  EXPECT_EQ(FfnCurve(hardware, layer).BestAt(0.0, 40), 0u);
  layer.neurons.rule = Rule::kDevice;
  EXPECT_EQ(FfnCurve(hardware, layer).BestAt(1.0, 40), 40u);
}

TEST(FfnCurveTest, BytesBoundTheCount) {
  Random random(1);
  Layer layer;
  layer.neurons = TestNeurons(500, 10000, 0.5, random);
  const Hardware hardware = TestHardware();
  const FfnCurve curve(hardware, layer);
  ASSERT_GT(curve.turn(), 20u);
  for (const size_t count : {1, 7, 20}) {
    EXPECT_EQ(curve.MostWithin(curve.Bytes(count), 0), count);
    EXPECT_EQ(curve.MostWithin(curve.Bytes(count) - 1, 0), count - 1);
  }
  EXPECT_EQ(curve.MostWithin(0, 0), 0u);
  EXPECT_EQ(curve.MostWithin(~uint64_t{0}, 3), curve.turn());
}

// One hot expert fills the room of two that are worth more a byte.
TEST(FfnCurveTest, ExpertsOfUnlikeSizesArePacked) {
  Layer layer;
  layer.experts.rule = Rule::kOpen;
  for (const auto& [bytes, frequency] :
       {std::pair{512, 0.5f}, {512, 0.4f}, {1024, 0.46f}}) {
    layer.experts.experts.push_back(
        {.bytes = static_cast<uint64_t>(bytes),
         .host_read = 1e6 * static_cast<double>(bytes),
         .device_read = 1e6 * static_cast<double>(bytes),
         .frequency = frequency});
  }
  const Hardware hardware = TestHardware();
  const FfnCurve curve(hardware, layer);
  EXPECT_EQ(curve.Items(1), (std::vector<uint32_t>{0}));
  EXPECT_EQ(curve.PackedItems(1, 1024), (std::vector<uint32_t>{2}));
  EXPECT_EQ(curve.PackedItems(1, 1536), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(curve.PackedItems(1, 512), (std::vector<uint32_t>{0}));
}

TEST(FfnCurveTest, ItemsAreRankedByWorthThenNumber) {
  Layer layer;
  layer.neurons.frequency = {0.5f, 1.0f, 0.5f, 0.0f, -0.0f};
  EXPECT_EQ(RankItems(layer), (std::vector<uint32_t>{1, 0, 2, 3, 4}));
  Layer mixture;
  mixture.experts.experts = {
      {.bytes = 512, .host_read = 512, .frequency = 0.5f},
      {.bytes = 256, .host_read = 256, .frequency = 0.5f},
      {.bytes = 256, .host_read = 256, .frequency = 0.75f}};
  EXPECT_EQ(RankItems(mixture), (std::vector<uint32_t>{2, 0, 1}));
}

}  // namespace
}  // namespace thermocline::planner
