// Dense models some of whose FFNs are on a device as a whole: as matrices, or
// as all of their neurons.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "cuda_on_host/control.h"
#include "device/cuda/find_cuda.h"
#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/testing/hybrid.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::HybridRun;
using testing::PlacementShares;
using testing::RandomTokens;
using testing::TinySpec;
using LogitRows = std::vector<float>;

struct DenseCase {
  const char* architecture;
  const char* activation;  // the architecture's own, if empty
  DType dtype;
  double nmse;
};

std::string NameOfDense(const ::testing::TestParamInfo<DenseCase>& info) {
  return std::string(info.param.architecture) + "_" + info.param.activation +
         "_" + std::string(NameOf(info.param.dtype));
}

TinySpec SpecOfDense(const DenseCase& param) {
  TinySpec spec;
  testing::UseArchitecture(param.architecture, spec);
  spec.activation = param.activation;
  spec.dtype = param.dtype;
  return spec;
}

const SessionOptions kDenseOptions = {.num_threads = 2, .ffn = FfnMode::kDense};

// Its own random numbers: the same for the same model.
Placement PlaceDense(const model::Model& model, const device::Device& device,
                     const PlacementShares& shares) {
  Random random(3);
  return testing::DrawPlacement(model, kDenseOptions, device.layout(), shares,
                                random);
}

std::shared_ptr<device::SimDevice> MakeDenseDevice(bool is_late) {
  return device::MakeSim(device::TestMachine(), {.is_late = is_late});
}

class HybridMatrices : public ::testing::TestWithParam<DenseCase> {};

TEST_P(HybridMatrices, SayWhatTheHostSays) {
  const DenseCase& param = GetParam();
  const auto model = testing::MakeTinyModel(SpecOfDense(param));
  ASSERT_NE(model, nullptr);
  const LogitRows expected = HybridRun(model, kDenseOptions, nullptr, {}).All();
  for (const double share : {0.0, 0.5, 1.0}) {
    const auto device = MakeDenseDevice(share == 1.0);
    const Placement placement =
        PlaceDense(*model, *device, {.matrices = share});
    if (share == 0.5) {
      ASSERT_NE(placement.layers[0].matrices, placement.layers[1].matrices);
    }
    HybridRun hybrid(model, kDenseOptions, device, placement);
    ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
    EXPECT_EQ(device->allocated_bytes(device::MemoryKind::kDevice),
              placement.device_bytes());
    const LogitRows got = hybrid.All();
    if (share == 0.0) EXPECT_EQ(got, expected);
    EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)), param.nmse)
        << share;
  }
}

// Rounded activations may round elsewhere where they come from sums in another
// order.
INSTANTIATE_TEST_SUITE_P(
    Models, HybridMatrices,
    ::testing::Values(DenseCase{"llama", "", DType::kF32, 1e-10},
                      DenseCase{"llama", "fatrelu", DType::kF16, 1e-10},
                      DenseCase{"llama", "drelu", DType::kQ8_0, 1e-3},
                      DenseCase{"llama", "", DType::kQ4_0, 1e-3},
                      DenseCase{"falcon", "", DType::kF16, 1e-10},
                      DenseCase{"falcon", "relu", DType::kQ8_0, 1e-3},
                      DenseCase{"opt", "", DType::kF32, 1e-10},
                      DenseCase{"opt", "", DType::kQ4_0, 1e-3}),
    NameOfDense);

// Sets, and what the activation is applied to, with a gate and without.
TEST(HybridMatricesSeen, AreTheHosts) {
  struct Row {
    std::vector<uint32_t> candidates, fired;
    LogitRows gate;
  };
  for (const DenseCase& param : {DenseCase{"llama", "drelu", DType::kF32, 0},
                                 DenseCase{"opt", "relu", DType::kF16, 0}}) {
    const auto model = testing::MakeTinyModel(SpecOfDense(param));
    ASSERT_NE(model, nullptr);
    const auto watch = [&](double share) {
      std::vector<Row> rows;
      SessionOptions options = kDenseOptions;
      options.observer = [&](const FfnObservation& seen) {
        rows.push_back({{seen.candidates.begin(), seen.candidates.end()},
                        {seen.fired.begin(), seen.fired.end()},
                        {seen.gate.begin(), seen.gate.end()}});
      };
      const auto device = MakeDenseDevice(true);
      HybridRun(model, options, device,
                PlaceDense(*model, *device, {.matrices = share}))
          .All();
      return rows;
    };
    const std::vector<Row> expected = watch(0.0);
    const std::vector<Row> got = watch(1.0);
    ASSERT_EQ(got.size(), expected.size());
    size_t num_others = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].candidates, expected[i].candidates);
      if (got[i].fired != expected[i].fired) ++num_others;
      EXPECT_FALSE(got[i].fired.empty());
      EXPECT_LE(
          testing::Nmse(got[i].gate, std::span<const float>(expected[i].gate)),
          1e-10);
    }
    EXPECT_LE(num_others, 1u);
  }
}

