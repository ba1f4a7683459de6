#include "cli/run_report.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace thermocline::cli {
namespace {

using decode::StopReason;

TEST(FormatRunSummaryTest, ShowsRatesBytesAndReason) {
  const decode::GenerateReport report = {
      .reason = StopReason::kMaxTokens,
      .num_prompt_tokens = 20,
      .tokens = std::vector<text::TokenId>(101),
      .num_decodes = 100,
      .prompt_seconds = 0.5,
      .generate_seconds = 2.0,
      .seed = 42};
  EXPECT_EQ(FormatRunSummary(report, {.count = 20'000'000},
                             {.held_bytes = 1 << 20, .mapped_bytes = 2 << 20}),
            "prompt         20 tokens in    0.500 s      40.00 tok/s\n"
            "generated     101 tokens in    2.000 s      50.00 tok/s  19.07 "
            "MiB per token, 1.00 GB/s\n"
            "stop: token limit, seed 42, peak memory 1.00 MiB anonymous and "
            "locked, 2.00 MiB mapped\n");
}

TEST(RunMemoryOfTest, LockedMappingsCountAsHeldOnce) {
  const os::ProcessMemory memory = {
      .anonymous_bytes = 100, .mapped_bytes = 70, .locked_bytes = 50};
  const RunMemory mapped = RunMemoryOf(memory, {.lock = true});
  EXPECT_EQ(mapped.held_bytes, 150u);
  EXPECT_EQ(mapped.mapped_bytes, 20u);
  const RunMemory read = RunMemoryOf(memory, {.read = true, .lock = true});
  EXPECT_EQ(read.held_bytes, 100u);
  EXPECT_EQ(read.mapped_bytes, 70u);
}

TEST(FormatRunSummaryTest, ATokenOfThePrefillHasNoSpeed) {
  const std::string text = FormatRunSummary({.num_prompt_tokens = 1,
                                             .tokens = {7},
                                             .prompt_seconds = 0.5,
                                             .generate_seconds = 1e-5},
                                            {.count = 1000}, {});
  EXPECT_NE(text.find("generated       1 token  in    0.000 s\n"),
            std::string::npos)
      << text;
}

TEST(FormatRunSummaryTest, SparseBytesAreABound) {
  const std::string text =
      FormatRunSummary({.num_decodes = 1, .generate_seconds = 1.0},
                       {.count = 2'000'000'000, .is_bound = true}, {});
  EXPECT_NE(text.find("at most 1.86 GiB per token, at most 2.00 GB/s"),
            std::string::npos)
      << text;
}

TEST(FormatStreamSummaryTest, OfEachToken) {
  EXPECT_EQ(FormatStreamSummary({}), "");
  engine::StreamTotals totals;
  totals.prompt = {.num_rows = 5, .num_bytes = 3 << 20};
  totals.generated = {.num_rows = 4,
                      .num_wanted = 1000,
                      .num_missed = 50,
                      .num_bytes = 4 << 10,
                      .num_reads = 38};
  EXPECT_EQ(FormatStreamSummary(totals),
            "streamed   12.5 of 250.0 records per generated token, 1.00 KiB in "
            "9.5 reads; prompt 3.00 MiB\n");
  totals.generated.num_early = 34;
  totals.generated.num_early_used = 32;
  EXPECT_EQ(FormatStreamSummary(totals),
            "streamed   12.5 of 250.0 records per generated token, 1.00 KiB in "
            "9.5 reads; 8.0 a layer early and 0.5 in vain; prompt 3.00 MiB\n");
  totals.generated.num_early = 0;
  totals.unit = engine::StreamUnit::kExperts;
  totals.generated.num_foreseeable = 200;
  totals.generated.num_foreseen = 150;
  totals.generated.num_vain = 5;
  EXPECT_EQ(FormatStreamSummary(totals),
            "streamed   12.5 of 250.0 experts per generated token, 1.00 KiB in "
            "9.5 reads, 75 % foreseen, 1.2 read in vain; prompt 3.00 MiB\n");
  totals.generated.num_foreseeable = 0;
  totals.generated.num_hits = 950;
  totals.generated.num_admissions = 40;
  totals.generated.num_moves = 6;
  totals.generated.num_wasted = 2;
  totals.generated.num_move_bytes = 2 << 10;
  EXPECT_EQ(FormatStreamSummary(totals),
            "streamed   12.5 of 250.0 experts per generated token, 1.00 KiB in "
            "9.5 reads; 237.5 hits, 10.0 admitted, 1.5 moved (512 B), 0.5 "
            "wasted; prompt 3.00 MiB\n");
}

TEST(FormatRunSummaryTest, SaysWhoseBytesTheyAre) {
  EXPECT_NE(FormatRunSummary({.num_decodes = 1, .generate_seconds = 1.0},
                             {.count = 20'000'000, .of_graphs = true}, {})
                .find("  19.07 MiB of the graphs per token, 0.02 GB/s\n"),
            std::string::npos);
}

TEST(FormatRunSummaryTest, DividesByNoZero) {
  const std::string text = FormatRunSummary({}, {}, {});
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

TEST(FormatAnswerSummaryTest, OneLineWithWhatMatters) {
  decode::GenerateReport report = {.reason = StopReason::kEndOfGeneration,
                                   .num_prompt_tokens = 20,
                                   .tokens = std::vector<text::TokenId>(11),
                                   .num_decodes = 10,
                                   .prompt_seconds = 0.5,
                                   .generate_seconds = 2.0};
  EXPECT_EQ(FormatAnswerSummary(report, 30, 512),
            "[prompt 20 tokens, 40.00 tok/s; answer 11 tokens, 5.00 tok/s; 30 "
            "of 512 positions]");
  report.reason = StopReason::kMaxTokens;
  report.num_decodes = 0;
  report.prompt_seconds = 0.0;
  EXPECT_EQ(FormatAnswerSummary(report, 30, 512),
            "[prompt 20 tokens; answer 11 tokens; 30 of 512 positions; token "
            "limit]");
}

TEST(DescribeStopTest, TellsReasonsApart) {
  std::set<std::string> texts;
  for (int reason = 0; reason <= static_cast<int>(StopReason::kReceiver);
       ++reason) {
    texts.insert(DescribeStop(static_cast<StopReason>(reason)));
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_EQ(texts.count(""), 0u);
}

}  // namespace
}  // namespace thermocline::cli
