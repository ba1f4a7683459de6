#include "bench/io_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thermocline::bench {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

IoReport SmallIoReport() {
  return {.build = "1.2.3",
          .cpu = "A CPU",
          .path = "m.gguf",
          .rates = {.reader = "io_uring",
                    .alignment = 512,
                    .file_bytes = uint64_t{3} << 29,
                    .rates = {{.is_random = false,
                               .range_bytes = uint64_t{1} << 30,
                               .block_bytes = 2 << 20,
                               .depth = 8,
                               .num_reads = 500,
                               .seconds = 0.5,
                               .mean_us = 7999.96,
                               .p50_us = 7000,
                               .p99_us = 12345},
                              {.is_random = true,
                               .range_bytes = 70'000,
                               .block_bytes = 4096,
                               .depth = 1,
                               .num_reads = 5000,
                               .seconds = 0.5,
                               .mean_us = 100,
                               .p50_us = 90,
                               .p99_us = 300.25}}}};
}

TEST(IoFormatTest, MarkdownIsATableAndHowItWasRead) {
  EXPECT_EQ(
      FormatIo(SmallIoReport(), BenchFormat::kMarkdown),
      "| order      |     range |    block | depth |   reads/s |     MB/s |   "
      "mean us |    P50 us |    P99 us |\n"
      "| ---------- | --------: | -------: | ----: | --------: | -------: | "
      "--------: | --------: | --------: |\n"
      "| sequential |     1 GiB |    2 MiB |     8 |      1000 |   2097.2 |    "
      "8000.0 |    7000.0 |   12345.0 |\n"
      "| random     |   70000 B |    4 KiB |     1 |     10000 |     41.0 |    "
      " "
      "100.0 |      90.0 |     300.2 |\n"
      "\nm.gguf, 1.50 GiB, read by io_uring past the page cache (O_DIRECT, "
      "multiples of 512 bytes)\n");
  IoReport report = SmallIoReport();
  report.is_made = true;
  report.rates.alignment = 1;
  EXPECT_THAT(FormatIo(report, BenchFormat::kMarkdown),
              HasSubstr("\na file made in m.gguf, 1.50 GiB, read by io_uring "
                        "through the page cache, since"));
}

TEST(IoFormatTest, JsonAndCsvHaveTheSameNumbers) {
  IoReport report = SmallIoReport();
  report.path = "bad \xff";
  const auto json = nlohmann::json::parse(FormatIo(report, BenchFormat::kJson));
  EXPECT_EQ(json["reader"], "io_uring");
  EXPECT_EQ(json["is_direct"], true);
  EXPECT_EQ(json["file_bytes"], 1610612736);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["order"], "random");
  EXPECT_DOUBLE_EQ(json["rows"][1]["mb_per_s"].get<double>(), 40.96);
  EXPECT_THAT(
      FormatIo(report, BenchFormat::kCsv),
      AllOf(StartsWith("order,range_bytes,block_bytes,depth,"),
            HasSubstr("\nsequential,1073741824,2097152,8,500,0.5,1000,"),
            EndsWith("\nrandom,70000,4096,1,5000,0.5,10000,40.96,100,90,300.25,"
                     "io_uring,true\n")));
}

}  // namespace
}  // namespace thermocline::bench