TEST(HybridMatricesRows, DoNotDependOnOthers) {
  const auto model =
      testing::MakeTinyModel(SpecOfDense({"llama", "", DType::kQ8_0, 0}));
  ASSERT_NE(model, nullptr);
  const auto tokens = RandomTokens(10, 50);
  const auto run = [&](size_t at_once) {
    const auto device = MakeDenseDevice(false);
    HybridRun one(model, kDenseOptions, device,
                  PlaceDense(*model, *device, {.matrices = 1.0}));
    LogitRows all;
    for (size_t first = 0; first < tokens.size(); first += at_once) {
      const auto begin = tokens.begin() + static_cast<ptrdiff_t>(first);
      const auto logits =
          one.Run({begin, begin + static_cast<ptrdiff_t>(at_once)},
                  Phase::kGenerate)
              .value();
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  const LogitRows expected = run(1);
  EXPECT_EQ(run(10), expected);
  EXPECT_EQ(run(5), expected);
}

// Files that have the down matrix transposed alone go there as neurons, whether
// these lie in records or not.
TEST(HybridTransposed, IsSharedInDense) {
  for (const char* const architecture : {"llama", "opt"}) {
    for (const bool is_bundled : {false, true}) {
      SCOPED_TRACE(std::string(architecture) + (is_bundled ? " records" : ""));
      TinySpec spec = SpecOfDense({architecture, "relu", DType::kF16, 0});
      spec.down_t = true;
      const auto opened =
          testing::OpenTinyModel(spec, {.bundle_at_load = is_bundled});
      ASSERT_TRUE(opened) << opened.error().message;
      const auto& model = *opened;
      ASSERT_EQ(model->weights().layers[0].ffn.bundled, is_bundled);
      const LogitRows expected =
          HybridRun(model, kDenseOptions, nullptr, {}).All();
      for (const double share : {0.5, 1.0}) {
        const auto device = MakeDenseDevice(true);
        const Placement placement =
            PlaceDense(*model, *device, {.neurons = share, .matrices = 1.0});
        HybridRun hybrid(model, kDenseOptions, device, placement);
        ASSERT_TRUE(hybrid.status()) << hybrid.status().error().message;
        const uint64_t num_calls = device->num_calls();
        const LogitRows got = hybrid.All();
        EXPECT_LE(testing::Nmse(got, std::span<const float>(expected)), 1e-10);
        EXPECT_GT(device->num_calls(), num_calls);
      }
    }
  }
}

// Gates of neurons on a device stay there: rather none than old ones.
TEST(HybridTransposed, TellsNoGates) {
  const auto opened = testing::OpenTinyModel(
      SpecOfDense({"llama", "relu", DType::kF32, 0}), {.bundle_at_load = true});
  ASSERT_TRUE(opened) << opened.error().message;
  for (const double share : {0.0, 0.5}) {
    SessionOptions options = kDenseOptions;
    size_t num_gates = 0;
    options.observer = [&](const FfnObservation& seen) {
      EXPECT_EQ(seen.candidates.size(), 160u);
      num_gates += seen.gate.size();
    };
    const auto device = MakeDenseDevice(true);
    HybridRun run(*opened, options, device,
                  PlaceDense(**opened, *device, {.neurons = share}));
    ASSERT_TRUE(run.status()) << run.status().error().message;
    ASSERT_TRUE(run.Run({1, 2, 3}, Phase::kGenerate));
    EXPECT_EQ(num_gates, share > 0.0 ? 0u : 2 * 3 * 160u);
  }
}

// The GPU's own kernels and what drives them, emulated.
TEST(HybridMatricesOnCuda, SayWhatTheHostSays) {
  for (const DenseCase& param : {DenseCase{"llama", "", DType::kF16, 1e-9},
                                 DenseCase{"opt", "", DType::kQ8_0, 1e-3}}) {
    const auto model = testing::MakeTinyModel(SpecOfDense(param));
    ASSERT_NE(model, nullptr);
    const auto run = [&](std::shared_ptr<device::Device> device) {
      const Placement placement =
          device ? PlaceDense(*model, *device, {.matrices = 1.0}) : Placement();
      HybridRun one(model, kDenseOptions, std::move(device), placement);
      EXPECT_TRUE(one.status()) << one.status().error().message;
      constexpr size_t kCounts[] = {1, 3};
      return one.RunAll(3, kCounts);
    };
    cuda_on_host::ReviveDevice(5, true);
    auto device = device::OpenCuda(0);
    ASSERT_TRUE(device) << device.error().message;
    const LogitRows got = run(*std::move(device));
    EXPECT_LE(testing::Nmse(got, std::span<const float>(run(nullptr))),
              param.nmse);
    EXPECT_EQ(cuda_on_host::TakeFault(), "");
  }
}

}  // namespace
}  // namespace thermocline::engine
