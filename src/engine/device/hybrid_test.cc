// Models some of whose neurons lie on a device, as a whole: what they say is
// what the host says alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/device/test_plans.h"
#include "engine/engine.h"
#include "engine/ffn/device_ffn.h"
#include "engine/runtime.h"
#include "engine/testing/one_sequence.h"
#include "engine/testing/reference.h"
#include "engine/testing/tiny_model.h"
#include "model/test_split.h"
#include "os/test_folder.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::OpenTinyModel;
using testing::RandomTokens;
using testing::TinySpec;
using Floats = std::vector<float>;

constexpr size_t kHybridVocab = 50;

// A share of each layer's neurons, drawn; all that their FFNs may need.
Placement Draw(const model::Model& model, const device::RowLayout& layout,
               double share, uint64_t seed) {
  Random random(seed);
  Placement placement;
  placement.layers.resize(model.weights().layers.size());
  LaneNeed need;
  for (size_t i = 0; i < placement.layers.size(); ++i) {
    const model::FfnSpec& spec = model.config().layers[i].ffn;
    std::vector<uint32_t>& resident = placement.layers[i].resident;
    for (uint32_t n = 0; n < static_cast<uint32_t>(spec.width); ++n) {
      if (random.Uniform(0.0f, 1.0f) < share) resident.push_back(n);
    }
    need.Cover(
        DeviceFfnNeed(spec, static_cast<uint64_t>(model.config().width)));
    placement.record_bytes +=
        PlanDeviceRecords(spec, model.weights().layers[i].ffn, layout)
            ->BytesFor(resident.size());
  }
  placement.lane_bytes = need.device_bytes;
  placement.pinned_bytes = need.pinned_bytes;
  return placement;
}

// With the device, if there is one.
class OneRun : public testing::OneSequence {
 public:
  OneRun(std::shared_ptr<const model::Model> model,
         const SessionOptions& options, std::shared_ptr<device::Device> device,
         const Placement& placement)
      : OneSequence(std::move(model), options, [&](EngineOptions& engine) {
          engine.device = std::move(device);
          engine.placement = placement;
        }) {}

  // Tokens one by one, some together, and more than a device takes at once.
  Floats All() {
    constexpr size_t kCounts[] = {1, 5, 11, 1};
    return RunAll(9, kCounts);
  }
};

std::shared_ptr<device::SimDevice> MakeDevice(
    const device::SimOptions& options = {}) {
  return device::MakeSim(device::TestMachine(), options);
}

std::shared_ptr<const model::Model> OpenRelu(const std::string& architecture,
                                             DType dtype,
                                             const std::string& activation) {
  TinySpec spec;
  testing::UseArchitecture(architecture, spec);
  spec.activation = activation;
  spec.dtype = dtype;
  auto model = OpenTinyModel(spec, {.bundle_at_load = true});
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : nullptr;
}

SessionOptions OptionsOf(FfnMode mode) {
  SessionOptions options = {.num_threads = 2, .ffn = mode};
  if (mode == FfnMode::kFast) {
    options.predictor = PredictorChoice::kTrainingFree;
  }
  return options;
}

struct HybridCase {
  const char* architecture;
  const char* activation;
  DType dtype;
  double nmse;
};

class Hybrid : public ::testing::TestWithParam<HybridCase> {};

// Whoever is resident: nobody, some, most, all.
TEST_P(Hybrid, SaysWhatTheHostSays) {
  const HybridCase& param = GetParam();
  const auto model =
      OpenRelu(param.architecture, param.dtype, param.activation);
  ASSERT_NE(model, nullptr);
  const bool gated = model->config().layers[0].ffn.gated;
  for (const FfnMode mode :
       {FfnMode::kDense, FfnMode::kExact, FfnMode::kFast}) {
    if (mode == FfnMode::kFast && !gated) continue;
    OneRun host(model, OptionsOf(mode), nullptr, {});
    const Floats expected = host.All();
    const SparseTotals wanted = host.engine().sparse_totals();
    for (const double share : {0.0, 0.3, 0.8, 1.0}) {
      SCOPED_TRACE(std::string(NameOf(mode)) + " " + std::to_string(share));
      const auto device = MakeDevice();
      OneRun hybrid(model, OptionsOf(mode), device,
                    Draw(*model, device->layout(), share, 7));
      ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
      const Floats got = hybrid.All();
      if (share == 0.0) EXPECT_EQ(got, expected);
      EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)),
                param.nmse);
      const SparseTotals totals = hybrid.engine().sparse_totals();
      EXPECT_EQ(totals.num_candidates, wanted.num_candidates);
      EXPECT_EQ(totals.num_union_candidates, wanted.num_union_candidates);
      if (mode == FfnMode::kDense) continue;  // not counted
      EXPECT_EQ(totals.num_device_candidates == 0, share == 0.0);
      EXPECT_EQ(totals.num_device_candidates == totals.num_candidates,
                share == 1.0);
    }
  }
}

