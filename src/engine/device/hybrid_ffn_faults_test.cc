// Devices that fail while they compute neurons, experts and whole FFNs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/testing/hybrid.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::HybridRun;
using testing::TinySpec;

struct FaultCase {
  const char* name;
  size_t num_experts;
  bool is_prepared;
  FfnMode mode;
};

class HybridFfnFaults : public ::testing::TestWithParam<FaultCase> {
 protected:
  void SetUp() override {
    TinySpec spec;
    spec.num_layers = 1;
    spec.activation = "relu";
    spec.num_experts = GetParam().num_experts;
    spec.num_experts_used = std::min<size_t>(spec.num_experts, 2);
    auto model = testing::OpenTinyModel(
        spec, {.bundle_at_load = GetParam().is_prepared});
    ASSERT_TRUE(model) << model.error().message;
    model_ = *model;
  }

  // An engine whose sequence has a prompt, if it could be made.
  std::unique_ptr<HybridRun> Start(
      const std::shared_ptr<device::SimDevice>& device) const {
    const SessionOptions session = {
        .num_threads = 1, .ffn = GetParam().mode, .dense_prompts = true};
    Random random(1);
    const Placement placement = testing::DrawPlacement(
        *model_, session, device->layout(),
        {.neurons = 0.5, .matrices = 1.0, .experts = 0.7}, random);
    auto run = std::make_unique<HybridRun>(model_, session, device, placement);
    if (run->status()) EXPECT_TRUE(run->Run({1, 2, 3}, Phase::kPrompt));
    return run;
  }

  // What making the engine says, or else computing five rows. Where one call
  // alone fails, the next pass must not see what was on its way.
  Status Run(const device::SimOptions& options, uint64_t* num_calls) const {
    const std::shared_ptr<device::SimDevice> device =
        device::MakeSim(device::TestMachine(), options);
    const auto run = Start(device);
    if (!run->status()) return run->status();
    const auto logits = run->Run({4, 5, 6, 7, 8}, Phase::kGenerate);
    *num_calls = device->num_calls();
    EXPECT_EQ(run->sequence().length(), logits ? 8 : 3);
    if (logits) return {};
    if (options.fail_call != 0) {
      const auto next = run->Run({9}, Phase::kGenerate);
      EXPECT_TRUE(next) << next.error().message;
      EXPECT_EQ(next.value_or(std::vector<float>()), NextAlone());
    }
    return tl::unexpected(logits.error());
  }

  std::vector<float> NextAlone() const {
    return Start(device::MakeSim(device::TestMachine(), {}))
        ->Run({9}, Phase::kGenerate)
        .value();
  }

  std::shared_ptr<const model::Model> model_;
};

// Whichever call fails, making the engine or the pass ends with an error, no
// sequence has grown, and the next pass is not touched by it.
TEST_P(HybridFfnFaults, EndThePass) {
  for (const bool is_late : {false, true}) {
    uint64_t num_calls = 0;
    ASSERT_TRUE(Run({.is_late = is_late}, &num_calls));
    ASSERT_GT(num_calls, 10u);
    for (uint64_t n = 1, unused = 0; n <= num_calls; ++n) {
      const Status lost = Run({.is_late = is_late, .lose_at = n}, &unused);
      ASSERT_FALSE(lost) << n;
      EXPECT_EQ(lost.error().code, ErrorCode::kIo);
      EXPECT_THAT(lost.error().message, ::testing::HasSubstr("lost"));
      EXPECT_FALSE(Run({.is_late = is_late, .fail_call = n}, &unused)) << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, HybridFfnFaults,
    ::testing::Values(FaultCase{"expert_records", 4, true, FfnMode::kExact},
                      FaultCase{"expert_matrices", 4, false, FfnMode::kDense},
                      FaultCase{"neurons", 0, true, FfnMode::kExact},
                      FaultCase{"matrices", 0, false, FfnMode::kDense}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace thermocline::engine
