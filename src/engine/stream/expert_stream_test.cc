// Mixtures whose experts stay in the file, as a whole: what they compute is
// what they would with all in memory.
#include "engine/stream/expert_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/ffn/dense_ffn.h"
#include "engine/ffn/expert_ffn.h"
#include "engine/runtime.h"
#include "engine/testing/test_compute_fixture.h"
#include "engine/testing/test_mixtures.h"
#include "engine/testing/test_residents.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using ExpertLogits = std::vector<float>;

using testing::kAllExperts;

using testing::Form;
using testing::MixtureRig;
using ExpertCase = testing::MixtureCase;

// With slots of experts.
struct StreamedMixtures : testing::TwoMixtures {
  using testing::TwoMixtures::TwoMixtures;
  // With slots for so many experts besides those that come and go.
  uint64_t BudgetFor(SessionOptions options, size_t num_resident) const {
    options.budget.ram = 0;
    const RuntimePlan plan = PlanRuntime(*streamed, options).value();
    return plan.memory.host.total() +
           num_resident * plan.engine.stream->blocks.slot_bytes;
  }
};

SessionOptions ExpertOptions(FfnMode mode, int num_threads) {
  return {.num_threads = num_threads, .num_sequences = 2, .ffn = mode};
}

class StreamedExperts : public ::testing::TestWithParam<ExpertCase> {};

TEST_P(StreamedExperts, GiveTheBitsOfThoseInMemory) {
  const ExpertCase& subject = GetParam();
  const StreamedMixtures mixtures(subject);
  const ExpertLogits expected =
      MixtureRig(mixtures.mapped, ExpertOptions(subject.mode, 2)).All();
  EXPECT_FALSE(
      mixtures.streamed->weights().layers[0].ffn.experts[0].up.in_memory());
  for (const int num_threads : {1, 3}) {
    for (const size_t num_resident :
         {size_t{0}, kAllExperts / 2, kAllExperts - 1}) {
      SessionOptions options = ExpertOptions(subject.mode, num_threads);
      options.budget.ram = mixtures.BudgetFor(options, num_resident);
      options.open_records =
          mixtures.FakeReads({.seed = num_resident + 7, .short_share = 0.2});
      MixtureRig streamed(mixtures.streamed, options);
      EXPECT_LE(streamed.runtime().plan().memory.host.total(),
                *options.budget.ram);
      EXPECT_TRUE(streamed.All() == expected)
          << num_threads << " threads, " << num_resident << " resident";
      const StreamTotals totals = streamed.engine().stream_totals();
      EXPECT_EQ(totals.unit, StreamUnit::kExperts);
      EXPECT_GT(totals.prompt.num_missed, 0u);
      EXPECT_GE(streamed.engine().stream()->counts().num_bytes,
                kAllExperts * 3 * 64 * 96 * sizeof(float));
      // Of four passes, layers behind the first: one row's 2 experts, or more.
      EXPECT_GE(totals.generated.num_foreseeable, 4u * 2 * 2);
      EXPECT_LE(totals.generated.num_foreseen,
                totals.generated.num_foreseeable);
      EXPECT_GT(totals.generated.num_foreseen,
                totals.generated.num_foreseeable / 4);
    }
  }
}

constexpr ExpertCase kSiluCase = {"silu", "silu", FfnMode::kDense,
                                  Form::kStacks};
constexpr ExpertCase kReluCase = {"relu_prepared", "relu", FfnMode::kExact,
                                  Form::kPrepared};

