#include "cli/simulate_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "os/test_folder.h"

namespace thermocline::cli {
namespace {

using neuron::TraceLessons;
using residency::Step;
using Set = std::vector<uint32_t>;
using Steps = std::vector<std::pair<Step, Set>>;

struct StepToken {
  neuron::TraceToken token;
  Set fired, candidates;
};

// Of one layer of 100 neurons, which all are candidates for.
class TokenStepsTest : public ::testing::Test {
 protected:
  void Write(TraceLessons lessons, const std::vector<StepToken>& tokens) {
    const neuron::TraceHeader header = {
        .num_layers = 1,
        .num_neurons = 100,
        .has_candidates = true,
        .run = neuron::TraceRun{.lessons = lessons, .slots = {5}}};
    auto writer = neuron::TraceWriter::Create(path_, header).value();
    for (const StepToken& token : tokens) {
      writer->AddTokens({&token.token, 1});
      writer->AddSet(0, token.fired);
      writer->AddCandidates(0, token.candidates);
    }
    ASSERT_TRUE(writer->Flush());
    ASSERT_TRUE(writer->Finish());
  }

  Steps Read(bool as_run) {
    auto reader = neuron::TraceReader::Open(path_).value();
    const auto units = DivideTrace(reader, {.by_candidates = true}, {}).value();
    TokenSteps steps(&reader, &units.front(), as_run);
    Steps all;
    std::vector<Set> sets;
    for (;;) {
      const auto step = steps.Next(sets);
      EXPECT_TRUE(step) << step.error().message;
      if (!step || !*step) break;
      all.emplace_back(**step, sets.front());
    }
    EXPECT_EQ(steps.num_read(), reader.totals().num_tokens);
    return all;
  }

  os::TestFolder folder_;
  std::string path_ = folder_ / "m.trace";
};

// A prompt in two passes, two tokens, and a prompt that nothing follows.
const std::vector<StepToken> kStepTokens = {
    {{.begins_sequence = true}, {1}, {1, 2}},
    {{.is_together = true}, {2}, {2, 3}},
    {{}, {4}, {4, 5}},
    {{.is_generated = true}, {6}, {6, 7}},
    {{.is_generated = true}, {}, {8}},
    {{.begins_sequence = true}, {9}, {9}}};

TEST_F(TokenStepsTest, AreWhatTheyWereToTheRun) {
  const struct {
    TraceLessons lessons;
    Steps want;
  } rows[] = {
      {TraceLessons::kNone, {{Step::kPass, {6, 7}}, {Step::kPass, {8}}}},
      {TraceLessons::kRows,
       {{Step::kLesson, {1}},
        {Step::kLesson, {2}},
        {Step::kLesson, {4}},
        {Step::kPass, {6, 7}},
        {Step::kPass, {8}},
        {Step::kLesson, {9}}}},
      {TraceLessons::kPasses,
       {{Step::kUncounted, {1, 2, 3}},
        {Step::kUncounted, {4, 5}},
        {Step::kPass, {6, 7}},
        {Step::kPass, {8}},
        {Step::kUncounted, {9}}}}};
  for (const auto& row : rows) {
    Write(row.lessons, kStepTokens);
    EXPECT_EQ(Read(true), row.want) << static_cast<int>(row.lessons);
    const Steps each = Read(false);
    ASSERT_EQ(each.size(), kStepTokens.size());
    for (size_t i = 0; i < each.size(); ++i) {
      EXPECT_EQ(each[i], std::pair(Step::kPass, kStepTokens[i].candidates));
    }
  }
}

// The last 64 of each pass.
TEST_F(TokenStepsTest, RowsThatAreTooEarlyTeachNothing) {
  std::vector<StepToken> tokens;
  for (uint32_t i = 0; i < 100; ++i) {
    tokens.push_back(
        {{.begins_sequence = i == 0, .is_together = i != 0 && i != 70},
         {i},
         {}});
  }
  Write(TraceLessons::kRows, tokens);
  const Steps steps = Read(true);
  ASSERT_EQ(steps.size(), 64u + 30u);
  EXPECT_EQ(steps.front(), std::pair(Step::kLesson, Set{6}));
  EXPECT_EQ(steps[64], std::pair(Step::kLesson, Set{70}));
}

TEST_F(TokenStepsTest, AnErrorOfTheTraceIsTheirs) {
  Write(TraceLessons::kRows, kStepTokens);
  std::string bytes = os::ReadFile(path_).value();
  bytes[bytes.size() - 38] ^= 1;  // in the block's checksum
  auto reader =
      neuron::TraceReader::Parse(std::as_bytes(std::span(bytes)), "a.trace")
          .value();
  const auto units = DivideTrace(reader, {}, {}).value();
  TokenSteps steps(&reader, &units.front(), true);
  std::vector<Set> sets;
  const auto step = steps.Next(sets);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace thermocline::cli
