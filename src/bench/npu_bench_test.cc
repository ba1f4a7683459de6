#include "bench/npu_bench.h"

#include <gtest/gtest.h>

#include <memory>

#include "npu/test_static_model.h"

namespace thermocline::bench {
namespace {

NpuBenchOptions ShortBench() {
  NpuBenchOptions options = {.rows = {8},
                             .contexts = {64},
                             .num_prompt = 9,
                             .num_generate = 1,
                             .repetitions = 1};
  options.host.num_threads = 1;
  return options;
}

// No time is told of what does not give the model's logits.
TEST(NpuBenchTest, WrongLogitsAreAFailedRow) {
  const auto model = npu::MakeNpuModel({});
  const auto device = std::make_shared<npu::FaultyDevice>();
  for (const bool spoils : {false, true}) {
    device->spoils = spoils;
    const auto report = RunNpuBench(model, device, ShortBench());
    ASSERT_TRUE(report.has_value()) << report.error().message;
    ASSERT_EQ(report->rows.size(), 2u);
    EXPECT_TRUE(report->rows[0].is_host);
    const NpuRow& row = report->rows[1];
    EXPECT_EQ(row.nmse > kMostNpuNmse, spoils) << row.nmse;
    EXPECT_EQ(row.error.empty(), !spoils) << row.error;
    const std::string csv = FormatNpuBench(*report, BenchFormat::kCsv);
    EXPECT_NE(csv.find(spoils ? ",true" : ",false"), std::string::npos) << csv;
  }
}

}  // namespace
}  // namespace thermocline::bench
