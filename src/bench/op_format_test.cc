#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bench/op_bench.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

OpReport SampleOps() {
  OpReport report = {.build = "0.1.0",
                     .cpu = "A CPU",
                     .isa = "avx2",
                     .rounds = 5,
                     .seed = 1,
                     .most_bytes = 2 << 20};
  report.subjects = {
      {.name = "host", .in_cache = true, .num_copies = 64, .num_bytes = 1024},
      {.name = "cuda0",
       .card = "A Card",
       .roof_gb_per_s = 800.0,
       .num_copies = 1,
       .num_bytes = 2048}};
  report.sparse = {{.seconds = 1e-3, .dense_seconds = 1e-3, .num_bytes = 1000},
                   {.subject = 1,
                    .sparsity = 0.95,
                    .num_neurons = 10,
                    .seconds = 1e-6,
                    .dense_seconds = 4e-6,
                    .num_bytes = 400000}};
  report.moves = {{.subject = 1,
                   .share = 0.1,
                   .num_neurons = 3,
                   .batch = 8,
                   .in_place_seconds = 0.004,
                   .move_seconds = 0.001,
                   .compute_seconds = 0.001}};
  return report;
}

TEST(FormatOpTest, MarkdownHasTwoTablesAndNotes) {
  const std::string text = FormatOp(SampleOps(), BenchFormat::kMarkdown);
  for (const char* part :
       {"| host   |    dense |    1000.00 |    1.000 |     0.00 |   in cache |",
        "| cuda0  |     95 % |       1.00 |    0.250 |   400.00 |       50.0 |",
        "host: 64 copies of the layer, 1.00 KiB, which are not twice the "
        "cache: in cache, and no bound; sparse beats dense at no sparsity\n",
        "cuda0 (A Card): one copy of the layer, 2.00 KiB; bound: the bytes of "
        "the weights at 800.00 GB/s, measured in this run; sparse beats dense "
        "from 95 % on\n",
        "Memory: at most 2.00 MiB of weights on each; medians, rounds: "
        "5; seed: 1\n",
        "| cuda0  |    10 % |       3 |     8 |      4.0000 |    1.0000 |     "
        "1.0000 |    2.0000 |  0.50 |",
        "cuda0, 10 %: moving wins from batch 8 on\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(FormatOpTest, WithoutADeviceNobodyTakesThem) {
  OpReport report = SampleOps();
  report.moves.front().move_seconds.reset();
  report.moves.front().compute_seconds.reset();
  const std::string text = FormatOp(report, BenchFormat::kMarkdown);
  EXPECT_THAT(text,
              HasSubstr("|         - |          - |         - |     - |"));
  EXPECT_THAT(text, Not(HasSubstr("moving wins")));
}

TEST(FormatOpTest, JsonHasAllOfIt) {
  const auto json =
      nlohmann::json::parse(FormatOp(SampleOps(), BenchFormat::kJson));
  EXPECT_EQ(json["devices"][0]["roof_gb_per_s"], nullptr);
  EXPECT_EQ(json["devices"][1]["sparse_wins_from"], 0.95);
  EXPECT_EQ(json["sparse"][0]["sparsity"], nullptr);
  EXPECT_EQ(json["sparse"][1]["percent_of_bound"], 50.0);
  EXPECT_EQ(json["move"][0]["sum_seconds"], 0.002);
  EXPECT_EQ(json["type"], "Q4_0");
}

TEST(FormatOpTest, CsvHasALinePerRow) {
  EXPECT_EQ(FormatOp(SampleOps(), BenchFormat::kCsv),
            "what,device,sparsity,share,n_neurons,batch,seconds,dense_seconds,"
            "bytes,percent_of_bound,move_seconds,compute_seconds\n"
            "dense,host,,,0,1,0.001,0.001,1000,,,\n"
            "sparse,cuda0,0.95,,10,1,1e-06,4e-06,400000,50,,\n"
            "move,cuda0,,0.1,3,8,0.004,,,,0.001,0.001\n");
}

}  // namespace
}  // namespace thermocline::bench
