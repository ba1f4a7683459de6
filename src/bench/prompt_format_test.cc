#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "bench/prompt_bench.h"

namespace thermocline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PromptBenchReport PromptSample() {
  PromptBenchReport report;
  report.subject.model_name = "llama 8.80 M F16";
  report.subject.batch = 512;
  report.subject.k_type = DType::kF16;
  report.subject.v_type = DType::kF16;
  PromptRow row;
  row.test = {.num_prompt = 3, .num_generate = 3};
  row.num_threads = 2;
  row.num_prompts = 1;
  row.num_given = 4;
  row.runs = {
      {.line = 7,
       .repetition = 2,
       .num_prompt = 3,
       .tokens = {
           {11, 5'000'000, 0}, {12, 1'000'000, 400}, {13, 3'000'000, 440}}}};
  row.num_dropped = 1;
  row.mean_prompt = 3.0;
  row.tokens_per_s = {500.0};
  row.mean = row.median = 500.0;
  row.response_tokens_per_s = 333.25;
  row.first_token_ns = 5e6;
  row.p50_ns = 1e6;
  row.p90_ns = row.p99_ns = 3e6;
  row.bytes_per_token = 420'000;
  row.gb_per_s = 0.21;
  row.roof_gb_per_s = 0.84;
  row.is_sparse = true;
  row.candidate_share = 0.5;
  row.open_share = 0.125;
  report.rows = {row, row};
  report.rows[1].test = {.num_prompt = 0, .num_generate = 3};
  report.rows[1].in_cache = true;
  report.rows[1].is_sparse = false;
  report.rows[1].num_dropped = 0;
  return report;
}

TEST(FormatPromptBenchTest, MarkdownHasNotesBelow) {
  const std::string text =
      FormatPromptBench(PromptSample(), BenchFormat::kMarkdown);
  EXPECT_THAT(text, HasSubstr(" pp3+tg3 |      500.00 ± 0.00 |"));
  for (const char* cell : {" 333.25 |", " 5.00 |", " 1.00 |", " 3.00 |",
                           " 0.42 |", " 0.21 |", " 25.0 |", " in cache |"}) {
    EXPECT_THAT(text, HasSubstr(cell));
  }
  EXPECT_THAT(text, HasSubstr("\npp3+tg3, 2 threads: 1 of 4 prompts, those of "
                              "3 tokens and more; ends of text are never "
                              "chosen\n"));
  EXPECT_THAT(text, HasSubstr("\npp3+tg3, 2 threads: of the neurons 50.0 % "
                              "looked at, 12.5 % computed\n"));
  EXPECT_THAT(text, HasSubstr("1 of 2 runs dropped, the machine was busy\n"));
  EXPECT_THAT(text, HasSubstr("\nprompts+tg3, 2 threads: 1 of 4 prompts, "
                              "whole, 3.0 tokens on average; "));
  EXPECT_THAT(text, Not(HasSubstr("prompts+tg3, 2 threads: of the neurons")));
  // All lines of the table have as many cells.
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i < 4 && std::getline(lines, line); ++i) {
    EXPECT_EQ(std::ranges::count(line, '|'), 16) << line;
  }
}

TEST(FormatPromptBenchTest, JsonAndCsvSayTheSame) {
  const PromptBenchReport report = PromptSample();
  const auto json =
      nlohmann::json::parse(FormatPromptBench(report, BenchFormat::kJson));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["model_type"], "llama 8.80 M F16");
  EXPECT_EQ(json[0]["percent_of_roof"], 25.0);
  EXPECT_TRUE(json[1]["percent_of_roof"].is_null());
  EXPECT_EQ(json[0]["samples_ts"].size(), 1u);

  std::istringstream lines(FormatPromptBench(report, BenchFormat::kCsv));
  const auto fields = [&lines] {
    std::string line;
    std::getline(lines, line);
    std::vector<std::string> out;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) out.push_back(cell);
    return out;
  };
  const std::vector<std::string> names = fields();
  const std::vector<std::string> values = fields();
  ASSERT_EQ(names.size(), values.size());
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE(json[0].contains(names[i])) << names[i];
    const auto& want = json[0][names[i]];
    if (want.is_number_float()) {
      EXPECT_NEAR(std::stod(values[i]), want.get<double>(), 1e-3) << names[i];
    } else if (want.is_boolean() || want.is_number()) {
      EXPECT_EQ(values[i], want.dump()) << names[i];
    }
  }
}

TEST(FormatTokensCsvTest, HasALinePerToken) {
  EXPECT_EQ(FormatTokensCsv(PromptSample()),
            "row,test,n_threads,repetition,line,position,token,ns,bytes\n"
            "1,pp3+tg3,2,2,7,3,11,5000000,\n"
            "1,pp3+tg3,2,2,7,4,12,1000000,400\n"
            "1,pp3+tg3,2,2,7,5,13,3000000,440\n"
            "2,prompts+tg3,2,2,7,3,11,5000000,\n"
            "2,prompts+tg3,2,2,7,4,12,1000000,400\n"
            "2,prompts+tg3,2,2,7,5,13,3000000,440\n");
}

}  // namespace
}  // namespace thermocline::bench
