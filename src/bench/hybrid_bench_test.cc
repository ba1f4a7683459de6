#include "bench/hybrid_bench.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"

namespace thermocline::bench {
namespace {

// A ReLU model with predictors; its FFNs in F16.
std::shared_ptr<const model::Model> OpenSparse() {
  auto model =
      model::Model::Open(std::string(TC_TEST_DATA) +
                         "/golden-powerinfer/llama-f16.powerinfer.gguf");
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return nullptr;
  }
  return *model;
}

HybridBenchOptions OnTestMachine() {
  HybridBenchOptions options;
  options.open_device = []() -> Result<std::shared_ptr<device::Device>> {
    return std::shared_ptr<device::Device>(
        device::MakeSim(device::TestMachine(), {}));
  };
  options.test = {.num_prompt = 5, .num_generate = 6};
  options.session.context = 32;
  options.session.num_threads = 1;
  options.session.ffn = engine::FfnMode::kExact;
  return options;
}

TEST(HybridBench, CountsWhatEachProcessorDoes) {
  const auto model = OpenSparse();
  ASSERT_NE(model, nullptr);
  HybridBenchOptions options = OnTestMachine();
  options.vram = {uint64_t{300} << 10, uint64_t{8} << 20};
  const auto rows = RunHybridBench(model, options);
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 2u);
  for (const HybridRow& row : *rows) {
    SCOPED_TRACE(*row.vram);
    const HybridCosts& costs = row.costs;
    EXPECT_EQ(costs.num_tokens, 4u);
    EXPECT_GT(costs.seconds, 0.0);
    EXPECT_LE(row.peak_device_bytes, row.planned_bytes);
    EXPECT_LE(row.planned_bytes, *row.vram);
    EXPECT_GT(row.num_resident, 0u);
    EXPECT_LE(costs.num_device_candidates, costs.num_candidates);
    EXPECT_LE(costs.device_neuron_bytes, costs.device_bytes);
    EXPECT_LE(costs.host_neuron_bytes, costs.host_bytes);
    EXPECT_LE(*costs.device_seconds, costs.seconds);
    EXPECT_GT(*costs.up_bytes, 0u);
    // Nobody is faster than the bytes that are read; the test machine's layers
    // cost far more than the papers'.
    EXPECT_LT(row.bound_seconds(), costs.seconds);
  }
  EXPECT_LT((*rows)[0].num_resident, (*rows)[1].num_resident);
  EXPECT_GT((*rows)[0].costs.host_neuron_bytes,
            (*rows)[1].costs.host_neuron_bytes);
}

TEST(HybridBench, IsTheSameTwice) {
  const auto model = OpenSparse();
  ASSERT_NE(model, nullptr);
  HybridBenchOptions options = OnTestMachine();
  options.vram = {uint64_t{1} << 20};
  const auto run = [&] {
    const auto rows = RunHybridBench(model, options);
    EXPECT_TRUE(rows) << rows.error().message;
    return rows ? FormatHybridBench(*rows, BenchFormat::kJson) : "";
  };
  EXPECT_EQ(run(), run());
}

TEST(HybridBench, SaysWhatIsWrong) {
  const auto model = OpenSparse();
  ASSERT_NE(model, nullptr);
  HybridBenchOptions options = OnTestMachine();
  options.vram = {10};
  EXPECT_EQ(RunHybridBench(model, options).error().code,
            ErrorCode::kResourceExhausted);
  options = OnTestMachine();
  options.open_device = []() -> Result<std::shared_ptr<device::Device>> {
    return Fail(ErrorCode::kNotFound, "no card");
  };
  EXPECT_EQ(RunHybridBench(model, options).error().message, "no card");
}

TEST(HybridRow, IsBoundByItsBytes) {
  const HybridRow row = {
      .num_layers = 10,
      .num_device_layers = 10,
      .costs = {.num_tokens = 2,
                .seconds = 4.0,
                .device_bytes = 300,
                .device_neuron_bytes = 100,
                .host_bytes = 60,
                .host_neuron_bytes = 20},
      .rates =
          HybridRates{.device = 100.0, .host = 50.0, .layer_seconds = 0.01}};
  // 200 / 100 + 40 / 50, then the slower of 100 / 100 and 20 / 50, and 2 * 10
  // layers.
  EXPECT_DOUBLE_EQ(row.bound_seconds(), 2.0 + 0.8 + 1.0 + 0.2);
  EXPECT_DOUBLE_EQ(row.tokens_per_s(), 0.5);
}

// Where weights cross the link nobody reads beside anybody, and not all that
// the device read of neurons was in its memory.
TEST(HybridRow, IsBoundByTheLinksBytesToo) {
  const HybridRow row = {.num_device_layers = 10,
                         .costs = {.num_tokens = 2,
                                   .device_bytes = 300,
                                   .device_neuron_bytes = 5000,
                                   .host_bytes = 60,
                                   .up_bytes = 4000},
                         .rates = HybridRates{.device = 100.0,
                                              .host = 50.0,
                                              .link = 1000.0,
                                              .layer_seconds = 0.01}};
  EXPECT_DOUBLE_EQ(row.bound_seconds(), 3.0 + 1.2 + 4.0 + 0.2);
}

}  // namespace
}  // namespace thermocline::bench
