#include "engine/forward/device_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "compute/test_compute.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using compute::testing::OwnedTensor;
using compute::testing::RandomFloats;
using ::testing::HasSubstr;

TEST(DeviceHead, IsTheProductWithTheHead) {
  constexpr size_t kHeadRows = 19, kHeadInputs = 64, kHeadWords = 101;
  for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
    const compute::testing::TestCompute fixture(
        {.num_rows = kHeadRows, .width = kHeadWords, .num_threads = 2});
    const OwnedTensor head(dtype, RandomFloats(kHeadWords * kHeadInputs, 1),
                           kHeadInputs);
    std::vector<float> x = RandomFloats(kHeadRows * kHeadInputs, 2);
    const compute::Rows normed = {x.data(), kHeadInputs, kHeadInputs};
    model::Weights weights;
    weights.head = head.view();
    const auto device =
        device::MakeSim(device::TestMachine(), {.is_late = true});
    const model::Config config = {.width = kHeadInputs,
                                  .vocab_size = kHeadWords};
    const auto lane = DeviceLane::Make(device.get(), DeviceHeadNeed(config));
    ASSERT_TRUE(lane);
    EXPECT_EQ(DeviceHeadBytes(weights.head, device->layout()).value(),
              kHeadWords * (dtype == DType::kF32 ? 256u : 80u));
    const auto there = MakeDeviceHead(weights.head, lane->get());
    ASSERT_TRUE(there) << there.error().message;
    const auto run = [&](HeadExecutor& executor, size_t num_rows) {
      std::vector<float> logits(num_rows * kHeadWords);
      EXPECT_TRUE(
          executor.Run({.phase = Phase::kGenerate,
                        .num_rows = num_rows,
                        .normed = normed,
                        .logits = {logits.data(), kHeadWords, kHeadWords}}));
      return logits;
    };
    const auto expected =
        run(*MakeHostHead(&weights, &fixture.compute()), kHeadRows);
    const auto got = run(**there, kHeadRows);
    EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)), 1e-12);
    // As with others beside it.
    const auto first = run(**there, 1);
    EXPECT_TRUE(std::ranges::equal(first, std::span(got).first(kHeadWords)));
  }
}

TEST(DeviceHead, NamesATypeThatTheDeviceLacks) {
  const auto device = device::MakeSim(device::TestMachine(), {});
  const TensorView head = {.dtype = DType::kF64,
                           .shape = {.ne = {64, 10, 1, 1}, .rank = 2}};
  const auto refused = DeviceHeadBytes(head, device->layout());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("the head in F64"));
}

}  // namespace
}  // namespace thermocline::engine
