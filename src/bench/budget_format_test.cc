#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/budget_bench.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

BudgetRow ABudgetRow() {
  BudgetRow row = {.ram = uint64_t{4} << 30,
                   .unit = "layers",
                   .resident = 0.25,
                   .tokens = {},
                   .tokens_per_s = {4.0, 5.0, 6.0},
                   .planned_bytes = 1000,
                   .peak_bytes = 1 << 20,
                   .rates = BudgetRates{.drive = 1e6, .host = 1e9},
                   .replay = engine::StreamReplay{
                       .reader = "io_uring",
                       .depth = 64,
                       .seconds = std::vector<double>(100, 0.04),
                       .in_turns_seconds = std::vector<double>(100, 0.06)}};
  // 100 tokens of 0.1 s; two of them read twice as much.
  for (int i = 0; i < 100; ++i) {
    row.tokens.push_back({.seconds = 0.1,
                          .num_missed = 3,
                          .stream_bytes = i < 98 ? 10'000u : 20'000u,
                          .num_reads = 2,
                          .num_hits = 7,
                          .num_moves = 2,
                          .num_wasted = 1,
                          .move_bytes = 5'000,
                          .memory_bytes = 1'000'000,
                          .waited_seconds = 0.05});
  }
  return row;
}

// Of ABudgetRow.
const std::map<std::string, double>& ExpectedNumbers() {
  static const std::map<std::string, double> kNumbers = {
      {"resident", 0.25},
      {"n_gen", 100},
      {"ts", 5.0},
      {"p50_ms", 100},
      {"p90_ms", 100},
      {"p99_ms", 100},
      {"misses_per_token", 3},
      {"read_bytes_per_token", 10'200},
      {"read_p99_of_median", 2.0},
      {"drive_bytes_per_s", 1e6},
      {"host_bytes_per_s", 1e9},
      {"bound_ts", 100 / 1.02},
      {"percent_of_bound", 10.2},
      {"reads_alone_ms", 40},
      {"reads_in_turns_ms", 60},
      {"compute_ms", 50},
      {"times_bound", 2.0},
      {"replayed_tokens", 100},
      {"replay_depth", 64},
      {"hits_per_token", 7},
      {"moves_per_token", 2},
      {"wasted_per_token", 1},
      {"moved_bytes_per_token", 5'000},
      {"planned_bytes", 1000},
      {"peak_bytes", 1 << 20}};
  return kNumbers;
}

TEST(FormatBudget, HasEveryNumber) {
  const auto json = nlohmann::json::parse(
      FormatBudgetBench({ABudgetRow()}, BenchFormat::kJson));
  for (const auto& [name, value] : ExpectedNumbers()) {
    EXPECT_NEAR(json[0][name].get<double>(), value, 1e-9 * value) << name;
  }
  EXPECT_EQ(json[0]["unit"], "layers");
  EXPECT_EQ(json[0]["compute_from"], "waits");
  EXPECT_EQ(json[0]["replay_reader"], "io_uring");
  EXPECT_EQ(json[0]["replay_direct"], true);
  EXPECT_TRUE(json[0]["storage"].is_null());
  EXPECT_THAT(FormatBudgetBench({ABudgetRow()}, BenchFormat::kCsv),
              StartsWith("storage,ram,unit,resident,n_gen,ts,p50_ms,"));
  EXPECT_THAT(
      FormatBudgetBench({ABudgetRow()}, BenchFormat::kMarkdown),
      HasSubstr("| 4.00 GiB | 25.0 % | 5.00 | 100.00 | 100.00 | 100.00 "
                "| 3.0 layers | 0.01 | 0.01 | 2.00 | 98.04 | 10.20 | 40.00 | "
                "2.00 | 1.00 MiB |"));
}

TEST(FormatBudget, LeavesOutWhatIsNotKnown) {
  BudgetRow row = ABudgetRow();
  row.unit.clear();
  row.rates.reset();
  row.replay.reset();
  for (StreamedToken& token : row.tokens) token.stream_bytes = 0;
  const auto json =
      nlohmann::json::parse(FormatBudgetBench({row}, BenchFormat::kJson));
  for (const char* name : {"unit", "read_p99_of_median", "drive_bytes_per_s",
                           "bound_ts", "percent_of_bound", "reads_alone_ms",
                           "compute_from", "times_bound", "replay_direct"}) {
    EXPECT_TRUE(json[0][name].is_null()) << name;
  }
  EXPECT_THAT(FormatBudgetBench({row}, BenchFormat::kMarkdown),
              Not(HasSubstr("storage")));
  row.storage = "mmap";
  EXPECT_THAT(FormatBudgetBench({row}, BenchFormat::kMarkdown),
              HasSubstr("| mmap | 4.00 GiB |"));
}

TEST(BudgetRowTest, TheSlowerReaderBounds) {
  BudgetRow row = ABudgetRow();
  EXPECT_DOUBLE_EQ(row.bound_seconds(), 1.02);
  row.rates->host = 1e7;
  EXPECT_DOUBLE_EQ(row.bound_seconds(), 10.0);
  row.rates->drive.reset();
  EXPECT_DOUBLE_EQ(row.bound_seconds(), 10.0);
}

}  // namespace
}  // namespace thermocline::bench
