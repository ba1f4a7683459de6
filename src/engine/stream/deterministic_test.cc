// Runs with --deterministic: who is in memory after each token depends on the
// tokens alone, and is what a replay of the same uses says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/runtime.h"
#include "engine/testing/test_mixtures.h"
#include "engine/testing/test_prepared_file.h"
#include "engine/testing/test_residents.h"
#include "engine/testing/test_stream_rig.h"
#include "engine/testing/test_streamed_records.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

using testing::Residents;
using testing::StreamRig;

// What streams, of two models: neurons, or of a mixture either unit.
class StreamedSubject {
 public:
  StreamedSubject(StreamUnit unit, bool is_mixture)
      : unit_(unit), is_mixture_(is_mixture) {
    if (is_mixture) {
      mixtures_ = std::make_unique<testing::TwoMixtures>(
          testing::MixtureCase{.name = "fast",
                               .activation = "relu",
                               .mode = FfnMode::kFast,
                               .form = testing::Form::kWithPredictors,
                               .adds_gates = true});
      return;
    }
    file_ = testing::PrepareTiny(folder_, testing::StreamedSpec(FfnMode::kFast),
                                 64);
    streamed_ = file_.OpenStreamed();
  }

  const std::shared_ptr<const model::Model>& mapped() const {
    return is_mixture_ ? mixtures_->mapped : file_.mapped;
  }
  const std::shared_ptr<const model::Model>& streamed() const {
    return is_mixture_ ? mixtures_->streamed : streamed_;
  }
  bool of_experts() const { return unit_ == StreamUnit::kExperts; }

  // With slots for about a third.
  SessionOptions Options(const std::string& policy) const {
    SessionOptions options = {.num_threads = 1,
                              .num_sequences = 2,
                              .ffn = FfnMode::kFast,
                              .deterministic = true,
                              .moves_per_token = of_experts() ? 3 : 29};
    if (is_mixture_) options.unit = unit_;
    options.policy = policy;
    options.make_policy = testing::MakeTestPolicy;
    return options;
  }

  // A runtime with slots for some, of whom not all are in use.
  Result<std::unique_ptr<Runtime>> Open(
      SessionOptions options, const storage::FakeOptions& reads) const {
    options.open_records = is_mixture_ ? mixtures_->FakeReads(reads)
                                       : testing::FakeReads(file_, reads);
    options.budget.ram = 0;
    const RuntimePlan plan = PlanRuntime(*streamed(), options).value();
    const size_t num_slots = of_experts() ? 15 : is_mixture_ ? 900 : 330;
    const StreamOptions& stream = *plan.engine.stream;
    options.budget.ram = plan.memory.host.total() +
                         num_slots * (of_experts() ? stream.blocks.slot_bytes
                                                   : stream.arena.slot_bytes);
    return Runtime::Create(streamed(), options);
  }

 private:
  StreamUnit unit_;
  bool is_mixture_;
  os::TestFolder folder_;
  testing::PreparedFile file_;
  std::shared_ptr<const model::Model> streamed_;
  std::unique_ptr<testing::TwoMixtures> mixtures_;
};

// Whole records alone, gates first, over gaps.
ReadPlan WayToRead(size_t number) {
  const ReadPlan ways[] = {
      {},
      {.part_bytes = 64, .first_cost = -10.0, .gap_bytes = 0},
      {.part_bytes = 64,
       .first_cost = 0.4,
       .gap_bytes = 64 << 10,
       .longest_bytes = 8 << 10,
       .most_early = 2}};
  return ways[number % std::size(ways)];
}

struct History {
  StreamRig::Logits logits;
  std::vector<Residents> residents;  // after each pass
  StreamTotals totals;

  bool operator==(const History&) const = default;
};

History HistoryOf(const StreamedSubject& subject, const SessionOptions& options,
                  const storage::FakeOptions& reads) {
  History history;
  StreamRig rig(subject.Open(options, reads).value());
  const auto note = [&] {
    history.residents.push_back(
        testing::ResidentsOf(*rig.engine().stream()->live()));
  };
  rig.Add(0, Phase::kPrompt, 20, history.logits);
  note();
  for (const size_t count : {1, 1, 2, 5, 1}) {
    rig.Add(0, Phase::kGenerate, count, history.logits);
    note();
  }
  rig.AddMixed(11, history.logits);
  note();
  rig.Add(1, Phase::kGenerate, 1, history.logits);
  note();
  history.totals = rig.engine().stream_totals();
  return history;
}

class Deterministic
    : public ::testing::TestWithParam<std::pair<StreamUnit, bool>> {
 protected:
  const StreamedSubject subject_ = {GetParam().first, GetParam().second};
};

