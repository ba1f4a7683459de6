#include "engine/attention/device_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compute/test_compute.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/attention/attention.h"
#include "engine/testing/test_compute_fixture.h"
#include "engine/testing/tiny_model.h"
#include "tensor/float16.h"

namespace thermocline::engine {
namespace {

using compute::testing::RandomFloats;
using ::testing::HasSubstr;
using testing::TinySpec;

std::shared_ptr<const model::Model> MakeModelWith(size_t head_width,
                                                  DType dtype) {
  TinySpec spec;
  spec.head_width = head_width;
  spec.dtype = dtype;
  return testing::MakeTinyModel(spec);
}

TEST(DeviceAttentionPlan, NamesWhatTheDeviceCannotCompute) {
  const auto device = device::MakeSim(device::TestMachine(), {});
  const auto refusal = [&](const model::Model& model,
                           const model::AttentionWeights& weights) {
    const auto refused =
        DeviceAttentionBytes(model.config(), 0, weights, device->layout());
    EXPECT_FALSE(refused);
    if (refused) return std::string();
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    return refused.error().message;
  };
  const auto odd = MakeModelWith(12, DType::kF32);
  ASSERT_NE(odd, nullptr);
  EXPECT_THAT(refusal(*odd, odd->weights().layers[0].attention),
              HasSubstr("heads' keys have 12 elements"));
  const auto wide = MakeModelWith(264, DType::kF32);
  ASSERT_NE(wide, nullptr);
  EXPECT_THAT(refusal(*wide, wide->weights().layers[0].attention),
              HasSubstr("multiples of 8, up to 256"));
  const auto good = MakeModelWith(16, DType::kF32);
  ASSERT_NE(good, nullptr);
  model::AttentionWeights weights = good->weights().layers[0].attention;
  weights.k.dtype = DType::kF64;
  EXPECT_THAT(refusal(*good, weights), HasSubstr("the key matrix in F64"));
}

// Queries have their place there too, between what goes over and what comes
// back.
TEST(DeviceAttentionPlan, PinnedMemoryHoldsAllRows) {
  model::AttentionSpec spec;
  spec.num_heads = 1024;
  spec.num_kv_heads = 1;
  spec.key_width = spec.value_width = 256;
  const model::Config config = {.width = 64, .layers = {{.attention = spec}}};
  constexpr uint64_t kFloats = 64 + 1024 * 256 + 2 * 256 + 64;
  EXPECT_GE(DeviceAttentionNeed(config, 0, 64).pinned_bytes,
            kernels::kDeviceRows * kFloats * sizeof(float));
}

// A layer on the host, and on a device; both with pages of their own.
class DeviceAttentionTest : public ::testing::Test {
 protected:
  static constexpr size_t kRows = 21;
  static constexpr int64_t kContext = 100;

  DeviceAttentionTest()
      : model_(MakeModelWith(16, DType::kF32)),
        config_(model_->config()),
        weights_(model_->weights().layers[1].attention),
        fixture_(config_,
                 {.batch = kRows, .context = kContext, .num_threads = 2}),
        layout_(PlanKvLayout(config_, DType::kF16, DType::kF16).value()),
        pool_(KvPool::Create(layout_, 8).value()),
        device_(device::MakeSim(device::TestMachine(), {.is_late = true})) {
    LaneNeed need = DeviceAttentionNeed(config_, 1, kContext);
    need.Cover(DeviceKvNeed());
    lane_ = DeviceLane::Make(device_.get(), need).value();
    constexpr size_t kAttending[] = {1};
    kv_ = DeviceKv::Make(config_, kAttending, 8, lane_.get()).value();
    host_ =
        std::make_unique<Attention>(&config_, &weights_, 1, &fixture_.compute(),
                                    &fixture_.scratch().attention[1]);
  }

  Result<std::unique_ptr<AttentionExecutor>> MakeThere() {
    return MakeDeviceAttention({.config = &config_,
                                .weights = &weights_,
                                .layer_idx = 1,
                                .lane = lane_.get(),
                                .kv = kv_.get(),
                                .compute = &fixture_.compute()});
  }

