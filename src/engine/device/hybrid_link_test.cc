// Models of which a device computes everything, while weights of some layers
// lie in the host's memory, from where it reads them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/device/test_plans.h"
#include "engine/testing/hybrid.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using device::MemoryKind;
using ::testing::HasSubstr;
using testing::HybridRun;
using testing::TinySpec;

struct LinkCase {
  const char* name;
  FfnMode mode;
  double nmse;
  void (*change)(TinySpec& spec);
};

// Matrices, experts, and neurons with predictors and without, at odd sizes.
constexpr LinkCase kLinkCases[] = {
    {"Matrices", FfnMode::kDense, 1e-9,
     [](TinySpec& spec) {
       testing::UseUnlikeLayers(0, spec);
       spec.dtype = DType::kF16;
     }},
    {"MatricesOfOneTensor", FfnMode::kDense, 1e-3,
     [](TinySpec& spec) {
       testing::UseArchitecture("falcon", spec);
       spec.dtype = DType::kQ8_0;
     }},
    {"NeuronsInDense", FfnMode::kDense, 1e-3,
     [](TinySpec& spec) {
       testing::UseArchitecture("opt", spec);
       spec.down_t = true;
       spec.dtype = DType::kQ4_0;
     }},
    {"Experts", FfnMode::kDense, 1e-9,
     [](TinySpec& spec) {
       testing::UseArchitecture("mixtral", spec);
       spec.ffn_width = 176;
       spec.dtype = DType::kF16;
     }},
    {"Neurons", FfnMode::kExact, 1e-9,
     [](TinySpec& spec) {
       testing::UseArchitecture("opt", spec);
       spec.activation = "relu";
       spec.ffn_width = 173;
       spec.both_downs = true;
       spec.dtype = DType::kF16;
     }},
    {"ChosenNeurons", FfnMode::kFast, 1e-9,
     [](TinySpec& spec) {
       spec.activation = "relu";
       spec.ffn_width = 161;
       spec.predictor_rank = 24;
       spec.lookahead = 0;
       spec.both_downs = true;
       spec.dtype = DType::kF16;
     }},
    {"NeuronsChosenAhead", FfnMode::kFast, 1e-9,
     [](TinySpec& spec) {
       spec.activation = "relu";
       spec.predictor_rank = 24;
       spec.lookahead = 1;
       spec.both_downs = true;
       spec.dtype = DType::kF16;
     }},
};

std::string NameOfLink(const ::testing::TestParamInfo<LinkCase>& info) {
  return info.param.name;
}

std::shared_ptr<const model::Model> MakeLinkModel(const LinkCase& link_case) {
  TinySpec spec;
  spec.num_layers = 3;
  link_case.change(spec);
  return testing::MakeTinyModel(spec);
}

SessionOptions LinkOptions(const LinkCase& link_case) {
  return {.num_threads = 2, .ffn = link_case.mode};
}

Placement PlaceLinked(const model::Model& model, const SessionOptions& options,
                      const device::Device& device, size_t num_there) {
  const RuntimePlan plan = PlanRuntime(model.config(), options).value();
  return testing::PlaceOverLink(
             {.model = &model,
              .choice =
                  ChooseFfn(model.config(), options.ffn, options.predictor)
                      .value(),
              .layout = &device.layout(),
              .context = plan.engine.context,
              .num_kv_pages = plan.num_kv_pages,
              .vram = uint64_t{16} << 20},
             num_there)
      .value();
}

// Plans count whole pieces, of more buffers than any of these has.
void ExpectPlanned(const device::Device& device, const Placement& placement) {
  const uint64_t rounding = 256 * 64;
  const uint64_t there = device.allocated_bytes(MemoryKind::kDevice);
  const uint64_t here = device.allocated_bytes(MemoryKind::kPinned);
  EXPECT_LE(there, placement.device_bytes());
  EXPECT_GT(there + rounding, placement.device_bytes());
  EXPECT_LE(here, placement.pinned_bytes + placement.linked_bytes);
  EXPECT_GT(here + rounding, placement.pinned_bytes + placement.linked_bytes);
}

class HybridLink : public ::testing::TestWithParam<LinkCase> {};

TEST_P(HybridLink, SaysWhatTheHostSays) {
  const auto model = MakeLinkModel(GetParam());
  ASSERT_NE(model, nullptr);
  const SessionOptions options = LinkOptions(GetParam());
  HybridRun host(model, options, nullptr, {});
  const std::vector<float> expected = host.All();
  for (const size_t num_there : {0, 1}) {
    const std::shared_ptr<device::SimDevice> device =
        device::MakeSim(device::TestMachine(), {.is_late = true});
    const Placement placement =
        PlaceLinked(*model, options, *device, num_there);
    HybridRun hybrid(model, options, device, placement);
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    ExpectPlanned(*device, placement);
    const std::vector<float> got = hybrid.All();
    EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)),
              GetParam().nmse)
        << num_there;
    EXPECT_EQ(device->peak_bytes(MemoryKind::kDevice),
              device->allocated_bytes(MemoryKind::kDevice));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HybridLink, ::testing::ValuesIn(kLinkCases),
                         NameOfLink);