INSTANTIATE_TEST_SUITE_P(
    All, StreamedExperts,
    ::testing::Values(
        kSiluCase, kReluCase,
        ExpertCase{"old_file", "silu", FfnMode::kDense, Form::kOneByOne},
        ExpertCase{"relu", "relu", FfnMode::kExact, Form::kStacks},
        ExpertCase{"silu_prepared", "silu", FfnMode::kDense, Form::kPrepared},
        ExpertCase{"predictors", "relu", FfnMode::kFast, Form::kWithPredictors},
        ExpertCase{"router_before_attention", "silu", FfnMode::kDense,
                   Form::kStacks, model::RouterInput::kLayerInput}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ExpertStreamTest, EveryPolicyAndSeedGivesTheSameBits) {
  const StreamedMixtures mixtures(kSiluCase);
  SessionOptions options = ExpertOptions(FfnMode::kDense, 2);
  const ExpertLogits expected = MixtureRig(mixtures.mapped, options).All();
  options.budget.ram = mixtures.BudgetFor(options, kAllExperts / 3);
  options.make_policy = testing::MakeTestPolicy;
  for (const std::string& policy : testing::PolicySpecs()) {
    for (const uint64_t seed : {1, 2, 3}) {
      options.policy = policy;
      options.deterministic = seed == 2;
      options.moves_per_token = 3 * (seed - 1);
      options.open_records =
          mixtures.FakeReads({.seed = seed, .most_waits = 1 + 8 * seed});
      EXPECT_TRUE(MixtureRig(mixtures.streamed, options).All() == expected)
          << policy << ", seed " << seed;
    }
  }
}

// From the file itself, by whatever reader the system has.
TEST(ExpertStreamTest, ReadsTheFile) {
  const StreamedMixtures mixtures(kReluCase);
  SessionOptions options = ExpertOptions(FfnMode::kExact, 2);
  const ExpertLogits expected = MixtureRig(mixtures.mapped, options).All();
  options.budget.ram = mixtures.BudgetFor(options, kAllExperts / 3);
  MixtureRig streamed(mixtures.streamed, options);
  EXPECT_TRUE(streamed.All() == expected);
  testing::ExpectReadToSlots(streamed.engine());
}

// Whichever read fails, the pass ends with it and leaves nothing, unless it was
// a guess's; tried again, it is what it would have been.
TEST(ExpertStreamTest, AFailedReadEndsThePassAlone) {
  for (const ExpertCase& subject : {kSiluCase, kReluCase}) {
    const StreamedMixtures mixtures(subject);
    SessionOptions options = ExpertOptions(subject.mode, 2);
    MixtureRig in_memory(mixtures.mapped, options);
    ExpertLogits prompt, next;
    ASSERT_TRUE(in_memory.Decode(0, Phase::kPrompt, 40, prompt));
    ASSERT_TRUE(in_memory.Decode(0, Phase::kGenerate, 1, next));
    options.budget.ram = mixtures.BudgetFor(options, 1);
    size_t num_failed = 0;
    bool is_behind = false;  // the last read
    for (uint64_t fail_read = 1; !is_behind; ++fail_read) {
      options.open_records =
          mixtures.FakeReads({.seed = 3, .fail_read = fail_read});
      MixtureRig streamed(mixtures.streamed, options);
      ExpertLogits logits;
      const auto decode = [&](Phase phase, size_t count) {
        Status status = streamed.Decode(0, phase, count, logits);
        if (!status) {
          ++num_failed;
          EXPECT_EQ(status.error().code, ErrorCode::kIo);
          EXPECT_THAT(status.error().message, HasSubstr(".gguf: layer "));
          EXPECT_THAT(status.error().message, HasSubstr(": expert "));
          status = streamed.Decode(0, phase, count, logits);
        }
        EXPECT_TRUE(status) << status.error().message;
      };
      decode(Phase::kPrompt, 40);
      EXPECT_TRUE(logits == prompt) << fail_read;
      decode(Phase::kGenerate, 1);
      EXPECT_TRUE(logits == next) << fail_read;
      is_behind = streamed.engine().stream()->counts().num_reads < fail_read;
    }
    EXPECT_GE(num_failed, kAllExperts);
  }
}

std::unique_ptr<ExpertStream> MakeLeastStream(
    const StreamedMixtures& mixtures) {
  const LeftWeights left =
      LeftExperts(mixtures.mapped->file(), mixtures.mapped->config());
  return ExpertStream::Create(
             *mixtures.streamed,
             {.unit = StreamUnit::kExperts,
              .blocks = PlanExpertSlots(mixtures.mapped->config(),
                                        left.block_bytes, 0),
              .open = mixtures.FakeReads({})})
      .value();
}

TEST(ExpertStreamTest, ARouterOfTheLayersInputReadsBeforeAttention) {
  for (const auto router_input :
       {model::RouterInput::kLayerInput, model::RouterInput::kFfnInput}) {
    ExpertCase subject = kSiluCase;
    subject.router_input = router_input;
    const StreamedMixtures mixtures(subject);
    const auto stream = MakeLeastStream(mixtures);
    const model::Model& model = *mixtures.streamed;
    testing::ComputeFixture fixture(
        model.config(), {.batch = 1, .context = 1, .num_threads = 1});
    const auto ffn = MakeExpertFfn(
        {.config = &model.config().layers[0].ffn,
         .weights = &model.weights().layers[0].ffn,
         .compute = &fixture.compute(),
         .scratch = &fixture.ffn_scratch(),
         .make_one =
             [&](size_t /*expert_idx*/, const model::FfnWeights* expert) {
               return MakeDenseFfn(&model.config().layers[0].ffn, expert,
                                   &fixture.compute(), &fixture.ffn_scratch());
             },
         .stream = stream.get()});
    const FfnCall call = fixture.CallOf(1, Phase::kGenerate);
    std::ranges::fill(call.stream.span(0), 1.0f);
    ASSERT_TRUE(ffn->Select(call, SelectAt::kLayerInput));
    const bool is_early = router_input == model::RouterInput::kLayerInput;
    EXPECT_EQ(stream->has_begun(), is_early);
    EXPECT_EQ(stream->counts().num_reads > 0, is_early);
    stream->EndPass();
  }
}

TEST(ExpertStreamTest, AFileOfAnotherSizeIsRefused) {
  const StreamedMixtures mixtures(kSiluCase);
  SessionOptions options = ExpertOptions(FfnMode::kDense, 1);
  options.budget.ram = mixtures.BudgetFor(options, 1);
  options.open_records = [&](const std::vector<std::string>&) {
    const auto bytes = mixtures.bytes();
    return Result<std::unique_ptr<storage::BlockReader>>(
        storage::MakeFakeReader({bytes.first(bytes.size() - 1)}, {}));
  };
  const auto refused = Runtime::Create(mixtures.streamed, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_THAT(refused.error().message, HasSubstr("when it was opened"));
}

// What was guessed right, wrong, and for nothing.
TEST(ExpertStreamTest, GuessesAreCounted) {
  const StreamedMixtures mixtures(kSiluCase);
  const auto stream = MakeLeastStream(mixtures);
  const size_t block_bytes =
      LeftExperts(mixtures.mapped->file(), mixtures.mapped->config())
          .block_bytes;
  const auto run = [&](size_t layer_idx, std::vector<uint32_t> experts,
                       std::vector<uint32_t> guess) {
    stream->Begin(layer_idx, experts, Phase::kGenerate, /*next_too=*/false);
    if (!guess.empty()) stream->Guess(layer_idx + 1, guess);
    for (size_t i = 0; i < experts.size(); ++i) {
      stream->GiveBack(stream->TakeAny().value());
    }
    stream->End();
  };
  run(0, {1, 2}, {3, 4});
  const uint64_t num_bytes = stream->counts().num_bytes;
  run(1, {3, 5}, {7});
  EXPECT_EQ(stream->counts().num_foreseeable, 2u);
  EXPECT_EQ(stream->counts().num_foreseen, 1u);
  EXPECT_EQ(stream->counts().num_vain, 1u);
  EXPECT_LE(stream->counts().num_bytes - num_bytes, 2 * block_bytes);
  run(2, {0, 7}, {});
  stream->EndPass();
  EXPECT_EQ(stream->counts().num_foreseeable, 4u);
  EXPECT_EQ(stream->counts().num_foreseen, 2u);
  EXPECT_EQ(stream->counts().num_vain, 1u);
  EXPECT_EQ(stream->counts().num_wanted, 6u);
}

TEST(ExpertStreamTest, TooSmallABudgetNamesWhatIsNeeded) {
  const StreamedMixtures mixtures(kSiluCase);
  SessionOptions options = ExpertOptions(FfnMode::kDense, 1);
  const uint64_t least = mixtures.BudgetFor(options, 0);
  options.budget.ram = least - 1;
  const auto refused = Runtime::Create(mixtures.streamed, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("at least"));
  EXPECT_THAT(refused.error().message, HasSubstr("slots"));
  options.budget.ram = least;
  options.open_records = mixtures.FakeReads({});
  const auto runtime = Runtime::Create(mixtures.streamed, options);
  ASSERT_TRUE(runtime) << runtime.error().message;
  EXPECT_THAT((*runtime)->engine().stream()->Describe(),
              HasSubstr("experts 0 % in "));
}

}  // namespace
}  // namespace thermocline::engine
