#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "bench/sequence_bench.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SequenceBenchReport SampleOfSequences() {
  SequenceBenchReport report;
  report.subject.model_name = "llama 8.80 M F16";
  report.subject.batch = 512;
  report.subject.k_type = DType::kF16;
  report.subject.v_type = DType::kF16;
  report.num_given = 2;
  SequenceRow row;
  row.test = {.num_prompt = 16, .num_generate = 64};
  row.num_sequences = 4;
  row.num_threads = 2;
  row.num_passes = 63;
  row.num_prompts = 2;
  row.mean_prompt = 16.0;
  row.samples_ns = {1'260'000'000};
  row.tokens_per_s = {200.0};
  row.mean = row.median = 200.0;
  row.num_dropped = 2;
  row.weight_bytes_per_pass = 16'000'000;
  row.kv_bytes_per_token = 500'000;
  row.bytes_per_token = 4'500'000;
  row.gb_per_s = 0.9;
  row.roof_gb_per_s = 1.8;
  row.is_sparse = true;
  row.candidate_share = 0.16;
  row.open_share = 0.1;
  row.union_candidate_share = 0.431;
  row.union_open_share = 0.302;
  report.rows = {row, row};
  SequenceRow& dense = report.rows[1];
  dense.num_prompts = 0;
  dense.num_dropped = 0;
  dense.is_sparse = false;
  dense.bytes_are_bound = true;
  return report;
}

TEST(FormatSequenceBenchTest, MarkdownHasUnionsBesideMeans) {
  SequenceBenchReport report = SampleOfSequences();
  const std::string text = FormatSequenceBench(report, BenchFormat::kMarkdown);
  for (const char* part :
       {" pp16+tg64 |    4 |      200.00 ± 0.00 |    50.00 |    20.00 |     "
        "4.50 |     0.90 |      50.0 |             43.1 / 16.0 |            "
        "30.2 / 10.0 |\n",
        "| looked at, any / each % | computed, any / each % |\n",
        "pp16+tg64, np 4, 2 threads: 2 of 2 prompts, so that sequences repeat "
        "them\n",
        "pp16+tg64, np 4, 2 threads: 2 of 3 repetitions dropped",
        " ≤ 0.90 |           |", "experts as the tokens of a pass could"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  // Every line of the table is as wide: ± and ≤ are one column each.
  std::istringstream lines(text);
  std::string first;
  std::string line;
  std::getline(lines, first);
  for (int i = 0; i < 3; ++i) {
    std::getline(lines, line);
    const auto is_tail = [](char c) { return (c & 0xc0) == 0x80; };
    EXPECT_EQ(
        line.size() - static_cast<size_t>(std::ranges::count_if(line, is_tail)),
        first.size());
  }
  report.rows = {report.rows[1]};
  report.rows[0].bytes_are_bound = false;
  const std::string dense = FormatSequenceBench(report, BenchFormat::kMarkdown);
  EXPECT_THAT(dense, Not(HasSubstr("looked at")));
  EXPECT_EQ(std::ranges::count(dense, '\n'), 3);
}

TEST(FormatSequenceBenchTest, JsonAndCsvHaveTheSameNames) {
  const SequenceBenchReport report = SampleOfSequences();
  const auto rows =
      nlohmann::json::parse(FormatSequenceBench(report, BenchFormat::kJson));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["num_sequences"], 4);
  EXPECT_EQ(rows[0]["num_prompts_given"], 2);
  EXPECT_DOUBLE_EQ(rows[0]["each_ts"], 50.0);
  EXPECT_DOUBLE_EQ(rows[0]["pass_ns"], 2e7);
  EXPECT_DOUBLE_EQ(rows[0]["percent_of_roof"], 50.0);
  EXPECT_DOUBLE_EQ(rows[0]["union_open_share"], 0.302);
  EXPECT_TRUE(rows[1]["percent_of_roof"].is_null());

  std::istringstream csv(FormatSequenceBench(report, BenchFormat::kCsv));
  std::string names;
  std::string row;
  std::getline(csv, names);
  std::getline(csv, row);
  EXPECT_EQ(std::ranges::count(names, ','), std::ranges::count(row, ','));
  EXPECT_THAT(row, HasSubstr("\"llama 8.80 M F16\""));
  EXPECT_THAT(row, HasSubstr(",4500000,16000000,500000,false,true,0.160000,"));
  std::istringstream columns(names);
  for (std::string name; std::getline(columns, name, ',');) {
    EXPECT_TRUE(rows[0].contains(name)) << name;
  }
}

}  // namespace
}  // namespace thermocline::bench
