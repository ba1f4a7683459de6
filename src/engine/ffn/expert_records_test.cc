// Mixtures of whose experts neurons stay in the file: what they compute is what
// they would with all in memory.
#include "engine/ffn/expert_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/runtime.h"
#include "engine/testing/test_mixtures.h"
#include "engine/testing/test_residents.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

using testing::Form;
using ::testing::HasSubstr;
using testing::MixtureCase;
using testing::MixtureRig;
using testing::TwoMixtures;
using RecordLogits = std::vector<float>;

constexpr size_t kAllExpertNeurons = testing::kAllExperts * 64;

SessionOptions RecordOptions(const MixtureCase& subject, int num_threads,
                             bool dense_prompts) {
  return {.num_threads = num_threads,
          .num_sequences = 2,
          .ffn = subject.mode,
          .dense_prompts = dense_prompts,
          .unit = StreamUnit::kRecords};
}

// With slots for so many neurons besides those that come and go.
uint64_t BudgetOfRecords(const TwoMixtures& mixtures, SessionOptions options,
                         size_t num_resident) {
  options.budget.ram = 0;
  const RuntimePlan plan = PlanRuntime(*mixtures.streamed, options).value();
  return plan.memory.host.total() +
         num_resident * plan.engine.stream->arena.slot_bytes;
}

// Gates first always, over gaps, or as without measuring.
std::vector<ReadPlan> WaysToRead() {
  return {{.part_bytes = 64, .first_cost = -10.0, .gap_bytes = 0},
          {.part_bytes = 64,
           .first_cost = 0.4,
           .gap_bytes = 64 << 10,
           .longest_bytes = 8 << 10},
          {}};
}

class StreamedExpertRecords : public ::testing::TestWithParam<MixtureCase> {};

TEST_P(StreamedExpertRecords, GiveTheBitsOfThoseInMemory) {
  const MixtureCase& subject = GetParam();
  const TwoMixtures mixtures(subject);
  const std::vector<ReadPlan> ways = WaysToRead();
  size_t num_runs = 0;
  for (const bool dense_prompts : {false, true}) {
    SessionOptions in_memory = RecordOptions(subject, 2, dense_prompts);
    const RecordLogits expected = MixtureRig(mixtures.mapped, in_memory).All();
    for (const int num_threads : {1, 3}) {
      for (const size_t num_resident :
           {size_t{0}, kAllExpertNeurons / 2, kAllExpertNeurons}) {
        SessionOptions options =
            RecordOptions(subject, num_threads, dense_prompts);
        options.budget.ram = BudgetOfRecords(mixtures, options, num_resident);
        options.reads = ways[num_runs++ % ways.size()];
        options.open_records = mixtures.FakeReads(
            {.seed = num_runs, .short_share = 0.2, .most_waits = 5});
        MixtureRig streamed(mixtures.streamed, options);
        EXPECT_LE(streamed.runtime().plan().memory.host.total(),
                  *options.budget.ram);
        EXPECT_TRUE(streamed.All() == expected)
            << num_threads << " threads, " << num_resident << " resident, "
            << (dense_prompts ? "dense prompts" : "");
        const StreamTotals totals = streamed.engine().stream_totals();
        EXPECT_EQ(totals.unit, StreamUnit::kRecords);
        EXPECT_GT(totals.prompt.num_missed, 0u);
        EXPECT_GE(totals.generated.num_wanted, totals.generated.num_missed);
        if (num_resident == 0) EXPECT_GT(totals.generated.num_missed, 0u);
      }
    }
  }
}

constexpr MixtureCase RecordCase(
    const char* name, FfnMode mode, size_t alignment = 64,
    model::RouterInput input = model::RouterInput::kFfnInput) {
  return {name,
          mode == FfnMode::kDense ? "silu" : "relu",
          mode,
          mode == FfnMode::kFast ? Form::kWithPredictors : Form::kPrepared,
          input,
          alignment,
          /*adds_gates=*/true};
}
constexpr MixtureCase kExactCase = RecordCase("exact", FfnMode::kExact);
constexpr MixtureCase kFastCase = RecordCase("fast", FfnMode::kFast);

