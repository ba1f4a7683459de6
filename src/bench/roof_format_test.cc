#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/roof.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RoofReport SampleRoof() {
  return {
      .build = "0.1.0",
      .cpu = "A CPU",
      .isa = "avx2",
      .cache_bytes = 32 << 20,
      .probe_bytes = 256 << 20,
      .probe_is_capped = false,
      .reads = {{1, 20.0, 19.0}, {2, 40.0, 38.5}},
      .products = {{DType::kQ4_0,
                    {.gb_per_s = 25.0, .gmac_per_s = 44.0},
                    {.gb_per_s = 1.0, .gmac_per_s = 200.0, .is_batch = true},
                    1},
                   {DType::kQ6_K,
                    {.gb_per_s = 15.0, .gmac_per_s = 18.0},
                    {.gb_per_s = 0.5, .gmac_per_s = 60.0},
                    std::nullopt}},
      .model_path = "m.gguf",
      .bytes_per_token = 1 << 30,
      .models = {{1, 20.0, 25.0, 100.0}, {2, 40.0, 30.0, 200.0}}};
}

TEST(FormatRoofTest, MarkdownHasThreeTables) {
  const std::string text = FormatRoof(SampleRoof(), BenchFormat::kMarkdown);
  EXPECT_THAT(text, HasSubstr("reads of 256.00 MiB (last-level cache 32.00 "
                              "MiB):\n"));
  EXPECT_THAT(text, HasSubstr("|       2 |    40.00 |    38.50 |\n"));
  EXPECT_THAT(text, HasSubstr("| Q4_0  |    25.00 |    44.00 |            1 | "
                              "           200.00 | batch  |\n"));
  EXPECT_THAT(text, HasSubstr("| Q6_K  |    15.00 |    18.00 |          > 2 | "
                              "            60.00 | dot    |\n"));
  EXPECT_THAT(text, HasSubstr("m.gguf, 1.00 GiB of weights per token"));
  EXPECT_THAT(text, HasSubstr("|       1 |      20.00 |      25.00 | memory    "
                              " |     100.00 |\n"));
  EXPECT_THAT(text, HasSubstr(" arithmetic |     200.00 |\n"));
}

TEST(FormatRoofTest, LeavesOutWhatWasNotMeasured) {
  RoofReport report = SampleRoof();
  report.products.clear();
  report.models.clear();
  report.probe_is_capped = true;
  const std::string text = FormatRoof(report, BenchFormat::kMarkdown);
  EXPECT_THAT(text, HasSubstr("(last-level cache 32.00 MiB; memory is short "
                              "for more, so a part may come from the cache)"));
  EXPECT_THAT(text, Not(HasSubstr("type")));
  EXPECT_THAT(text, Not(HasSubstr("m.gguf")));
}

TEST(FormatRoofTest, ReadsAloneGiveMemorysTokensPerSecond) {
  RoofReport report = SampleRoof();
  report.products.clear();
  report.models = {{1, 20.0, std::nullopt, std::nullopt}};
  const std::string text = FormatRoof(report, BenchFormat::kMarkdown);
  EXPECT_THAT(text, HasSubstr("m.gguf, 1.00 GiB of weights per token"));
  EXPECT_THAT(text, HasSubstr("|       1 |      20.00 |\n"));
  EXPECT_THAT(text, Not(HasSubstr("arithmetic")));
  const auto json =
      nlohmann::json::parse(FormatRoof(report, BenchFormat::kJson));
  EXPECT_EQ(json["model_filename"], "m.gguf");
  EXPECT_EQ(json["model"][0]["memory_ts"], 20.0);
  for (const char* key : {"arithmetic_ts", "limit", "prefill_ts"}) {
    EXPECT_TRUE(json["model"][0].at(key).is_null()) << key;
  }
  EXPECT_THAT(FormatRoof(report, BenchFormat::kCsv),
              Not(HasSubstr("arithmetic")));
}

TEST(FormatRoofTest, RowsApartStandBesideTheSequentialReads) {
  RoofReport report = SampleRoof();
  EXPECT_THAT(FormatRoof(report, BenchFormat::kMarkdown),
              Not(HasSubstr("apart")));
  report.row_bytes = 1152;
  report.rows_apart = {{1, 10.0, 9.0}, {2, 22.0, 21.0}};
  EXPECT_THAT(FormatRoof(report, BenchFormat::kMarkdown),
              HasSubstr("\nRows of 1152 bytes apart, one in 6:\n\n"
                        "| threads |     GB/s |   median | of sequential |\n"
                        "| ------: | -------: | -------: | ------------: |\n"
                        "|       1 |    10.00 |     9.00 |        50.0 % |\n"
                        "|       2 |    22.00 |    21.00 |        55.0 % |\n"));
  const auto json =
      nlohmann::json::parse(FormatRoof(report, BenchFormat::kJson));
  EXPECT_EQ(json["rows_apart"][1]["n_threads"], 2);
  EXPECT_EQ(json["rows_apart"][1]["row_bytes"], 1152);
  EXPECT_EQ(json["rows_apart"][1]["gb_per_s_median"], 21.0);
  EXPECT_THAT(FormatRoof(report, BenchFormat::kCsv),
              HasSubstr("\nrows apart,,2,,22.000000,GB/s\n"));
}

TEST(FormatRoofTest, JsonParses) {
  const auto json =
      nlohmann::json::parse(FormatRoof(SampleRoof(), BenchFormat::kJson));
  EXPECT_EQ(json["reads"][1]["gb_per_s"], 40.0);
  EXPECT_EQ(json["products"][0]["type"], "Q4_0");
  EXPECT_EQ(json["products"][0]["memory_from_n_threads"], 1);
  EXPECT_TRUE(json["products"][1]["memory_from_n_threads"].is_null());
  EXPECT_EQ(json["model"][1]["limit"], "arithmetic");
}

TEST(FormatRoofTest, CsvHasANumberPerLine) {
  const std::string text = FormatRoof(SampleRoof(), BenchFormat::kCsv);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 2 + 2 * 3 + 2 * 3);
  EXPECT_THAT(text, HasSubstr("\nread,,2,,40.000000,GB/s\n"));
  EXPECT_THAT(text, HasSubstr("\nproduct,Q6_K,1,512,60.000000,GMAC/s\n"));
  EXPECT_THAT(text, HasSubstr("\nmemory,,1,1,20.000000,tokens/s\n"));
}

}  // namespace
}  // namespace thermocline::bench
