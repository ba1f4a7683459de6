#include "cli/storage_plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "cli/test_storage_model.h"

namespace thermocline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StoragePlanReport SomeStorageReport() {
  StoragePlanReport report = {.machine = "a phone",
                              .ram = kGiB,
                              .context = 64,
                              .mode = "fast",
                              .source = "a trace"};
  report.plan.compute_cpus = {4, 5, 6};
  report.plan.io_cpus = {7};
  report.plan.cores.num_compute = 3;
  report.plan.chosen = {.policy = "slow",
                        .unit = "records",
                        .cache_bytes = kMiB,
                        .total_bytes = kGiB};
  report.plan.cost = {.seconds = 0.05,
                      .compute_seconds = 0.02,
                      .memory_seconds = 0.01,
                      .storage_seconds = 0.02,
                      .num_used = 100,
                      .num_missed = 12.5,
                      .num_reads = 10,
                      .read_bytes = 4096};
  report.least_ram = kMiB;
  report.all_ram = 2 * kGiB;
  report.dense_prompt_from = 3;
  report.min_speed = {{5.0, 700 * kMiB}};
  return report;
}

TEST(StoragePlanReport, HasALineForEachQuestion) {
  StoragePlanReport report = SomeStorageReport();
  const std::string text = FormatStoragePlanReport(report, TestHost(), false);
  for (const char* line :
       {"plan      1.00 GiB of RAM on a phone: context 64, fast\n",
        "cores     3 threads compute on CPU 4-6; CPU 7 reads alone\n",
        "cache     1.00 MiB of slots for records (slow), of 1.00 GiB in all\n",
        "predicted 20.00 tokens/s: 50.000 ms a token",
        "20.000 ms are waited for products, 10.000 for memory, 20.000 for "
        "storage\n",
        "misses    12.5 of 100.0 records a token, 4.00 KiB in 10.0 reads; a "
        "trace\n",
        "pays from 3 tokens on",
        "memory    1.00 MiB at least, 2.00 GiB hold all of it\n",
        "least     700.00 MiB of RAM for 5 tokens/s\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("alone     ")));
  report.dense_prompt_from = 0;
  report.min_speed = {{5.0, 0}};
  EXPECT_THAT(FormatStoragePlanReport(report, TestHost(), true),
              HasSubstr("prompts   the CPU, token by token\n"));
}

TEST(StoragePlanReport, PutsPredictedBesideMeasured) {
  planner::StoragePlanFile plan = {
      .unit = "records", .seconds = 0.025, .num_missed = 812};
  EXPECT_EQ(FormatPrediction(plan, 41.0, 798.4),
            "predicted 40.00 tok/s (812.0 misses a token), measured 41.00 "
            "(798.4)\n");
  EXPECT_EQ(FormatPrediction(plan, 41.0, std::nullopt),
            "predicted 40.00 tok/s, measured 41.00\n");
  plan.unit = "none";
  EXPECT_EQ(FormatPrediction(plan, 41.0, 3.0),
            "predicted 40.00 tok/s, measured 41.00\n");
}

}  // namespace
}  // namespace thermocline::cli