// The GPU's own kernels, emulated, which check that locked memory of the host
// is theirs to read.
class HybridLinkOnCuda : public ::testing::TestWithParam<LinkCase> {};

TEST_P(HybridLinkOnCuda, SaysWhatTheHostSays) {
  const auto model = MakeLinkModel(GetParam());
  ASSERT_NE(model, nullptr);
  const SessionOptions options = LinkOptions(GetParam());
  constexpr size_t kCounts[] = {1, 3};
  const auto expected =
      HybridRun(model, options, nullptr, {}).RunAll(3, kCounts);
  cuda_on_host::ReviveDevice(5, true);
  auto opened = device::OpenCuda(0);
  ASSERT_TRUE(opened) << opened.error().message;
  const std::shared_ptr<device::Device> device = *std::move(opened);
  const Placement placement = PlaceLinked(*model, options, *device, 1);
  {
    HybridRun hybrid(model, options, device, placement);
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    ExpectPlanned(*device, placement);
    const auto got = hybrid.RunAll(3, kCounts);
    EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)),
              GetParam().nmse);
  }
  EXPECT_EQ(cuda_on_host::TakeFault(), "");
}

INSTANTIATE_TEST_SUITE_P(Models, HybridLinkOnCuda,
                         ::testing::ValuesIn(kLinkCases), NameOfLink);

// A token takes at least what the link takes for the weights that cross; what
// is not needed does not cross.
TEST(HybridLinkTime, IsTheLinks) {
  const auto up_bytes = [](const LinkCase& link_case, Placement* placement) {
    const auto model = MakeLinkModel(link_case);
    const SessionOptions options = LinkOptions(link_case);
    const std::shared_ptr<device::SimDevice> device =
        device::MakeSim(device::TestMachine(), {});
    *placement = PlaceLinked(*model, options, *device, 0);
    HybridRun hybrid(model, options, device, *placement);
    EXPECT_TRUE(hybrid.Run({1, 2, 3}, Phase::kPrompt));
    EXPECT_TRUE(hybrid.Run({4}, Phase::kGenerate));
    const double before = device->now();
    const uint64_t bytes_before = device->accounts().up_bytes;
    EXPECT_TRUE(hybrid.Run({5}, Phase::kGenerate));
    const auto bytes =
        static_cast<double>(device->accounts().up_bytes - bytes_before);
    EXPECT_GE(device->now() - before, bytes / device->machine().up_rate);
    return bytes;
  };
  Placement placement;
  EXPECT_GE(up_bytes(kLinkCases[0], &placement),
            0.98 * static_cast<double>(placement.linked_bytes));
  const double chosen = up_bytes(kLinkCases[5], &placement);
  EXPECT_LT(chosen, 0.9 * static_cast<double>(placement.linked_bytes));
  EXPECT_GT(chosen, 0.2 * static_cast<double>(placement.linked_bytes));
}

// What crosses the link is the host's memory, and of its budget.
TEST(HybridLinkBudget, IsTheHostsToo) {
  const auto model = MakeLinkModel(kLinkCases[5]);
  ASSERT_NE(model, nullptr);
  SessionOptions options = LinkOptions(kLinkCases[5]);
  const std::shared_ptr<device::SimDevice> device =
      device::MakeSim(device::TestMachine(), {});
  options.device = device;
  options.budget.vram = uint64_t{8} << 20;
  options.place = [](const PlacementRequest& request) {
    return testing::PlaceOverLink(request, 0);
  };
  auto plan = PlanRuntime(*model, options);
  ASSERT_TRUE(plan) << plan.error().message;
  const uint64_t vram = plan->memory.device.total();
  const uint64_t ram = plan->memory.host.total();
  EXPECT_GT(plan->memory.host.linked, 100000u);
  EXPECT_EQ(plan->memory.device.weights + plan->memory.device.slots, 0u);
  options.budget = {.ram = ram, .vram = vram};
  EXPECT_TRUE(Runtime::Create(model, options));
  EXPECT_LE(device->peak_bytes(MemoryKind::kDevice), vram);
  options.budget = {.ram = ram, .vram = vram - 1};
  EXPECT_FALSE(Runtime::Create(model, options));
  options.budget = {.ram = ram - 1, .vram = vram};
  const auto refused = Runtime::Create(model, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("weights over the link"));
}

}  // namespace
}  // namespace thermocline::engine