  // kRows rows of two sequences: 15, and the rest.
  struct Outcome {
    std::vector<float> out;
    std::vector<uint16_t> k, v;  // in the host's pages, of the first sequence
  };
  Outcome Run(AttentionExecutor& executor, bool is_there) {
    KvSequence a(pool_.get(), kContext), b(pool_.get(), kContext);
    EXPECT_TRUE(a.Reserve(15));
    EXPECT_TRUE(b.Reserve(kRows - 15));
    const SequenceRows runs[] = {
        {.sequence = &a, .first_row = 0, .num_rows = 15},
        {.sequence = &b, .first_row = 15, .num_rows = kRows - 15}};
    if (is_there) EXPECT_TRUE(kv_->Sync(runs));
    std::vector<float> x = RandomFloats(kRows * config_.width, 1);
    const size_t num_pairs = config_.ropes[0].width / 2;
    std::vector<float> cos = RandomFloats(kRows * num_pairs, 2);
    std::vector<float> sin = RandomFloats(kRows * num_pairs, 3);
    Outcome outcome = {.out = std::vector<float>(kRows * config_.width),
                       .k = std::vector<uint16_t>(15 * 2 * 16),
                       .v = std::vector<uint16_t>(15 * 2 * 16)};
    const Status status =
        executor.Run({.phase = Phase::kGenerate,
                      .num_rows = kRows,
                      .runs = runs,
                      .normed = {x.data(), config_.width, config_.width},
                      .out = {outcome.out.data(), config_.width, config_.width},
                      .rope_cos = {cos.data(), num_pairs, num_pairs},
                      .rope_sin = {sin.data(), num_pairs, num_pairs}});
    EXPECT_TRUE(status) << status.error().message;
    a.Get(1, 0, 15, outcome.k.data(), outcome.v.data());
    return outcome;
  }

  std::shared_ptr<const model::Model> model_;
  const model::Config& config_;
  const model::AttentionWeights& weights_;
  testing::ComputeFixture fixture_;
  KvLayout layout_;
  std::unique_ptr<KvPool> pool_;
  std::shared_ptr<device::SimDevice> device_;
  std::unique_ptr<DeviceLane> lane_;
  std::unique_ptr<DeviceKv> kv_;
  std::unique_ptr<AttentionExecutor> host_;
};

TEST_F(DeviceAttentionTest, TakesWhatWasPlannedAndGivesTheHostsPagesItsRows) {
  const uint64_t before = device_->allocated_bytes(device::MemoryKind::kDevice);
  const auto there = MakeThere();
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(device_->allocated_bytes(device::MemoryKind::kDevice) - before,
            DeviceAttentionBytes(config_, 1, weights_, device_->layout()));
  const Outcome expected = Run(*host_, false);
  const Outcome got = Run(**there, true);
  EXPECT_LE(testing::Nmse(got.out, std::span<const float>(expected.out)),
            1e-10);
  const auto floats = [](const std::vector<uint16_t>& halves) {
    std::vector<float> values;
    for (const uint16_t half : halves) values.push_back(F16ToF32(half));
    return values;
  };
  EXPECT_LE(
      testing::Nmse(floats(got.k), std::span<const float>(floats(expected.k))),
      1e-7);
  EXPECT_LE(
      testing::Nmse(floats(got.v), std::span<const float>(floats(expected.v))),
      1e-7);
}

// One copy over and one back for 8 rows, and one wait.
TEST_F(DeviceAttentionTest, CopiesOnceEachWay) {
  const auto there = MakeThere();
  ASSERT_TRUE(there);
  const device::SimAccounts before = device_->accounts();
  Run(**there, true);
  const device::SimAccounts after = device_->accounts();
  constexpr double kTransfers = 3;  // 21 rows
  const auto latencies = [&](double seconds, uint64_t num_bytes, double rate) {
    return (seconds - static_cast<double>(num_bytes) / rate) / device::kCopy;
  };
  const device::Machine& machine = device_->machine();
  EXPECT_NEAR(latencies(after.up_seconds - before.up_seconds,
                        after.up_bytes - before.up_bytes, machine.up_rate),
              kTransfers, 0.01);
  EXPECT_NEAR(
      latencies(after.down_seconds - before.down_seconds,
                after.down_bytes - before.down_bytes, machine.down_rate),
      kTransfers, 0.01);
}

}  // namespace
}  // namespace thermocline::engine