// Whatever the drive's speed, its order and the number of threads.
TEST_P(Deterministic, HistoriesAreTheTokens) {
  size_t number = 0;
  uint64_t num_moves = 0;
  for (const std::string& policy : testing::PolicySpecs()) {
    for (const bool dense_prompts : {false, true}) {
      SessionOptions options = subject_.Options(policy);
      options.dense_prompts = dense_prompts;
      options.reads = WayToRead(number++);
      const History first =
          HistoryOf(subject_, options, {.seed = 1, .most_waits = 1});
      EXPECT_GT(first.totals.generated.num_missed, 0u);
      EXPECT_GT(first.totals.generated.num_hits, 0u);
      num_moves += first.totals.generated.num_moves;
      for (const int num_threads : {2, 3, 4}) {
        options.num_threads = num_threads;
        const History other =
            HistoryOf(subject_, options,
                      {.seed = static_cast<uint64_t>(num_threads),
                       .short_share = 0.2,
                       .most_waits = num_threads == 3 ? 60u : 5u});
        EXPECT_EQ(other.residents, first.residents)
            << policy << ", " << num_threads << " threads";
        EXPECT_EQ(other.totals, first.totals)
            << policy << ", " << num_threads << " threads";
        EXPECT_EQ(other.logits, first.logits) << policy;
      }
    }
  }
  EXPECT_GT(num_moves, 20u);
}

// Token by token, for rows alone and for two in a batch.
TEST_P(Deterministic, RunsAreWhatAReplayOfTheirUsesSays) {
  size_t number = 0;
  uint64_t num_moves = 0;
  for (const std::string& policy : testing::PolicySpecs()) {
    SCOPED_TRACE(policy);
    SessionOptions options = subject_.Options(policy);
    testing::UsesOfTokens uses(subject_.streamed()->config().layers.size(),
                               subject_.of_experts());
    options.observer = uses.observer();
    options.num_threads = 2;
    options.reads = WayToRead(number++);
    StreamRig rig(subject_.Open(options, {.seed = 9, .most_waits = 7}).value());
    const LivePolicy& live = *rig.engine().stream()->live();
    testing::ReplayBeside replay(policy, live);
    const auto tokens =
        testing::RandomTokens(32, subject_.streamed()->config().vocab_size, 5);
    StreamRig::Logits logits;
    for (size_t i = 0; i < tokens.size();) {
      const size_t count = i % 8 == 4 ? 2 : 1;
      const StreamTotals::OfPhase before =
          rig.engine().stream_totals().generated;
      ASSERT_TRUE(rig.DecodeTokens(
          0, Phase::kGenerate, std::span(tokens).subspan(i, count), logits));
      replay.ExpectSame(uses.TakeUnion(), live, before,
                        rig.engine().stream_totals().generated);
      if (HasFailure()) break;
      i += count;
    }
    num_moves += replay.num_moves();
  }
  EXPECT_GT(num_moves, 20u);
}

// A token, tried again if its pass fails; and whether it did.
std::pair<StreamRig::Logits, bool> DecodeUntilItWorks(StreamRig& rig,
                                                      text::TokenId token) {
  StreamRig::Logits logits;
  Status status = rig.DecodeTokens(0, Phase::kGenerate, {&token, 1}, logits);
  bool has_failed = false;
  for (int i = 0; i < 20 && !status; ++i) {
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    has_failed = true;
    status = rig.DecodeTokens(0, Phase::kGenerate, {&token, 1}, logits);
  }
  EXPECT_TRUE(status);
  return {std::move(logits), has_failed};
}

// A pass that fails is tried again; no record is lost, whichever read failed.
TEST_P(Deterministic, AFailedReadLosesNothing) {
  StreamRig in_memory(
      subject_.mapped(),
      {.num_threads = 2, .num_sequences = 2, .ffn = FfnMode::kFast});
  const auto tokens =
      testing::RandomTokens(12, subject_.streamed()->config().vocab_size, 8);
  std::vector<StreamRig::Logits> expected;
  for (const text::TokenId token : tokens) {
    expected.push_back(DecodeUntilItWorks(in_memory, token).first);
  }
  size_t num_failed = 0;
  uint64_t seed = 0;
  for (const std::string& policy : testing::PolicySpecs()) {
    for (const bool deterministic : {false, true}) {
      SessionOptions options = subject_.Options(policy);
      options.deterministic = deterministic;
      options.num_threads = 2;
      auto made = subject_.Open(
          options, {.seed = ++seed,
                    .fail_share = subject_.of_experts() ? 0.05 : 0.004,
                    .most_waits = 20});
      if (!made) continue;  // its checks read too
      StreamRig rig(std::move(*made));
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto [logits, has_failed] = DecodeUntilItWorks(rig, tokens[i]);
        EXPECT_EQ(logits, expected[i]) << policy << ", token " << i;
        num_failed += has_failed ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_failed, 3u);
}

INSTANTIATE_TEST_SUITE_P(
    All, Deterministic,
    ::testing::Values(std::pair(StreamUnit::kRecords, false),
                      std::pair(StreamUnit::kRecords, true),
                      std::pair(StreamUnit::kExperts, true)),
    [](const auto& info) {
      return std::string(info.param.second ? "mixture_" : "") +
             std::string(NameOf(info.param.first));
    });

}  // namespace
}  // namespace thermocline::engine
