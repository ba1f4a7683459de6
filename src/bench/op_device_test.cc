#include "bench/op_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "device/cuda/test_cuda.h"
#include "device/sim/test_machine.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kDeviceRoom = 4 << 20;

// Dense, sparse and moved, against sums in double.
void ExpectRight(std::shared_ptr<device::Device> device, DType dtype,
                 size_t width, size_t num_neurons) {
  OpLayer layer({.dtype = dtype, .width = width, .num_neurons = num_neurons},
                7);
  const auto subject = DeviceSubject::Make(layer, {.device = std::move(device),
                                                   .most_bytes = kDeviceRoom,
                                                   .most_moved = 3});
  ASSERT_TRUE(subject.has_value()) << subject.error().message;
  std::vector<uint32_t> all(num_neurons);
  std::iota(all.begin(), all.end(), 0u);
  const auto expect_right = [&](const std::vector<uint32_t>& ids,
                                size_t num_rows, bool is_dense) {
    for (size_t t = 0; t < std::min<size_t>(num_rows, 8); ++t) {
      const Status status =
          layer.Check("it", ids, t, is_dense, (*subject)->out(t));
      EXPECT_TRUE(status.has_value()) << status.error().message;
    }
  };
  ASSERT_GT((*subject)->Dense().value_or(0.0), 0.0);
  expect_right(all, 1, true);
  const std::vector<uint32_t> some = {1,
                                      static_cast<uint32_t>(num_neurons - 1)};
  ASSERT_GT((*subject)->Sparse(some, 1).value_or(0.0), 0.0);
  expect_right(some, 1, false);
  ASSERT_GT((*subject)->Sparse(all, 2).value_or(0.0), 0.0);
  expect_right(all, 2, false);
  ASSERT_TRUE((*subject)->SetMoved({some}).has_value());
  for (const size_t num_rows : {1, 10}) {
    const auto times = (*subject)->Move(num_rows);
    ASSERT_TRUE(times.has_value()) << times.error().message;
    EXPECT_GT(times->move, 0.0);
    EXPECT_GT(times->compute, 0.0);
    expect_right(some, num_rows, false);
  }
}

TEST(OpDeviceTest, ASimulatedOneComputesWhatTheLayerWants) {
  for (const auto& [dtype, width] : {std::pair{DType::kQ4_0, size_t{96}},
                                     {DType::kQ8_0, size_t{32}},
                                     {DType::kF16, size_t{71}}}) {
    ExpectRight(device::MakeSim(device::TestMachine(), {}), dtype, width, 77);
  }
}

// The GPU's own kernels, emulated.
TEST(OpDeviceTest, CudaComputesWhatTheLayerWants) {
  for (const auto& [dtype, width] :
       {std::pair{DType::kQ4_0, size_t{64}}, {DType::kF16, size_t{33}}}) {
    std::shared_ptr<device::Device> device = device::OpenPlayed(5, true);
    ASSERT_NE(device, nullptr);
    ExpectRight(std::move(device), dtype, width, 37);
  }
}

// Times of computing, and nothing is computed.
TEST(OpDeviceTest, TimesAloneAreThoseOfComputing) {
  OpLayer layer({.dtype = DType::kF16, .width = 64, .num_neurons = 40}, 7);
  device::SimCounts counts;
  const auto times_of = [&](bool computes) {
    device::SimOptions sim;
    sim.time_only = !computes;
    if (!computes) sim.counts = [&](const auto&) { return counts; };
    const auto subject = DeviceSubject::Make(
        layer, {.device = device::MakeSim(device::TestMachine(), sim),
                .counts = computes ? nullptr : &counts,
                .most_bytes = kDeviceRoom,
                .most_moved = 2});
    EXPECT_TRUE(subject.has_value());
    const std::vector<uint32_t> ids = {3, 30};
    std::vector<double> times = {(*subject)->Dense().value_or(0.0),
                                 (*subject)->Sparse(ids, 9).value_or(0.0)};
    EXPECT_TRUE((*subject)->SetMoved(ids).has_value());
    const auto moved = (*subject)->Move(3);
    times.push_back(moved->move);
    times.push_back(moved->compute);
    EXPECT_EQ((*subject)->out(0).empty(), !computes);
    return times;
  };
  const auto alone = times_of(false), computed = times_of(true);
  ASSERT_EQ(alone.size(), computed.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(alone[i], computed[i], 1e-9) << i;
  }
}

TEST(OpDeviceTest, RefusesWhatHasNoRoom) {
  const OpLayer layer({.width = 64, .num_neurons = 40}, 7);
  auto machine = device::TestMachine();
  const auto too_much = DeviceSubject::Make(
      layer, {.device = device::MakeSim(machine, {}), .most_bytes = 1000});
  ASSERT_FALSE(too_much.has_value());
  EXPECT_EQ(too_much.error().code, ErrorCode::kResourceExhausted);
  machine.memory_bytes = 5000;
  const auto too_little = DeviceSubject::Make(
      layer,
      {.device = device::MakeSim(machine, {}), .most_bytes = kDeviceRoom});
  ASSERT_FALSE(too_little.has_value());
  EXPECT_THAT(too_little.error().message, HasSubstr("the layer's records"));
}

}  // namespace
}  // namespace thermocline::bench
