#include "engine/device/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/ffn/device_ffn.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() : device_(device::MakeSim(device::TestMachine(), {})) {}

  static std::shared_ptr<const model::Model> Open(testing::TinySpec spec,
                                                  bool bundle = true) {
    spec.activation = "relu";
    auto model = testing::OpenTinyModel(spec, {.bundle_at_load = bundle});
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
  }
  Result<Placement> Place(const model::Model& model, uint64_t vram,
                          FfnMode mode = FfnMode::kExact) const {
    return PlaceByFrequency(model, mode, device_->layout(), vram);
  }

  std::unique_ptr<device::SimDevice> device_;
};

// More memory never means fewer neurons, and no byte too much is planned.
TEST_F(PlacementTest, FillsTheBudget) {
  const auto model = Open({});
  ASSERT_NE(model, nullptr);
  const auto records =
      PlanDeviceRecords(model->config().layers[0].ffn,
                        model->weights().layers[0].ffn, device_->layout());
  ASSERT_TRUE(records);
  size_t before = 0;
  for (uint64_t vram = 160 << 10; vram < 600 << 10; vram += 10 << 10) {
    const auto placement = Place(*model, vram);
    ASSERT_TRUE(placement) << placement.error().message;
    EXPECT_LE(placement->device_bytes(), vram);
    size_t count = 0;
    for (const LayerPlacement& layer : placement->layers) {
      EXPECT_TRUE(std::ranges::is_sorted(layer.resident));
      count += layer.resident.size();
    }
    EXPECT_GE(count, before);
    before = count;
    const size_t all = 2 * 160;
    if (count < all) {
      EXPECT_GT(placement->device_bytes() + records->record_bytes + 2 * 256,
                vram);
    }
  }
  EXPECT_EQ(before, size_t{2 * 160});
}

// Without a profile every layer has the same share, its first neurons.
TEST_F(PlacementTest, LayersShareAlikeWithoutAProfile) {
  const auto model = Open({});
  ASSERT_NE(model, nullptr);
  const auto placement = Place(*model, 250 << 10);
  ASSERT_TRUE(placement) << placement.error().message;
  const auto& first = placement->layers[0].resident;
  const auto& second = placement->layers[1].resident;
  ASSERT_GT(first.size(), 10u);
  EXPECT_LE(first.size() - second.size(), 1u);
  EXPECT_EQ(first.back(), first.size() - 1);
}

TEST_F(PlacementTest, SaysWhyNothingCanBeThere) {
  const auto plain = Open({}, false);
  ASSERT_NE(plain, nullptr);
  const auto not_prepared = Place(*plain, 1 << 20);
  ASSERT_FALSE(not_prepared);
  EXPECT_EQ(not_prepared.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(not_prepared.error().message, HasSubstr("not prepared"));
  const auto dense = Place(*plain, 1 << 20, FfnMode::kDense);
  ASSERT_FALSE(dense);
  EXPECT_THAT(dense.error().message, HasSubstr("as matrices"));

  testing::TinySpec spec;
  testing::UseArchitecture("mixtral", spec);
  const auto mixture = Open(spec);
  ASSERT_NE(mixture, nullptr);
  const auto experts = Place(*mixture, 1 << 20);
  ASSERT_FALSE(experts);
  EXPECT_THAT(experts.error().message, HasSubstr("experts stay on the host"));

  const auto model = Open({});
  const auto small = Place(*model, 10);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(small.error().message, HasSubstr("at least"));
}

}  // namespace
}  // namespace thermocline::engine
