#include "bench/hybrid_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "device/sim/test_machine.h"

namespace thermocline::bench {
namespace {

using compute::Stage;

// Two layers of ten neurons, three of which lie on the device.
model::Config TwoLayers() {
  model::Config config;
  config.num_layers = 2;
  config.layers.resize(2);
  for (model::LayerSpec& layer : config.layers) layer.ffn.width = 10;
  return config;
}

engine::Placement ThreeNeurons() {
  engine::Placement placement;
  placement.layers.resize(2);
  placement.layers[1].resident = {2, 3, 5};
  placement.weight_bytes = 100;
  placement.record_bytes = 30;
  return placement;
}

class HybridMeterTest : public ::testing::Test {
 protected:
  HybridRow RowOf(const HybridMeter& meter, engine::FfnMode mode) {
    engine::MemoryPlan memory;
    memory.host.weights = 1000;
    memory.device.weights = 130;
    return meter.Row(TwoLayers(), mode, ThreeNeurons(), memory, std::nullopt);
  }
  void Over(uint64_t num_bytes) {
    ASSERT_TRUE(sim_->Copy(stream_, there_.data(), pinned_.data(), num_bytes));
    ASSERT_TRUE(sim_->Synchronize(stream_));
  }

  std::unique_ptr<device::SimDevice> sim_ =
      device::MakeSim(device::TestMachine(), {});
  device::Stream stream_ = *sim_->MakeStream(device::Priority::kNormal);
  device::Buffer there_ =
      std::move(*sim_->Allocate(1 << 16, device::MemoryKind::kDevice, "there"));
  device::Buffer pinned_ =
      std::move(*sim_->Allocate(1 << 16, device::MemoryKind::kPinned, "here"));
};

TEST_F(HybridMeterTest, MovesTheClockOfTheMachine) {
  HybridMeter meter(sim_.get());
  meter.Read(Stage::kHead, 1 << 16);
  EXPECT_EQ(sim_->now(), 0.5);
  EXPECT_EQ(sim_->accounts().host_bytes, 1u << 16);
}

TEST_F(HybridMeterTest, CountsWhatLiesBetweenBeginAndEnd) {
  HybridMeter meter(sim_.get());
  meter.Read(Stage::kHead, 1 << 17);  // before: counts for nothing
  Over(1 << 15);
  const engine::SparseTotals before = {.num_candidates = 50,
                                       .num_device_candidates = 20,
                                       .num_device_bytes = 1000};
  meter.Begin(before);
  meter.Read(Stage::kQkv, 1 << 16);
  meter.Read(Stage::kNeurons, 1 << 15);
  Over(1 << 14);
  ASSERT_TRUE(sim_->Copy(stream_, pinned_.data(), there_.data(), 1 << 13));
  ASSERT_TRUE(sim_->Fill(stream_, there_.data(), 0, 1 << 16));
  ASSERT_TRUE(sim_->Synchronize(stream_));
  meter.End({.num_candidates = 80,
             .num_device_candidates = 30,
             .num_device_bytes = 1700},
            2);
  meter.Read(Stage::kHead, 1 << 17);  // behind: nor does this

  const HybridRow row = RowOf(meter, engine::FfnMode::kExact);
  const HybridCosts& costs = row.costs;
  EXPECT_EQ(costs.num_tokens, 2u);
  EXPECT_EQ(costs.host_bytes, 3u << 15);
  EXPECT_EQ(costs.host_neuron_bytes, 1u << 15);
  EXPECT_EQ(costs.device_bytes, 1u << 16);
  EXPECT_EQ(costs.device_neuron_bytes, 700u);
  EXPECT_EQ(costs.num_candidates, 30u);
  EXPECT_EQ(costs.num_device_candidates, 10u);
  EXPECT_EQ(costs.up_bytes, 1u << 14);
  EXPECT_EQ(costs.down_bytes, 1u << 13);
  EXPECT_EQ(costs.device_seconds, 0x1p-4);
  // 2^14 bytes up and 2^13 down take a quarter of a second each.
  const double copies = 2 * (device::kCopy + 0.25);
  EXPECT_EQ(costs.link_seconds, copies);
  const double waiting = copies + device::kLaunch + 0x1p-4 + 2 * device::kSync;
  EXPECT_EQ(costs.waiting_seconds, waiting);
  EXPECT_EQ(costs.seconds, 0.75 + waiting);
}

TEST_F(HybridMeterTest, TellsWhatIsThere) {
  HybridMeter meter(sim_.get());
  const HybridRow row = RowOf(meter, engine::FfnMode::kExact);
  EXPECT_EQ(row.num_layers, 2u);
  EXPECT_EQ(row.num_resident, 3u);
  EXPECT_EQ(row.planned_bytes, 130u);
  EXPECT_EQ(row.host_bytes, 1000u);
  EXPECT_EQ(row.peak_device_bytes, 1u << 16);
  ASSERT_TRUE(row.rates.has_value());
  EXPECT_EQ(row.rates->device, 0x1p20);
  EXPECT_EQ(row.rates->host, 0x1p17);
}

// Weights that the device reads over the link: the bound has its rate, where a
// machine states one.
TEST_F(HybridMeterTest, HasTheLinksRateWhereWeightsCross) {
  EXPECT_EQ(RowOf(HybridMeter(sim_.get()), engine::FfnMode::kExact).rates->link,
            0.0);
  engine::Placement placement = ThreeNeurons();
  placement.linked_bytes = 50;
  const auto row_of = [&](const HybridMeter& meter,
                          const std::optional<HybridRates>& rates) {
    return meter.Row(TwoLayers(), engine::FfnMode::kExact, placement, {},
                     rates);
  };
  EXPECT_EQ(row_of(HybridMeter(sim_.get()), std::nullopt).rates->link, 0x1p16);
}

// Nobody lists neurons then: each token reads all that are there.
TEST_F(HybridMeterTest, CountsAllNeuronsOfADenseModel) {
  HybridMeter meter(sim_.get());
  meter.Begin({});
  ASSERT_TRUE(sim_->Fill(stream_, there_.data(), 0, 1 << 10));
  ASSERT_TRUE(sim_->Synchronize(stream_));
  meter.End({}, 4);
  EXPECT_EQ(RowOf(meter, engine::FfnMode::kDense).costs.device_neuron_bytes,
            4u * 30);
  EXPECT_EQ(RowOf(meter, engine::FfnMode::kExact).costs.device_neuron_bytes,
            0u);
}

// Of the experts that are there those in use, and no more than was read: the
// rest would be less than nothing.
TEST_F(HybridMeterTest, CountsTheExpertsInUseOfADenseMixture) {
  model::Config config = TwoLayers();
  config.layers[1].ffn.num_experts = 8;
  config.layers[1].ffn.num_experts_used = 2;
  engine::Placement placement = ThreeNeurons();
  placement.layers[1] = {.experts = {0, 1, 2}};
  placement.record_bytes = 400;
  for (const uint64_t read : {1000u, 300u}) {
    HybridMeter meter(sim_.get());
    meter.Begin({});
    ASSERT_TRUE(sim_->Fill(stream_, there_.data(), 0, read));
    ASSERT_TRUE(sim_->Synchronize(stream_));
    meter.End({}, 4);
    const HybridCosts costs =
        meter.Row(config, engine::FfnMode::kDense, placement, {}, std::nullopt)
            .costs;
    EXPECT_EQ(costs.device_bytes, read);
    EXPECT_EQ(costs.device_neuron_bytes, std::min<uint64_t>(read, 4 * 100));
  }
}

}  // namespace
}  // namespace thermocline::bench
