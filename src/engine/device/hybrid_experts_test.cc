// Mixtures some of whose experts lie on a device, as a whole: what they say is
// what the host says alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/testing/hybrid.h"
#include "engine/testing/test_predictor_parts.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::HybridRun;
using testing::RandomTokens;
using testing::TinySpec;
using MixtureLogits = std::vector<float>;
using ModelPtr = std::shared_ptr<const model::Model>;

struct HybridMixtureCase {
  const char* name;
  DType dtype;
  bool is_prepared;  // records, else matrices
  double nmse;
};

std::string NameOfMixture(
    const ::testing::TestParamInfo<HybridMixtureCase>& info) {
  return info.param.name;
}

TinySpec SpecOfMixture(const HybridMixtureCase& param) {
  TinySpec spec;
  testing::UseArchitecture("mixtral", spec);
  spec.activation = "relu";
  spec.dtype = param.dtype;
  return spec;
}

ModelPtr OpenMixture(const HybridMixtureCase& param) {
  auto model = testing::OpenTinyModel(SpecOfMixture(param),
                                      {.bundle_at_load = param.is_prepared});
  EXPECT_TRUE(model) << model.error().message;
  return model.value_or(nullptr);
}

SessionOptions MixtureOptions(FfnMode mode) {
  SessionOptions options = {.num_threads = 2, .ffn = mode};
  if (mode == FfnMode::kFast) {
    options.predictor = PredictorChoice::kTrainingFree;
  }
  return options;
}

std::shared_ptr<device::SimDevice> MakeMixtureDevice(bool is_late = false) {
  return device::MakeSim(device::TestMachine(), {.is_late = is_late});
}

Placement PlaceExperts(const model::Model& model, FfnMode mode,
                       const device::Device& device, double share,
                       uint64_t seed = 7) {
  Random random(seed);
  return testing::DrawPlacement(model, MixtureOptions(mode), device.layout(),
                                {.experts = share}, random);
}

class HybridExperts : public ::testing::TestWithParam<HybridMixtureCase> {};

// Whoever is resident: none, some, all; on a device that is late as well.
TEST_P(HybridExperts, SayWhatTheHostSays) {
  const HybridMixtureCase& param = GetParam();
  const ModelPtr model = OpenMixture(param);
  ASSERT_NE(model, nullptr);
  for (const FfnMode mode :
       {FfnMode::kDense, FfnMode::kExact, FfnMode::kFast}) {
    HybridRun host(model, MixtureOptions(mode), nullptr, {});
    const MixtureLogits expected = host.All();
    const SparseTotals wanted = host.engine().sparse_totals();
    for (const double share : {0.0, 0.5, 1.0}) {
      SCOPED_TRACE(std::string(NameOf(mode)) + " " + std::to_string(share));
      const auto device = MakeMixtureDevice(share == 0.5);
      HybridRun hybrid(model, MixtureOptions(mode), device,
                       PlaceExperts(*model, mode, *device, share));
      ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
      const MixtureLogits got = hybrid.All();
      if (share == 0.0) EXPECT_EQ(got, expected);
      EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)),
                param.nmse);
      const SparseTotals totals = hybrid.engine().sparse_totals();
      EXPECT_EQ(totals.num_neurons, wanted.num_neurons);
      if (mode == FfnMode::kDense) continue;  // not counted
      if (mode == FfnMode::kExact) {
        EXPECT_EQ(totals.num_candidates, wanted.num_candidates);
      }
      // Matrices are not computed in part.
      const bool can_be_there = param.is_prepared || mode != FfnMode::kFast;
      EXPECT_EQ(totals.num_device_candidates == 0,
                share == 0.0 || !can_be_there);
      EXPECT_EQ(totals.num_device_candidates == totals.num_candidates,
                share == 1.0 && can_be_there);
      EXPECT_EQ(totals.num_device_bytes == 0,
                totals.num_device_candidates == 0);
      if (param.is_prepared) {
        EXPECT_GT(totals.num_candidates, totals.num_open);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, HybridExperts,
    ::testing::Values(
        HybridMixtureCase{"f32_records", DType::kF32, true, 1e-10},
        HybridMixtureCase{"f16_records", DType::kF16, true, 1e-10},
        HybridMixtureCase{"q8_0_records", DType::kQ8_0, true, 1e-10},
        HybridMixtureCase{"q4_0_records", DType::kQ4_0, true, 1e-3},
        HybridMixtureCase{"f32_matrices", DType::kF32, false, 1e-10},
        HybridMixtureCase{"f16_matrices", DType::kF16, false, 1e-10},
        HybridMixtureCase{"q8_0_matrices", DType::kQ8_0, false, 1e-3},
        HybridMixtureCase{"q4_0_matrices", DType::kQ4_0, false, 1e-3}),
    NameOfMixture);

// What an engine tells of each row, layer by layer.
struct Told {
  std::vector<std::vector<uint32_t>> candidates, fired, experts;
  std::vector<MixtureLogits> gates;
};

Told Watch(const ModelPtr& model, FfnMode mode, double share) {
  Told told;
  SessionOptions options = MixtureOptions(mode);
  options.observer = [&](const FfnObservation& seen) {
    told.candidates.emplace_back(seen.candidates.begin(),
                                 seen.candidates.end());
    told.fired.emplace_back(seen.fired.begin(), seen.fired.end());
    told.experts.emplace_back(seen.experts.begin(), seen.experts.end());
    told.gates.emplace_back(seen.gate.begin(), seen.gate.end());
  };
  const auto device = MakeMixtureDevice(true);
  HybridRun run(model, options, device,
                PlaceExperts(*model, mode, *device, share));
  EXPECT_TRUE(run.status()) << run.status().error().message;
  run.All();
  return told;
}

