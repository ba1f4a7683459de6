#include "bench/timed_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "device/sim/test_machine.h"
#include "neuron/trace.h"
#include "os/test_folder.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kFiredInEachLayer = 5;

class TimedBenchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model =
        model::Model::Open(std::string(TC_TEST_DATA) +
                           "/golden-powerinfer/llama-f16.powerinfer.gguf");
    ASSERT_TRUE(model) << model.error().message;
    model_ = *model;
    num_layers_ = static_cast<uint32_t>(model_->config().num_layers);
    num_neurons_ = static_cast<uint32_t>(MaxFfnWidth(model_->config()));
  }

  // A prompt's token in front of so many generated ones.
  std::string WriteTrace(uint32_t num_layers, uint32_t num_neurons,
                         size_t num_generated) {
    const std::string path = folder_ / "t.trace";
    auto writer = neuron::TraceWriter::Create(
        path, {.num_layers = num_layers, .num_neurons = num_neurons});
    EXPECT_TRUE(writer) << writer.error().message;
    const std::vector<uint32_t> fired = {0, 1, 2, 3, num_neurons - 1};
    EXPECT_EQ(fired.size(), kFiredInEachLayer);
    for (size_t t = 0; t <= num_generated; ++t) {
      const neuron::TraceToken token = {.begins_sequence = t == 0,
                                        .is_generated = t > 0};
      (*writer)->AddTokens({&token, 1});
      for (size_t i = 0; i < num_layers; ++i) (*writer)->AddSet(i, fired);
    }
    EXPECT_TRUE((*writer)->Flush());
    EXPECT_TRUE((*writer)->Finish());
    return path;
  }

  TimedBenchOptions OptionsFor(const std::string& trace_path) {
    TimedBenchOptions options;
    options.vram = {uint64_t{2} << 20};
    options.machine = device::TestMachine();
    options.trace_path = trace_path;
    options.depth = 4;
    options.session.num_threads = 1;
    options.session.ffn = engine::FfnMode::kFast;
    return options;
  }

  os::TestFolder folder_;
  std::shared_ptr<const model::Model> model_;
  uint32_t num_layers_ = 0, num_neurons_ = 0;
};

TEST_F(TimedBenchTest, RefusesATraceOfAnotherShape) {
  struct Case {
    uint32_t more_layers, more_neurons;
  };
  for (const Case& c : {Case{1, 0}, Case{0, 1}}) {
    const auto rows = RunTimedBench(
        model_, OptionsFor(WriteTrace(num_layers_ + c.more_layers,
                                      num_neurons_ + c.more_neurons, 3)));
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(rows.error().message, HasSubstr("t.trace: a trace of"));
  }
}

// The first generated token brings the keys over and does not count.
TEST_F(TimedBenchTest, RefusesATraceThatGeneratedTooLittle) {
  for (const size_t num_generated : {0, 1}) {
    const auto rows = RunTimedBench(
        model_,
        OptionsFor(WriteTrace(num_layers_, num_neurons_, num_generated)));
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(rows.error().message, HasSubstr("fewer than two generated"));
  }
}

TEST_F(TimedBenchTest, CountsGeneratedTokensBehindTheFirst) {
  const std::string path = WriteTrace(num_layers_, num_neurons_, 5);
  TimedBenchOptions options = OptionsFor(path);
  options.vram = {uint64_t{300} << 10, uint64_t{8} << 20};
  struct Case {
    engine::FfnMode mode;
    uint64_t most;
    uint64_t candidates;  // of each layer of each token
  };
  // Without predictors all gates are read.
  for (const Case& c : {Case{engine::FfnMode::kExact, 2, num_neurons_},
                        Case{engine::FfnMode::kFast, 3, kFiredInEachLayer},
                        Case{engine::FfnMode::kFast, 100, kFiredInEachLayer}}) {
    SCOPED_TRACE(c.most);
    options.session.ffn = c.mode;
    options.num_tokens = c.most;
    const auto rows = RunTimedBench(model_, options);
    ASSERT_TRUE(rows) << rows.error().message;
    ASSERT_EQ(rows->size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      const HybridRow& row = (*rows)[i];
      EXPECT_EQ(row.vram, options.vram[i]);
      EXPECT_EQ(row.costs.num_tokens, std::min<uint64_t>(c.most, 4));
      EXPECT_EQ(row.costs.num_candidates,
                row.costs.num_tokens * num_layers_ * c.candidates);
      EXPECT_LE(row.planned_bytes, *row.vram);
      EXPECT_GT(row.costs.seconds, row.bound_seconds());
    }
    EXPECT_GE((*rows)[0].costs.host_neuron_bytes,
              (*rows)[1].costs.host_neuron_bytes);
  }
}

}  // namespace
}  // namespace thermocline::bench