INSTANTIATE_TEST_SUITE_P(
    All, StreamedExpertRecords,
    ::testing::Values(kExactCase, kFastCase,
                      RecordCase("padded", FfnMode::kFast, 4096),
                      RecordCase("silu", FfnMode::kDense),
                      RecordCase("router_before_attention", FfnMode::kExact, 64,
                                 model::RouterInput::kLayerInput),
                      RecordCase("router_before_attention_fast", FfnMode::kFast,
                                 64, model::RouterInput::kLayerInput)),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ExpertRecordsTest, EveryPolicyModeAndSeedGivesTheSameBits) {
  for (const MixtureCase& subject : {kExactCase, kFastCase}) {
    const TwoMixtures mixtures(subject);
    SessionOptions options = RecordOptions(subject, 2, false);
    const RecordLogits expected = MixtureRig(mixtures.mapped, options).All();
    options.budget.ram =
        BudgetOfRecords(mixtures, options, kAllExpertNeurons / 3);
    const std::vector<ReadPlan> ways = WaysToRead();
    uint64_t seed = 0;
    options.make_policy = testing::MakeTestPolicy;
    for (const std::string& policy : testing::PolicySpecs()) {
      for (const StorageMode mode :
           {StorageMode::kCluster, StorageMode::kMatrix,
            StorageMode::kWindow}) {
        options.policy = policy;
        options.deterministic = seed % 2 == 0;
        options.moves_per_token = 40 * (seed % 3);
        options.storage = mode;
        options.reads = ways[++seed % ways.size()];
        options.open_records =
            mixtures.FakeReads({.seed = seed, .most_waits = 9});
        EXPECT_TRUE(MixtureRig(mixtures.streamed, options).All() == expected)
            << policy << ", " << NameOf(mode) << ", seed " << seed;
      }
    }
  }
}

// Predictors are tested with records when the model opens.
uint64_t ReadsAtOpening(const TwoMixtures& mixtures, SessionOptions options) {
  options.open_records = mixtures.FakeReads({.seed = 3});
  MixtureRig rig(mixtures.streamed, options);
  return rig.engine().stream()->counts().num_reads;
}

// Decodes, if it has to twice; returns how often it failed.
size_t FailuresOf(MixtureRig& streamed, Phase phase, size_t count,
                  const RecordLogits& expected) {
  RecordLogits logits;
  size_t num_failed = 0;
  Status status = streamed.Decode(0, phase, count, logits);
  if (!status) {
    ++num_failed;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr(".gguf: layer "));
    EXPECT_THAT(status.error().message, HasSubstr(": expert "));
    EXPECT_THAT(status.error().message, HasSubstr(" of neuron"));
    status = streamed.Decode(0, phase, count, logits);
  }
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_TRUE(logits == expected);
  return num_failed;
}

// Whichever read fails, the pass ends with it, or reads again what was asked
// for ahead, and leaves nothing; tried again, it is what it would have been.
TEST(ExpertRecordsTest, AFailedReadEndsThePassAlone) {
  for (const MixtureCase& subject : {kExactCase, kFastCase}) {
    const TwoMixtures mixtures(subject);
    SessionOptions options = RecordOptions(subject, 2, true);
    MixtureRig in_memory(mixtures.mapped, options);
    RecordLogits prompt, next;
    ASSERT_TRUE(in_memory.Decode(0, Phase::kPrompt, 40, prompt));
    ASSERT_TRUE(in_memory.Decode(0, Phase::kGenerate, 1, next));
    options.budget.ram = BudgetOfRecords(mixtures, options, 20);
    options.reads = WaysToRead().front();
    const uint64_t at_opening = ReadsAtOpening(mixtures, options);
    size_t num_failed = 0;
    bool is_behind = false;  // the last read
    for (uint64_t step = 1; !is_behind; step += 1 + step / 6) {
      SCOPED_TRACE(step);
      const uint64_t fail_read = at_opening + step;
      options.open_records =
          mixtures.FakeReads({.seed = 3, .fail_read = fail_read});
      MixtureRig streamed(mixtures.streamed, options);
      num_failed += FailuresOf(streamed, Phase::kPrompt, 40, prompt);
      num_failed += FailuresOf(streamed, Phase::kGenerate, 1, next);
      is_behind = streamed.engine().stream()->counts().num_reads < fail_read;
    }
    EXPECT_GE(num_failed, 8u);
  }
}

}  // namespace
}  // namespace thermocline::engine
