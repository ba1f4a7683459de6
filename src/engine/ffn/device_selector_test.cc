#include "engine/ffn/device_selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "predictor/low_rank.h"
#include "predictor/test_selector.h"

namespace thermocline::engine {
namespace {

using compute::ProductForm;
using compute::testing::OwnedTensor;
using compute::testing::RandomFloats;
using ::testing::HasSubstr;

// A number of neurons that half fills the last word of a set.
constexpr size_t kInputs = 64, kHidden = 32, kChosenFrom = 150;

class DeviceSelectorTest : public ::testing::Test {
 protected:
  explicit DeviceSelectorTest(DType dtype = DType::kF16)
      : up_(dtype, RandomFloats(kHidden * kInputs, 1), kInputs),
        up_bias_(DType::kF32, RandomFloats(kHidden, 2), kHidden),
        down_(dtype, RandomFloats(kChosenFrom * kHidden, 3), kHidden),
        down_bias_(DType::kF32, RandomFloats(kChosenFrom, 4), kChosenFrom),
        weights_{.up = up_.view(),
                 .up_bias = up_bias_.view(),
                 .down = down_.view(),
                 .down_bias = down_bias_.view()},
        device_(device::MakeSim(
            device::TestMachine(),
            {.kernels = &fixture_.compute().kernels[0], .is_late = true})),
        lane_(DeviceLane::Make(device_.get(), DeviceSelectorNeed(weights_))
                  .value()) {
    for (size_t t = 0; t < kRows; ++t) {
      std::ranges::copy(RandomFloats(kInputs, 10 + t), fixture_.x().row(t));
    }
  }

  // More than a device takes at once.
  static constexpr size_t kRows = 19;
  predictor::testing::SelectorFixture fixture_{kRows, kInputs, kChosenFrom, 2};
  const OwnedTensor up_, up_bias_, down_, down_bias_;
  model::PredictorWeights weights_;
  std::shared_ptr<device::SimDevice> device_;
  std::unique_ptr<DeviceLane> lane_;
};

TEST_F(DeviceSelectorTest, ChoosesWhatTheHostChooses) {
  for (const bool biases : {true, false}) {
    model::PredictorWeights weights = weights_;
    if (!biases) weights.up_bias = weights.down_bias = TensorView();
    for (const float threshold : {0.0f, 0.7f}) {
      const auto host = predictor::MakeLowRankSelector(
          weights, threshold, &fixture_.compute(), &fixture_.scratch());
      const auto before = device_->allocated_bytes(device::MemoryKind::kDevice);
      const auto there = MakeDeviceSelector(weights, threshold, lane_.get());
      ASSERT_TRUE(there) << there.error().message;
      EXPECT_EQ(device_->allocated_bytes(device::MemoryKind::kDevice) - before,
                DeviceSelectorBytes(weights, device_->layout()).value());
      EXPECT_EQ((*there)->num_bytes(), 0u);  // of the host's memory
      const auto choose = [&](predictor::Selector& selector) {
        for (size_t t = 0; t < kRows; ++t) {  // of a wider layer before
          std::fill_n(fixture_.sets().named(t).words,
                      neuron::WordsOf(kChosenFrom), ~uint64_t{0});
        }
        EXPECT_TRUE(selector.Select(ProductForm::kRow, fixture_.x(), kRows,
                                    fixture_.sets()));
        std::vector<std::vector<size_t>> chosen;
        for (size_t t = 0; t < kRows; ++t) {
          chosen.push_back(fixture_.Named(t));
          EXPECT_EQ(fixture_.sets().named(t).Count(), chosen.back().size());
          EXPECT_GT(chosen.back().size(), 10u);
          EXPECT_LT(chosen.back().size(), 140u);
        }
        return chosen;
      };
      const auto expected = choose(*host);
      EXPECT_EQ(choose(**there), expected);
    }
  }
}

TEST_F(DeviceSelectorTest, WhatIsNotFiniteIsACandidate) {
  fixture_.x().row(1)[0] = std::numeric_limits<float>::quiet_NaN();
  const auto there = MakeDeviceSelector(weights_, 0.0f, lane_.get());
  ASSERT_TRUE(there);
  ASSERT_TRUE(
      (*there)->Select(ProductForm::kRow, fixture_.x(), 2, fixture_.sets()));
  EXPECT_EQ(fixture_.sets().named(1).Count(), kChosenFrom);
  EXPECT_LT(fixture_.sets().named(0).Count(), kChosenFrom);
}

TEST_F(DeviceSelectorTest, NamesATypeThatTheDeviceLacks) {
  weights_.down.dtype = DType::kF64;
  const auto refused = DeviceSelectorBytes(weights_, device_->layout());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("the predictor's second matrix in F64"));
}

}  // namespace
}  // namespace thermocline::engine
