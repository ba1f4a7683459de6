#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/hybrid_bench.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

HybridRow ARow() {
  HybridRow row = {.vram = uint64_t{4} << 30,
                   .num_layers = 10,
                   .num_device_layers = 10,
                   .num_resident = 500,
                   .planned_bytes = 1000,
                   .peak_device_bytes = 900,
                   .host_bytes = 2000,
                   .costs = {.num_tokens = 2,
                             .seconds = 4.0,
                             .waiting_seconds = 1.0,
                             .device_bytes = 300,
                             .device_neuron_bytes = 100,
                             .host_bytes = 60,
                             .host_neuron_bytes = 20,
                             .num_candidates = 400,
                             .num_device_candidates = 300,
                             .device_seconds = 2.0,
                             .link_seconds = 0.4,
                             .up_bytes = 8,
                             .down_bytes = 10},
                   .rates = HybridRates{
                       .device = 100.0, .host = 50.0, .layer_seconds = 0.01}};
  return row;
}

TEST(FormatHybrid, HasEveryNumber) {
  const auto json =
      nlohmann::json::parse(FormatHybridBench({ARow()}, BenchFormat::kJson));
  const std::map<std::string, double> expected = {
      {"ts", 0.5},
      {"bound_ts", 0.5},
      {"percent_of_bound", 100.0},
      {"device_busy", 0.5},
      {"host_busy", 0.75},
      {"link_busy", 0.1},
      {"active_on_device", 0.75},
      {"active_of_resident", 0.3},
      {"up_bytes_per_token", 4},
      {"down_bytes_per_token", 5},
      {"waiting_ns_per_layer", 5e7},
      {"device_bytes_per_token", 150},
      {"host_bytes_per_token", 30},
      {"planned_device_bytes", 1000},
      {"peak_device_bytes", 900},
      {"planned_host_bytes", 2000}};
  for (const auto& [name, value] : expected) {
    EXPECT_DOUBLE_EQ(json[0][name].get<double>(), value) << name;
  }
  EXPECT_THAT(FormatHybridBench({ARow()}, BenchFormat::kCsv),
              StartsWith("placement,predicted_ts,vram,n_gen,ts,bound_ts,"));
  EXPECT_THAT(FormatHybridBench({ARow()}, BenchFormat::kMarkdown),
              HasSubstr("| 4.00 GiB | 0.50 | 0.50 | 100.00 | 50.0 % | 75.0 %"));
}

// What is not known of a real device is not made up.
TEST(FormatHybrid, LeavesOutWhatIsNotKnown) {
  HybridRow row = ARow();
  row.vram.reset();
  row.rates.reset();
  row.costs.device_seconds.reset();
  const auto json =
      nlohmann::json::parse(FormatHybridBench({row}, BenchFormat::kJson));
  for (const char* name :
       {"vram", "bound_ts", "percent_of_bound", "device_busy"}) {
    EXPECT_TRUE(json[0][name].is_null()) << name;
  }
  EXPECT_THAT(FormatHybridBench({row}, BenchFormat::kMarkdown),
              HasSubstr("| free | 0.50 | - | - | - |"));
}

}  // namespace
}  // namespace thermocline::bench