std::string NameOfCase(const ::testing::TestParamInfo<HybridCase>& info) {
  return std::string(info.param.architecture) + "_" + info.param.activation +
         "_" + std::string(NameOf(info.param.dtype));
}

INSTANTIATE_TEST_SUITE_P(
    Models, Hybrid,
    ::testing::Values(HybridCase{"llama", "relu", DType::kF32, 1e-10},
                      HybridCase{"llama", "fatrelu", DType::kF16, 1e-10},
                      HybridCase{"llama", "drelu", DType::kQ8_0, 1e-10},
                      HybridCase{"falcon", "relu", DType::kF16, 1e-10},
                      HybridCase{"opt", "relu", DType::kF32, 1e-10}),
    NameOfCase);

// The GPU's own kernels and what drives them, emulated (cuda_on_host/): every
// access is checked, and streams run late.
class HybridOnCuda : public ::testing::TestWithParam<HybridCase> {};

TEST_P(HybridOnCuda, SaysWhatTheHostSays) {
  const HybridCase& param = GetParam();
  const auto model =
      OpenRelu(param.architecture, param.dtype, param.activation);
  ASSERT_NE(model, nullptr);
  const auto run = [&](std::shared_ptr<device::Device> device) {
    const Placement placement =
        device ? Draw(*model, device->layout(), 0.6, 3) : Placement();
    OneRun one(model, OptionsOf(FfnMode::kExact), std::move(device), placement);
    EXPECT_TRUE(one.status()) << one.status().error().message;
    Floats all = one.Run({1, 2, 3}, Phase::kPrompt).value();
    for (const size_t count : {1, 3}) {
      const Floats more =
          one.Run(RandomTokens(count, kHybridVocab, count), Phase::kGenerate)
              .value();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  cuda_on_host::ReviveDevice(5, true);
  auto device = device::OpenCuda(0);
  ASSERT_TRUE(device) << device.error().message;
  const Floats got = run(*std::move(device));
  EXPECT_LE(testing::Nmse(got, std::span<const float>(run(nullptr))),
            param.nmse);
  EXPECT_EQ(cuda_on_host::TakeFault(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Models, HybridOnCuda,
    ::testing::Values(HybridCase{"llama", "relu", DType::kF16, 1e-9},
                      HybridCase{"llama", "drelu", DType::kQ4_0, 1e-3},
                      HybridCase{"opt", "relu", DType::kQ8_0, 1e-3}),
    NameOfCase);

// A split file's order is that of the host's sums, whoever is resident.
TEST(HybridRuns, InASplitFilesOrder) {
  const os::TestFolder folder;
  TinySpec spec;
  testing::UseArchitecture("llama", spec);
  spec.activation = "relu";
  spec.num_layers = 4;
  model::OpenOptions open = {.bundle_at_load = true};
  open.split_path =
      folder.Write("split", model::TestOrder(4, spec.ffn_width).Bytes());
  const auto model = OpenTinyModel(spec, open);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_NE((*model)->neuron_order(), nullptr);
  const Floats expected =
      OneRun(*model, OptionsOf(FfnMode::kExact), nullptr, {}).All();
  for (const double share : {0.0, 0.4, 1.0}) {
    const auto device = MakeDevice();
    const Floats got = OneRun(*model, OptionsOf(FfnMode::kExact), device,
                              Draw(**model, device->layout(), share, 7))
                           .All();
    EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)), 1e-10);
    if (share == 0.0) EXPECT_EQ(got, expected);
  }
}

// Two runs of the same: not a bit differs.
TEST(HybridRuns, AreTheSameBits) {
  const auto model = OpenRelu("llama", DType::kF16, "relu");
  ASSERT_NE(model, nullptr);
  const auto run = [&] {
    const auto device = MakeDevice();
    return OneRun(model, OptionsOf(FfnMode::kExact), device,
                  Draw(*model, device->layout(), 0.5, 1))
        .All();
  };
  EXPECT_EQ(run(), run());
}

// Whichever call of the device fails, the pass ends with a clear error and no
// sequence has grown; nobody gets logits.
TEST(HybridFaults, EndThePass) {
  const auto model = OpenRelu("llama", DType::kF32, "relu");
  ASSERT_NE(model, nullptr);
  const auto run = [&](device::SimOptions options, uint64_t* num_calls) {
    const auto device = MakeDevice(options);
    SessionOptions session = OptionsOf(FfnMode::kExact);
    session.dense_prompts = true;  // on the host alone
    OneRun hybrid(model, session, device,
                  Draw(*model, device->layout(), 0.5, 1));
    if (!hybrid.status()) return hybrid.status();
    EXPECT_TRUE(hybrid.Run({1, 2, 3}, Phase::kPrompt));
    const auto logits = hybrid.Run({4}, Phase::kGenerate);
    if (num_calls != nullptr) *num_calls = device->num_calls();
    if (logits) return Status();
    EXPECT_EQ(hybrid.sequence().length(), 3);
    return Status(tl::unexpected(logits.error()));
  };
  uint64_t num_calls = 0;
  ASSERT_TRUE(run({}, &num_calls));
  ASSERT_GT(num_calls, 20u);
  for (uint64_t n = 1; n <= num_calls; ++n) {
    const Status lost = run({.lose_at = n}, nullptr);
    ASSERT_FALSE(lost) << n;
    EXPECT_EQ(lost.error().code, ErrorCode::kIo);
    EXPECT_THAT(lost.error().message, HasSubstr("lost"));
    EXPECT_FALSE(run({.fail_call = n}, nullptr)) << n;
  }
}

// Buffers that a placement asks for: each may end in a piece of its own.
size_t NumBuffers(const Placement& placement) {
  size_t count = 2 + (placement.head ? 1 : 0);  // the lane, keys and values
  for (const LayerPlacement& layer : placement.layers) {
    count += 3 + layer.experts.size();
  }
  return count;
}

// A budget is kept to the byte, and what it is too small for is said.
TEST(HybridBudget, IsKept) {
  for (const char* kind : {"dense", "exact", "fast", "mixture"}) {
    SCOPED_TRACE(kind);
    const testing::PlannedModel planned = testing::OpenPlanned(kind);
    ASSERT_NE(planned.model, nullptr);
    SessionOptions options = {.num_threads = 1, .ffn = planned.choice.mode};
    for (const uint64_t vram : {60u << 10, 200u << 10, 700u << 10, 8u << 20}) {
      const auto device = MakeDevice();
      options.device = device;
      options.budget.vram = vram;
      const auto runtime = Runtime::Create(planned.model, options);
      ASSERT_TRUE(runtime) << runtime.error().message;
      const uint64_t total = (*runtime)->plan().memory.device.total();
      // The plan counts whole pieces of what devices allocate in.
      const uint64_t peak = device->peak_bytes(device::MemoryKind::kDevice);
      EXPECT_LE(peak, total);
      EXPECT_LT(total - peak,
                256 * NumBuffers((*runtime)->plan().engine.placement));
      EXPECT_LE(total, vram);
    }
    options.budget.vram = 1000;
    const auto refused = Runtime::Create(planned.model, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(refused.error().message, HasSubstr("holds nothing"));
    options.budget.vram = uint64_t{1} << 50;
    const auto too_much = Runtime::Create(planned.model, options);
    ASSERT_FALSE(too_much);
    EXPECT_THAT(too_much.error().message, HasSubstr("free"));
  }
}

}  // namespace
}  // namespace thermocline::engine
