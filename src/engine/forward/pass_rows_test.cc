#include "engine/forward/pass_rows.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

class PassRowsTest : public ::testing::Test {
 protected:
  PassRowsTest() {
    const auto model = testing::MakeTinyModel({});
    const KvLayout layout =
        PlanKvLayout(model->config(), DType::kF16, DType::kF16).value();
    pool_ = KvPool::Create(layout, 8).value();
    for (int i = 0; i < 4; ++i) sequences_.emplace_back(pool_.get(), 64);
  }

  // "prompt 0+3 (3 at 0); taken 3+8 (8 at 0); ..." of runs of so many tokens,
  // the last num_generated generated, those of 8 tokens taken.
  std::string Lay(const std::vector<size_t>& counts, size_t num_generated) {
    std::vector<BatchRun> runs;
    for (size_t i = 0; i < counts.size(); ++i) {
      runs.push_back({.sequence = &sequences_[i],
                      .tokens = std::span(tokens_).first(counts[i]),
                      .phase = i + num_generated < counts.size()
                                   ? Phase::kPrompt
                                   : Phase::kGenerate});
    }
    rows_.Lay({runs},
              [](const SequenceRows& run) { return run.num_rows == 8; });
    std::string text;
    for (const PhaseRows& part : rows_.parts()) {
      text += fmt::format("{} {}+{} (",
                          part.is_taken                  ? "taken"
                          : part.phase == Phase::kPrompt ? "prompt"
                                                         : "generated",
                          part.first, part.count);
      EXPECT_EQ(part.runs.size(), part.sequences.size());
      for (size_t i = 0; i < part.sequences.size(); ++i) {
        const SequenceRows& run = part.sequences[i];
        EXPECT_EQ(part.runs[i].sequence, run.sequence);
        text += fmt::format("{}{} at {}", i > 0 ? ", " : "", run.num_rows,
                            run.first_row);
      }
      text += "); ";
    }
    return text;
  }

  std::vector<text::TokenId> tokens_ = std::vector<text::TokenId>(16);
  std::unique_ptr<KvPool> pool_;
  std::vector<KvSequence> sequences_;
  PassRows rows_{4};
};

TEST_F(PassRowsTest, WhatIsTakenIsAPartOfItsOwn) {
  EXPECT_EQ(Lay({3, 2}, 0), "prompt 0+5 (3 at 0, 2 at 3); ");
  EXPECT_EQ(Lay({3, 8, 2, 1}, 1),
            "prompt 0+3 (3 at 0); taken 3+8 (8 at 0); prompt 11+2 (2 at 0); "
            "generated 13+1 (1 at 0); ");
  EXPECT_EQ(
      Lay({8, 8, 2}, 1),
      "taken 0+8 (8 at 0); taken 8+8 (8 at 0); generated 16+2 (2 at 0); ");
  // What is generated never is.
  EXPECT_EQ(Lay({8}, 1), "generated 0+8 (8 at 0); ");
}

TEST_F(PassRowsTest, GeneratedRowsAreTheLast) {
  Lay({3, 2, 1}, 2);
  EXPECT_EQ(rows_.generated().size(), 2u);
  EXPECT_EQ(rows_.generated()[0].sequence, &sequences_[1]);
  Lay({3}, 0);
  EXPECT_TRUE(rows_.generated().empty());
}

}  // namespace
}  // namespace thermocline::engine
