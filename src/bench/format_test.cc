#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/bench.h"

namespace thermocline::bench {
namespace {

BenchReport Sample() {
  BenchReport report = {.subject = {.model_name = "llama 8.80 M F16",
                                    .model_path = "a \"b\",c.gguf",
                                    .build = "0.1.0",
                                    .cpu = "A CPU, 2 GHz",
                                    .isa = "avx2",
                                    .ffn = "fast",
                                    .batch = 512,
                                    .k_type = DType::kF16,
                                    .v_type = DType::kQ8_0,
                                    .model_bytes = 17'600'000,
                                    .num_params = 8'800'000,
                                    .num_layers = 3},
                        .rows = {}};
  report.rows.push_back({.test = "pp512",
                         .num_prompt = 512,
                         .num_generate = 0,
                         .depth = 64,
                         .num_threads = 2,
                         .samples_ns = {6'826'666'667, 6'649'350'649},
                         .mean_ns = 6'738'008'658,
                         .stddev_ns = 125'381'357,
                         .tokens_per_s = {75.0, 77.0},
                         .mean = 76.0,
                         .stddev = 1.5,
                         .median = 76.0,
                         .num_dropped = 0,
                         .bytes_per_token = 34'375,
                         .gb_per_s = 0.5,
                         .roof_gb_per_s = 20.0,
                         .gmac_per_s = 120.0,
                         .in_cache = false,
                         .is_sparse = false,
                         .bytes_are_bound = false,
                         .candidate_share = 0.0,
                         .open_share = 0.0,
                         .limit = LimitKind::kMemory,
                         .percent_of_limit = 2.5});
  report.rows.push_back(report.rows[0]);
  report.rows[1].test = "tg128";
  report.rows[1].in_cache = true;
  return report;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(FormatBenchTest, MarkdownHasLlamaBenchsColumns) {
  const auto lines = Lines(FormatBench(Sample(), BenchFormat::kMarkdown));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            "| model                          |       size |     params | "
            "backend    | threads |          test |                  t/s |     "
            "GB/s | % of roof |   GMAC/s |              limit |");
  EXPECT_EQ(lines[1],
            "| ------------------------------ | ---------: | ---------: | "
            "---------- | ------: | ------------: | -------------------: | "
            "-------: | --------: | -------: | -----------------: |");
  EXPECT_EQ(lines[2],
            "| llama 8.80 M F16               |  16.78 MiB |     8.80 M | CPU  "
            "      |       2 |         pp512 |         76.00 ± 1.50 |     0.50 "
            "|       2.5 |    120.0 |     memory   2.5 % |");
  EXPECT_THAT(lines[3], ::testing::HasSubstr("tg128"));
  EXPECT_THAT(lines[3], ::testing::HasSubstr("|  in cache |"));
}

TEST(FormatBenchTest, PromptsUnderArithmeticHaveNoShareOfTheRoof) {
  BenchReport report = Sample();
  report.rows[0].limit = LimitKind::kArithmetic;
  report.rows[0].percent_of_limit = 71.0;
  const auto lines = Lines(FormatBench(report, BenchFormat::kMarkdown));
  EXPECT_THAT(lines[2], ::testing::HasSubstr(
                            "|           |    120.0 | arithmetic  71.0 % |"));
  const auto json =
      nlohmann::json::parse(FormatBench(report, BenchFormat::kJson));
  EXPECT_TRUE(json[0]["percent_of_roof"].is_null());
  EXPECT_EQ(json[0]["limit"], "arithmetic");
  EXPECT_EQ(json[0]["percent_of_limit"], 71.0);
}

TEST(FormatBenchTest, SaysWhatWasDropped) {
  BenchReport report = Sample();
  report.rows[1].num_dropped = 3;
  EXPECT_THAT(FormatBench(report, BenchFormat::kMarkdown),
              ::testing::EndsWith("\ntg128, 2 threads: 3 of 5 repetitions "
                                  "dropped, the machine was busy\n"));
}

TEST(FormatBenchTest, ShowsTheProfile) {
  BenchReport report = Sample();
  compute::StageTimes& profile = report.rows[0].profile.emplace();
  profile.whole = {.num_calls = 1, .ns = 5000, .num_joins = 6};
  EXPECT_THAT(FormatBench(report, BenchFormat::kMarkdown),
              ::testing::HasSubstr("pp512, 2 threads:\n\n| stage "));
  EXPECT_THAT(FormatBench(report, BenchFormat::kMarkdown),
              ::testing::HasSubstr("Joins per layer: 2.0"));
  const auto json =
      nlohmann::json::parse(FormatBench(report, BenchFormat::kJson));
  EXPECT_EQ(json[0]["profile"].back()["stage"], "whole");
  EXPECT_EQ(json[0]["profile"].back()["joins"], 6);
  EXPECT_FALSE(json[1].contains("profile"));
}

TEST(FormatBenchTest, SparseRunsSayHowMuchTheyRead) {
  BenchReport report = Sample();
  report.rows[0].is_sparse = true;
  report.rows[0].candidate_share = 0.163;
  report.rows[0].open_share = 0.102;
  report.rows[0].limit = LimitKind::kNone;
  const std::string text = FormatBench(report, BenchFormat::kMarkdown);
  EXPECT_THAT(text,
              ::testing::HasSubstr("|     0.50 |       2.5 |  ≤ 120.0 | "));
  EXPECT_THAT(text, ::testing::HasSubstr(
                        "pp512, 2 threads: 0.03 MB per token; of the neurons "
                        "16.3 % looked at, 10.2 % computed\n"));
  const auto json =
      nlohmann::json::parse(FormatBench(report, BenchFormat::kJson));
  EXPECT_EQ(json[0]["is_sparse"], true);
  EXPECT_EQ(json[0]["percent_of_roof"], 2.5);
  EXPECT_EQ(json[0]["candidate_share"], 0.163);
  EXPECT_EQ(json[0]["open_share"], 0.102);
}

TEST(FormatBenchTest, SparsePromptsHaveNoShareOfTheRoof) {
  BenchReport report = Sample();
  report.rows[0].is_sparse = report.rows[0].bytes_are_bound = true;
  report.rows[0].limit = LimitKind::kNone;
  const auto lines = Lines(FormatBench(report, BenchFormat::kMarkdown));
  EXPECT_THAT(lines[2],
              ::testing::HasSubstr("|   ≤ 0.50 |    sparse |  ≤ 120.0 | "));
  const auto json =
      nlohmann::json::parse(FormatBench(report, BenchFormat::kJson));
  EXPECT_EQ(json[0]["bytes_are_bound"], true);
  EXPECT_TRUE(json[0]["percent_of_roof"].is_null());
  EXPECT_TRUE(json[0]["limit"].is_null());
  EXPECT_EQ(json[1]["bytes_are_bound"], false);
}

TEST(FormatBenchTest, MarkdownCellsCannotBreakTheTable) {
  BenchReport report = Sample();
  report.subject.model_name = "a|b";
  EXPECT_THAT(FormatBench(report, BenchFormat::kMarkdown),
              ::testing::HasSubstr("a\\|b"));
}

TEST(FormatBenchTest, JsonParses) {
  const auto json =
      nlohmann::json::parse(FormatBench(Sample(), BenchFormat::kJson));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["model_filename"], "a \"b\",c.gguf");
  EXPECT_EQ(json[0]["build_commit"], "0.1.0");
  EXPECT_EQ(json[0]["cpu_info"], "A CPU, 2 GHz");
  EXPECT_EQ(json[0]["ffn"], "fast");
  EXPECT_EQ(json[0]["avg_ns"], 6'738'008'658);
  EXPECT_EQ(json[0]["stddev_ns"], 125'381'357);
  EXPECT_EQ(json[0]["samples_ns"][0], 6'826'666'667);
  EXPECT_EQ(json[0]["n_prompt"], 512);
  EXPECT_EQ(json[0]["n_threads"], 2);
  EXPECT_EQ(json[0]["avg_ts"], 76.0);
  EXPECT_EQ(json[0]["samples_ts"].size(), 2u);
  EXPECT_EQ(json[0]["percent_of_roof"], 2.5);
  EXPECT_EQ(json[0]["n_depth"], 64);
  EXPECT_EQ(json[0]["limit"], "memory");
  EXPECT_TRUE(json[1]["percent_of_roof"].is_null());
  EXPECT_EQ(json[1]["in_cache"], true);
}

TEST(FormatBenchTest, JsonReplacesInvalidUtf8) {
  BenchReport report = Sample();
  report.subject.model_path = "\xff.gguf";
  EXPECT_EQ(nlohmann::json::parse(
                FormatBench(report, BenchFormat::kJson))[0]["model_filename"],
            "\xef\xbf\xbd.gguf");
}

TEST(FormatBenchTest, CsvQuotesAndHasAsManyFieldsAsNames) {
  BenchReport report = Sample();
  report.rows[1].is_sparse = true;
  report.rows[1].candidate_share = 0.163;
  report.rows[1].open_share = 0.102;
  const auto lines = Lines(FormatBench(report, BenchFormat::kCsv));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0],
              ::testing::EndsWith(",is_sparse,candidate_share,open_share"));
  EXPECT_THAT(lines[2], ::testing::EndsWith(",true,0.163000,0.102000"));
  EXPECT_THAT(lines[1], ::testing::StartsWith("\"0.1.0\",\"A CPU, 2 GHz\",\"a "
                                              "\"\"b\"\",c.gguf\","));
  EXPECT_THAT(lines[1],
              ::testing::HasSubstr(",6738008658,125381357,76.000000,"));
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(commas(lines[1]), commas(lines[0]) + 2);  // two inside quotes
  EXPECT_THAT(lines[1],
              ::testing::EndsWith(",false,2.500,64,120.000000,memory,2.500,0,"
                                  "false,0.000000,0.000000"));
  EXPECT_THAT(lines[2], ::testing::HasSubstr(",true,,64,"));
}

}  // namespace
}  // namespace thermocline::bench
