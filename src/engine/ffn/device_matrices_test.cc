// What goes to a device of an FFN as matrices; what is computed with it is in
// device/hybrid_matrices_test.cc.
#include "engine/ffn/device_matrices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;

// Of zeros; 20 neurons of 12 inputs.
class DeviceMatricesPlan : public ::testing::Test {
 protected:
  DeviceMatricesPlan() {
    weights_.gate = View(12, 20);
    weights_.up = View(12, 20);
    weights_.down = View(20, 12);
    weights_.up_bias = View(20, 1);
    weights_.down_bias = View(12, 1);
  }

  TensorView View(size_t n, size_t num_rows) const {
    return {.shape = {{n, num_rows, 1, 1}, num_rows > 1 ? 2 : 1},
            .data = reinterpret_cast<const std::byte*>(zeros_.data())};
  }
  Result<uint64_t> Bytes() const {
    return DeviceMatricesBytes(spec_, weights_, sim_->layout());
  }
  void ExpectRefused(const char* reason) const {
    const auto bytes = Bytes();
    ASSERT_FALSE(bytes) << reason;
    EXPECT_EQ(bytes.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(bytes.error().message, HasSubstr(reason));
  }

  const std::vector<float> zeros_ = std::vector<float>(20 * 12);
  model::FfnSpec spec_ = {.width = 20};
  model::FfnWeights weights_;
  std::unique_ptr<device::SimDevice> sim_ =
      device::MakeSim(device::TestMachine(), {});
};

TEST_F(DeviceMatricesPlan, IsWhatIsTaken) {
  const auto lane = DeviceLane::Make(sim_.get(), DeviceMatricesNeed(spec_, 12));
  ASSERT_TRUE(lane) << lane.error().message;
  const uint64_t before = sim_->allocated_bytes(device::MemoryKind::kDevice);
  const auto matrices = DeviceMatrices::Make(spec_, weights_, lane->get());
  ASSERT_TRUE(matrices) << matrices.error().message;
  EXPECT_EQ(sim_->allocated_bytes(device::MemoryKind::kDevice) - before,
            Bytes().value());
  EXPECT_EQ((*matrices)->num_bytes(), Bytes().value());
  EXPECT_EQ((*matrices)->num_neurons(), 20u);
}

TEST_F(DeviceMatricesPlan, SaysWhatCannotBeThere) {
  weights_.up.dtype = DType::kIQ4_XS;
  ExpectRefused("the up matrix in IQ4_XS");
  weights_.up.dtype = DType::kF32;
  spec_.num_experts = 2;
  ExpectRefused("mixture");
  spec_.num_experts = 0;
  weights_.down_t = weights_.up;
  weights_.down = {};
  ExpectRefused("only transposed");
}

}  // namespace
}  // namespace thermocline::engine