// Observers see the same, as far as roundings let neurons fire.
TEST_P(HybridExperts, AreSeenLikeTheHosts) {
  const HybridMixtureCase& param = GetParam();
  const ModelPtr model = OpenMixture(param);
  ASSERT_NE(model, nullptr);
  for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact}) {
    const Told expected = Watch(model, mode, 0.0);
    const Told got = Watch(model, mode, 0.6);
    EXPECT_EQ(got.candidates, expected.candidates);
    EXPECT_EQ(got.experts, expected.experts);
    size_t num_fired = 0;
    size_t num_others = 0;
    const bool has_gates = mode == FfnMode::kDense && !param.is_prepared;
    for (size_t i = 0; i < expected.fired.size(); ++i) {
      num_fired += expected.fired[i].size();
      std::vector<uint32_t> others;
      std::ranges::set_symmetric_difference(got.fired[i], expected.fired[i],
                                            std::back_inserter(others));
      num_others += others.size();
      // Those of generated rows; of prompts the host has all.
      const bool is_generated = i >= 9 * model->config().num_layers;
      EXPECT_EQ(got.gates[i].empty(),
                is_generated ? !has_gates : expected.gates[i].empty());
      if (got.gates[i].empty()) continue;
      EXPECT_LE(testing::Nmse(got.gates[i],
                              std::span<const float>(expected.gates[i])),
                param.nmse);
    }
    EXPECT_GT(num_fired, 1000u);
    EXPECT_LE(num_others, num_fired / 200);
  }
}

// A trained predictor chooses inside experts on a device as on the host.
TEST(HybridExpertPredictors, AreObeyed) {
  const HybridMixtureCase param = {"f32", DType::kF32, true, 1e-10};
  testing::PredictorParts parts(SpecOfMixture(param));
  const ModelPtr source = OpenMixture(param);
  ASSERT_NE(source, nullptr);
  parts.Gather(source);
  const auto model = testing::OpenWithParts(*source, parts);
  ASSERT_TRUE(model) << model.error().message;
  const SessionOptions options = {.num_threads = 2, .ffn = FfnMode::kFast};
  HybridRun host(*model, options, nullptr, {});
  const MixtureLogits expected = host.All();
  const SparseTotals wanted = host.engine().sparse_totals();
  EXPECT_LT(wanted.num_candidates, wanted.num_neurons * 3 / 4);
  for (const double share : {0.5, 1.0}) {
    const auto device = MakeMixtureDevice(true);
    HybridRun hybrid(*model, options, device,
                     PlaceExperts(**model, FfnMode::kFast, *device, share));
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_LE(testing::Nmse(hybrid.All(), std::span<const float>(expected)),
              1e-10);
    const SparseTotals totals = hybrid.engine().sparse_totals();
    EXPECT_EQ(totals.num_candidates, wanted.num_candidates);
    EXPECT_EQ(totals.num_open, wanted.num_open);
  }
}

// The bits of a row are its own, whoever else is in the pass and wherever
// experts lie.
TEST_P(HybridExperts, RowsDoNotDependOnOthers) {
  const ModelPtr model = OpenMixture(GetParam());
  ASSERT_NE(model, nullptr);
  for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact}) {
    const auto run = [&](const std::vector<size_t>& counts) {
      const auto device = MakeMixtureDevice();
      HybridRun one(model, MixtureOptions(mode), device,
                    PlaceExperts(*model, mode, *device, 0.5));
      const auto tokens = RandomTokens(12, 50);
      MixtureLogits all;
      size_t first = 0;
      for (const size_t count : counts) {
        const std::vector<text::TokenId> some(
            tokens.begin() + static_cast<ptrdiff_t>(first),
            tokens.begin() + static_cast<ptrdiff_t>(first + count));
        const auto logits = one.Run(some, Phase::kGenerate).value();
        all.insert(all.end(), logits.begin(), logits.end());
        first += count;
      }
      return all;
    };
    const MixtureLogits expected = run(std::vector<size_t>(12, 1));
    EXPECT_EQ(run({12}), expected);
    EXPECT_EQ(run({3, 8, 1}), expected);
  }
}

// The GPU's own kernels and what drives them, emulated.
TEST(HybridExpertsOnCuda, SayWhatTheHostSays) {
  for (const HybridMixtureCase& param :
       {HybridMixtureCase{"f16", DType::kF16, true, 1e-9},
        HybridMixtureCase{"q8_0", DType::kQ8_0, false, 1e-3}}) {
    const ModelPtr model = OpenMixture(param);
    ASSERT_NE(model, nullptr);
    const auto run = [&](std::shared_ptr<device::Device> device) {
      const Placement placement =
          device ? PlaceExperts(*model, FfnMode::kExact, *device, 0.6)
                 : Placement();
      HybridRun one(model, MixtureOptions(FfnMode::kExact), std::move(device),
                    placement);
      EXPECT_TRUE(one.status()) << one.status().error().message;
      constexpr size_t kCounts[] = {1, 2};
      return one.RunAll(3, kCounts);
    };
    cuda_on_host::ReviveDevice(5, true);
    auto device = device::OpenCuda(0);
    ASSERT_TRUE(device) << device.error().message;
    const MixtureLogits got = run(*std::move(device));
    EXPECT_LE(testing::Nmse(got, std::span<const float>(run(nullptr))),
              param.nmse);
    EXPECT_EQ(cuda_on_host::TakeFault(), "");
  }
}

}  // namespace
}  // namespace thermocline::engine
