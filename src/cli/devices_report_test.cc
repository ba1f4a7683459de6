#include "cli/devices_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/units.h"

namespace thermocline::cli {
namespace {

DevicesReport SomeReport() {
  DevicesReport report = {.ram_bytes = uint64_t{8} << 30,
                          .host = HostReads{2, 256 << 20, 21.5, 20.25}};
  report.devices.push_back(
      {.info = {.id = "cuda0",
                .name = "A card",
                .total_bytes = uint64_t{6} << 30,
                .free_bytes = uint64_t{5} << 30,
                .major = 8,
                .minor = 6},
       .rates = probe::DeviceRates{.num_rounds = 10,
                                   .device_bytes = 513 << 20,
                                   .pinned_bytes = 64 << 20,
                                   .read_bytes = 512 << 20,
                                   .read_gb_per_s = 300,
                                   .copy_gb_per_s = 290.5,
                                   .blocks = {{4096, 1.5, 1.25}},
                                   .record_bytes = 6144,
                                   .num_records = 1024,
                                   .gather_gb_per_s = 2.5,
                                   .in_place_gb_per_s = 9.75,
                                   .round_trip_seconds = 12.5e-6}});
  report.devices.push_back(
      {.info = {.id = "cuda1", .name = "Another"}, .problem = "cuda1: lost"});
  return report;
}

TEST(DevicesReportTest, AsText) {
  EXPECT_EQ(
      FormatDevices(SomeReport()),
      "host   8.00 GiB of RAM; 2 threads read 20.25 GB/s of 256.00 MiB (at "
      "best 21.50)\n"
      "cuda0  A card, compute capability 8.6, 5.00 GiB of 6.00 GiB free\n"
      "       memory      300.00 GB/s read by products (512.00 MiB), 290.50 "
      "copied within it\n"
      "       round trip  12.50 us: a row up, an operation, its copy down, "
      "waiting\n"
      "       gather      2.50 GB/s, a copy for each of 1024 records of 6.00 "
      "KiB; 9.75 read where they lie\n"
      "       link         copies of    up GB/s  down GB/s\n"
      "                     4.00 KiB       1.50       1.25\n"
      "       medians of 10 rounds, with 513.00 MiB of its memory and 64.00 "
      "MiB of the host's, locked\n"
      "cuda1  Another, compute capability 0.0, 0 B of 0 B free\n"
      "       not measured: cuda1: lost\n");
  EXPECT_EQ(FormatDevices({.ram_bytes = 1 << 20, .why_no_cuda = "no driver"}),
            "host   1.00 MiB of RAM\ncuda   none: no driver\n");
}

TEST(DevicesReportTest, AsJson) {
  const auto json = nlohmann::json::parse(FormatDevicesJson(SomeReport()));
  EXPECT_EQ(json["host"]["reads"]["n_threads"], 2);
  EXPECT_EQ(json["devices"][0]["compute_capability"], "8.6");
  EXPECT_EQ(json["devices"][0]["problem"], nullptr);
  const auto& rates = json["devices"][0]["rates"];
  EXPECT_EQ(rates["gather_gb_per_s"], 2.5);
  EXPECT_EQ(rates["link"][0]["block_bytes"], 4096);
  EXPECT_EQ(json["devices"][1]["rates"], nullptr);
  EXPECT_EQ(json["devices"][1]["problem"], "cuda1: lost");
  EXPECT_EQ(json["why_no_cuda"], nullptr);
}

TEST(DevicesReportTest, RatesAreMeasuredWithinTheBudget) {
  DeviceFlags flags;
  EXPECT_EQ(RatesWithin(flags).most_bytes, 512 * kMiB);
  flags.vrams = {32 * kMiB, 64 * kMiB};
  EXPECT_EQ(RatesWithin(flags).most_bytes, 31 * kMiB);
  flags.vrams = {8 * kGiB};
  EXPECT_EQ(RatesWithin(flags).most_bytes, 512 * kMiB);
}

}  // namespace
}  // namespace thermocline::cli
