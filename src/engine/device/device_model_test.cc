#include "engine/device/device_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/testing/test_compute_fixture.h"
#include "engine/testing/test_placement.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::PlacedParts;
using ::testing::StartsWith;

class DeviceModelTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const model::Model> MakeModel(size_t head_width) {
    testing::TinySpec spec;
    testing::UseArchitecture("bamboo", spec);
    spec.num_layers = 3;
    spec.head_width = head_width;
    spec.low_ranks = {8, 0, 16};
    spec.both_downs = true;
    return testing::MakeTinyModel(spec);
  }

  Result<std::unique_ptr<DeviceModel>> Load(const model::Model& model,
                                            const Placement& placement) {
    const std::vector<LayerPlan> layers(model.config().num_layers);
    const testing::ComputeFixture fixture(model.config(), {});
    return LoadDeviceModel({.model = &model,
                            .placement = &placement,
                            .layers = &layers,
                            .compute = &fixture.compute(),
                            .device = device_.get()});
  }

  std::shared_ptr<device::SimDevice> device_ = testing::MakeLateSim();
};

TEST_F(DeviceModelTest, HasWhatThePlacementNamesAndTakesWhatItSays) {
  const auto model = MakeModel(16);
  ASSERT_NE(model, nullptr);
  const Placement placement = testing::Place(*model, {}, device_->layout(),
                                             {.predictors = true, .first = 1});
  const auto loaded = Load(*model, placement);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const DeviceModel& there = **loaded;
  EXPECT_NE(there.kv, nullptr);
  EXPECT_NE(there.head, nullptr);
  ASSERT_EQ(there.attention.size(), 3u);
  ASSERT_EQ(there.predictors.size(), 3u);
  EXPECT_EQ(there.attention[0], nullptr);
  EXPECT_NE(there.attention[1], nullptr);
  EXPECT_NE(there.attention[2], nullptr);
  EXPECT_EQ(there.predictors[0], nullptr);
  EXPECT_EQ(there.predictors[1], nullptr);  // the layer has none
  EXPECT_NE(there.predictors[2], nullptr);
  const uint64_t taken = device_->peak_bytes(device::MemoryKind::kDevice);
  EXPECT_LE(taken, placement.device_bytes());
  EXPECT_LT(placement.device_bytes() - taken, 256u * 8);
  EXPECT_EQ(device_->peak_bytes(device::MemoryKind::kPinned),
            placement.pinned_bytes);
}

TEST_F(DeviceModelTest, WithoutAttentionThereAreNoPages) {
  const auto model = MakeModel(16);
  ASSERT_NE(model, nullptr);
  const auto loaded = Load(*model, testing::Place(*model, {}, device_->layout(),
                                                  {.attention = false}));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ((*loaded)->kv, nullptr);
}

TEST_F(DeviceModelTest, ErrorsNameTheLayer) {
  const auto good = MakeModel(16);
  ASSERT_NE(good, nullptr);
  const Placement placement =
      testing::Place(*good, {}, device_->layout(), {.first = 2});
  const auto odd = MakeModel(12);
  ASSERT_NE(odd, nullptr);
  const auto refused = Load(*odd, placement);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message,
              StartsWith("layer 2: heads' keys have 12 elements"));
}

}  // namespace
}  // namespace thermocline::engine
