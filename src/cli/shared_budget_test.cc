#include "cli/shared_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/open_model.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "engine/session.h"
#include "model/model.h"

namespace thermocline::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

TEST(ShareOutTest, EachGetsItsLeastAndAPartOfTheRest) {
  const std::vector<BudgetRange> ranges = {{.whole = 100, .least = 40},
                                           {.whole = 50, .least = 30},
                                           {.whole = 10, .least = 10}};
  struct Case {
    uint64_t budget, beside;
    std::vector<uint64_t> shares;
  };
  for (const auto& [budget, beside, shares] :
       std::vector<Case>{{1000, 0, {1000, 1000, 1000}},
                         {160, 0, {160, 160, 160}},
                         {165, 5, {165, 165, 165}},
                         // 60 and 20 are lacking: of 79 it is 59.25 and 19.75.
                         {159, 0, {99, 49, 10}},
                         {120, 0, {70, 40, 10}},
                         {125, 5, {70, 40, 10}},
                         {80, 0, {40, 30, 10}},
                         // Each may do, but not all.
                         {79, 0, {40, 30, 10}},
                         {84, 5, {40, 30, 10}},
                         {35, 0, {35, 30, 10}}}) {
    EXPECT_EQ(ShareOut(budget, beside, ranges), shares) << budget;
  }
}

class SharedBudgetTest : public ::testing::Test {
 protected:
  const std::shared_ptr<const model::Model> model_ =
      model::Model::Open(kStories).value();
  const model::Config& config_ = model_->config();
  const gguf::File& file_ = model_->file();

  // Two of unlike needs.
  ModelSessions Two(uint64_t ram, uint64_t beside = 0) const {
    engine::SessionOptions small = {.context = 64, .num_threads = 1};
    small.budget.ram = ram;
    engine::SessionOptions large = small;
    large.num_sequences = 8;
    return {.sessions = {small, large}, .beside_bytes = beside};
  }
  // Opened as they need it, with sessions that have their parts.
  Result<uint64_t> Run(const ModelSessions& of_model) const {
    ProgressLine progress;
    SessionFlags flags;
    flags.ram = of_model.sessions.front().budget.ram;
    TC_ASSIGN_OR_RETURN(
        const auto model,
        OpenModel({.path = kStories}, progress, &flags,
                  [&](const auto&, const auto&) { return of_model; }));
    std::vector<engine::SessionOptions> sessions = of_model.sessions;
    const auto weights = engine::WeightMemory::Of(*model);
    DivideBudget(model->config(), weights, of_model.beside_bytes, sessions,
                 true);
    uint64_t sum = of_model.beside_bytes + weights.num_bytes;
    for (const engine::SessionOptions& options : sessions) {
      TC_ASSIGN_OR_RETURN(const auto session, CreateSession(model, options));
      sum += session->memory().host.total() - weights.num_bytes;
    }
    return sum;
  }
};

// From the least to all of it the budget holds both, and what runs with less
// runs with more.
TEST_F(SharedBudgetTest, HoldsAllOfThem) {
  constexpr uint64_t kBeside = 5000;
  const BudgetRange range = RangeOf(file_, config_, Two(0, kBeside)).value();
  ASSERT_LT(range.least, range.whole);
  for (int i = 0; i <= 8; ++i) {
    const uint64_t ram = range.least + (range.whole - range.least) *
                                           static_cast<uint64_t>(i) / 8;
    const auto sum = Run(Two(ram, kBeside));
    ASSERT_TRUE(sum) << sum.error().message << " of " << ram;
    EXPECT_LE(*sum, ram);
    const auto names = LeaveForAll(file_, config_, Two(ram, kBeside)).value();
    EXPECT_EQ(names.empty(), i == 8) << ram;
  }
  for (const uint64_t less : {1, 1000, 20'000}) {
    const auto sum = Run(Two(range.least - less, kBeside));
    ASSERT_TRUE(sum) << sum.error().message;
    EXPECT_EQ(*sum, range.least);
  }
}

// One alone, whose logits count: it has what they leave.
TEST_F(SharedBudgetTest, WhatComesBesideCounts) {
  ModelSessions one = Two(0, 100'000);
  one.sessions.pop_back();
  const BudgetRange range = RangeOf(file_, config_, one).value();
  for (const uint64_t ram : {range.least, range.whole - 1}) {
    one.sessions.front().budget.ram = ram;
    const auto sum = Run(one);
    ASSERT_TRUE(sum) << sum.error().message;
    EXPECT_LE(*sum, ram);
  }
}

TEST_F(SharedBudgetTest, WithoutABudgetAllIsThere) {
  ModelSessions two = Two(0);
  for (engine::SessionOptions& session : two.sessions) {
    session.budget.holds_ram = false;
  }
  EXPECT_THAT(LeaveForAll(file_, config_, two).value(), IsEmpty());
  const BudgetRange range = RangeOf(file_, config_, two).value();
  EXPECT_EQ(range.least, range.whole);
  for (engine::SessionOptions& session : two.sessions) session.budget = {};
  EXPECT_THAT(LeaveForAll(file_, config_, two).value(), IsEmpty());
}

// Two of one file: a warning where either would fit alone.
TEST_F(SharedBudgetTest, SaysWhereTheBudgetHoldsEachAlone) {
  ModelSessions one = Two(0, 0);
  one.sessions.pop_back();
  one.sessions.front().context = 16;
  const uint64_t least = RangeOf(file_, config_, one)->least;
  struct Case {
    uint64_t ram;
    const char* storage;
    bool warns;
  };
  for (const auto& [ram, storage, warns] :
       {Case{least + (64 << 10), "cluster", true},
        Case{1 << 10, "cluster", false}, Case{1 << 10, "mmap", false}}) {
    SCOPED_TRACE(storage);
    const MainResult kl = RunMain(
        {"eval",      "kl",     "-m",    kStories,
         "--base",    kStories, "-f",    kValidText,
         "-c",        "16",     "-b",    "16",
         "--chunks",  "1",      "-t",    "1",
         "--storage", storage,  "--ram", std::to_string(ram >> 10) + "KiB"});
    EXPECT_EQ(kl.err.find("holds each of 2 sessions") != std::string::npos,
              warns)
        << kl.err;
  }
}

// What cannot run is nobody else's fault: the others have room as if alone.
TEST_F(SharedBudgetTest, OneThatCannotRun) {
  ModelSessions two = Two(0);
  two.sessions.front().ffn = engine::FfnMode::kFast;  // without predictors
  EXPECT_FALSE(RangeOf(file_, config_, two));
  EXPECT_THAT(LeaveForAll(file_, config_, two).value(), Not(IsEmpty()));
  for (engine::SessionOptions& session : two.sessions) {
    session.budget.ram = uint64_t{1} << 30;
  }
  EXPECT_THAT(LeaveForAll(file_, config_, two).value(), IsEmpty());
}

}  // namespace
}  // namespace thermocline::cli
