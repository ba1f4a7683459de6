#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/test_compute.h"
#include "engine/runtime.h"
#include "engine/session.h"
#include "engine/testing/test_predictor_parts.h"
#include "engine/testing/tiny_model.h"

namespace thermocline::engine {
namespace {

using testing::MakeTinyModel;
using testing::RandomTokens;
using testing::TinySpec;
using testing::WideSpec;

using Tokens = std::vector<text::TokenId>;
using Floats = std::vector<float>;
using ModelPtr = std::shared_ptr<const model::Model>;

constexpr size_t kStoryVocab = 50;
constexpr int64_t kStoryContext = 300;

SessionOptions OptionsFor(int64_t num_sequences, SessionOptions options = {}) {
  options.context = kStoryContext;
  options.num_sequences = num_sequences;
  return options;
}

std::unique_ptr<Runtime> OpenRuntime(const ModelPtr& model,
                                     const SessionOptions& options) {
  auto runtime = Runtime::Create(model, options);
  EXPECT_TRUE(runtime.has_value()) << runtime.error().message;
  return runtime.has_value() ? *std::move(runtime) : nullptr;
}

// What is computed of a sequence: a prompt, then tokens one after the other.
struct Story {
  Tokens prompt;
  Tokens generated;
};

std::vector<Story> Stories() {
  return {{RandomTokens(3, kStoryVocab, 1), RandomTokens(9, kStoryVocab, 2)},
          {RandomTokens(270, kStoryVocab, 3), RandomTokens(5, kStoryVocab, 4)},
          {RandomTokens(1, kStoryVocab, 5), RandomTokens(12, kStoryVocab, 6)},
          {RandomTokens(64, kStoryVocab, 7), RandomTokens(1, kStoryVocab, 8)}};
}

// The logits of every position.
Floats Alone(const ModelPtr& model, const Story& story,
             SessionOptions options) {
  options.context = kStoryContext;
  const auto session = Session::Create(model, options);
  EXPECT_TRUE(session.has_value()) << session.error().message;
  Floats logits(story.prompt.size() * kStoryVocab);
  EXPECT_TRUE((*session)->Prompt(story.prompt, LogitsOf::kAll, logits));
  for (const text::TokenId token : story.generated) {
    Floats row(kStoryVocab);
    EXPECT_TRUE((*session)->Generate({&token, 1}, LogitsOf::kLast, row));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

// All stories in one engine: each pass takes what is next of every sequence,
// prompts in pieces of at most `piece`, what is generated in turns of one and
// two tokens.
class Mix {
 public:
  Mix(const ModelPtr& model, const SessionOptions& options, size_t piece)
      : runtime_(OpenRuntime(model, options)),
        stories_(Stories()),
        piece_(piece) {
    for (size_t i = 0; i < stories_.size(); ++i) {
      sequences_.push_back(runtime_->NewSequence());
    }
    done_.resize(stories_.size());
    logits_.resize(stories_.size());
  }

  std::vector<Floats> Run() {
    for (size_t pass = 0; Pass(pass); ++pass) {
    }
    return logits_;
  }

 private:
  std::span<const text::TokenId> NextOf(size_t i, size_t pass, Phase phase) {
    const Story& story = stories_[i];
    if (done_[i] < story.prompt.size()) {
      if (phase != Phase::kPrompt) return {};
      return std::span(story.prompt)
          .subspan(done_[i], std::min(piece_, story.prompt.size() - done_[i]));
    }
    if (phase != Phase::kGenerate) return {};
    const size_t begin = done_[i] - story.prompt.size();
    return std::span(story.generated)
        .subspan(begin, std::min<size_t>(1 + pass % 2,
                                         story.generated.size() - begin));
  }

  bool Pass(size_t pass) {
    std::vector<BatchRun> runs;
    std::vector<size_t> whose;
    for (const Phase phase : kPhases) {
      for (size_t i = 0; i < stories_.size(); ++i) {
        const auto tokens = NextOf(i, pass, phase);
        if (tokens.empty()) continue;
        runs.push_back({.sequence = &sequences_[i],
                        .tokens = tokens,
                        .phase = phase,
                        .logits = LogitsOf::kAll});
        whose.push_back(i);
      }
    }
    if (runs.empty()) return false;
    const Batch batch = {runs};
    Floats logits(batch.num_logit_rows() * kStoryVocab);
    const Status status = runtime_->engine().Run(batch, logits);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    auto next = logits.begin();
    for (size_t r = 0; r < runs.size(); ++r) {
      const auto end =
          next + static_cast<ptrdiff_t>(runs[r].tokens.size() * kStoryVocab);
      logits_[whose[r]].insert(logits_[whose[r]].end(), next, end);
      done_[whose[r]] += runs[r].tokens.size();
      next = end;
    }
    return status.has_value();
  }

  std::unique_ptr<Runtime> runtime_;
  std::vector<Story> stories_;
  size_t piece_;
  std::vector<KvSequence> sequences_;
  std::vector<size_t> done_;
  std::vector<Floats> logits_;
};

void ExpectEachAsAlone(const ModelPtr& model, const SessionOptions& options) {
  ASSERT_NE(model, nullptr);
  std::vector<Floats> alone;
  for (const Story& story : Stories()) {
    alone.push_back(Alone(model, story, options));
  }
  SessionOptions mixed = OptionsFor(4, options);
  for (const auto& [piece, num_threads] :
       {std::pair(size_t{300}, 1), std::pair(size_t{40}, 3)}) {
    mixed.num_threads = num_threads;
    EXPECT_EQ(Mix(model, mixed, piece).Run(), alone) << piece;
  }
}

// The same bits whatever shares the passes, in every mode.
TEST(Engine, EachSequenceIsAsAlone) {
  TinySpec quantised = WideSpec(DType::kQ4_0);
  quantised.value_dtype = DType::kF16;
  for (const kernels::Isa isa : compute::testing::IsasOfModels()) {
    SCOPED_TRACE(std::string(kernels::NameOf(isa)));
    ExpectEachAsAlone(MakeTinyModel(quantised), {.isa = isa});
  }
  TinySpec groups = WideSpec(DType::kF32);
  ExpectEachAsAlone(MakeTinyModel(groups),
                    {.k_type = DType::kQ8_0, .v_type = DType::kQ8_0});
}

TEST(Engine, EachSequenceIsAsAloneInSparseModes) {
  TinySpec relu;
  relu.activation = "relu";
  for (const char* architecture : {"llama", "mixtral"}) {
    TinySpec spec = relu;
    testing::UseArchitecture(architecture, spec);
    spec.activation = "relu";
    const auto bundled = testing::OpenTinyModel(spec, {.bundle_at_load = true});
    ASSERT_TRUE(bundled.has_value()) << bundled.error().message;
    for (const bool dense_prompts : {false, true}) {
      ExpectEachAsAlone(
          *bundled, {.ffn = FfnMode::kExact, .dense_prompts = dense_prompts});
      ExpectEachAsAlone(*bundled, {.ffn = FfnMode::kFast,
                                   .predictor = PredictorChoice::kTrainingFree,
                                   .dense_prompts = dense_prompts});
    }
  }
}

// Predictors of the next layer keep the lists of all rows apart.
TEST(Engine, EachSequenceIsAsAloneWithLookahead) {
  TinySpec spec;
  spec.architecture = "bamboo";
  spec.num_layers = 3;
  spec.low_ranks = {8, 8, 8};
  spec.both_downs = true;
  for (const bool dense_prompts : {false, true}) {
    ExpectEachAsAlone(MakeTinyModel(spec),
                      {.ffn = FfnMode::kFast, .dense_prompts = dense_prompts});
  }
}

// Pages, scratch and sets of layers that differ.
TEST(Engine, EachSequenceIsAsAloneWhereLayersDiffer) {
  TinySpec quantised = WideSpec(DType::kQ4_0);
  testing::UseUnlikeLayers(32, quantised);
  const auto model = MakeTinyModel(quantised);
  ExpectEachAsAlone(model, {});
  ExpectEachAsAlone(model, {.k_type = DType::kQ8_0, .v_type = DType::kQ8_0});
  TinySpec relu;
  testing::UseUnlikeLayers(0, relu);
  relu.activation = "relu";
  const auto bundled = testing::OpenTinyModel(relu, {.bundle_at_load = true});
  ASSERT_TRUE(bundled.has_value()) << bundled.error().message;
  ExpectEachAsAlone(*bundled, {.ffn = FfnMode::kExact});
  ExpectEachAsAlone(*bundled, {.ffn = FfnMode::kFast,
                               .predictor = PredictorChoice::kTrainingFree});
  TinySpec ahead;
  ahead.architecture = "bamboo";
  testing::UseUnlikeLayers(0, ahead);
  ahead.low_ranks = {8, 40, 16, 8};
  ahead.both_downs = true;
  ExpectEachAsAlone(MakeTinyModel(ahead), {.ffn = FfnMode::kFast});
}

TEST(Engine, AForkGoesOnAsItsTrunk) {
  const auto model = MakeTinyModel(WideSpec(DType::kQ8_0));
  ASSERT_NE(model, nullptr);
  const auto runtime = OpenRuntime(model, OptionsFor(3));
  const Tokens prompt = RandomTokens(100, kStoryVocab);
  const Tokens others = RandomTokens(30, kStoryVocab, 9);
  KvSequence trunk = runtime->NewSequence();
  const auto run = [&](KvSequence& sequence, std::span<const text::TokenId> ids,
                       Phase phase) {
    Floats logits(kStoryVocab);
    const BatchRun one = {&sequence, ids, phase, LogitsOf::kLast};
    EXPECT_TRUE(runtime->engine().Run({{&one, 1}}, logits).has_value());
    return logits;
  };
  run(trunk, prompt, Phase::kPrompt);
  KvSequence fork = trunk.Fork(100);
  KvSequence shorter = trunk.Fork(70);
  const auto expected =
      run(trunk, std::span(others).first(1), Phase::kGenerate);
  run(shorter, others, Phase::kPrompt);
  EXPECT_EQ(run(fork, std::span(others).first(1), Phase::kGenerate), expected);
  // A rollback, and again.
  trunk.Truncate(70);
  run(trunk, std::span(prompt).subspan(70), Phase::kPrompt);
  EXPECT_EQ(run(trunk, std::span(others).first(1), Phase::kGenerate), expected);
}

class EngineErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = MakeTinyModel(TinySpec());
    ASSERT_NE(model_, nullptr);
    SessionOptions options = OptionsFor(1);
    options.batch = 130;
    runtime_ = OpenRuntime(model_, options);
    ASSERT_NE(runtime_, nullptr);
  }
  Status Run(const std::vector<BatchRun>& runs, const PassHooks& hooks = {}) {
    const Batch batch = {runs};
    logits_.assign(batch.num_logit_rows() * kStoryVocab, 0.0f);
    return runtime_->engine().Run(batch, logits_, hooks);
  }

  ModelPtr model_;
  std::unique_ptr<Runtime> runtime_;
  Floats logits_;
};

TEST_F(EngineErrors, NoSequenceGrowsWhenOneHasNoRoom) {
  KvSequence first = runtime_->NewSequence();
  KvSequence second = runtime_->NewSequence();
  const Tokens many = RandomTokens(65, kStoryVocab);
  const size_t num_free = runtime_->kv().num_free();
  ASSERT_EQ(num_free, 5u);  // 300 positions
  KvSequence holder = runtime_->NewSequence();
  ASSERT_TRUE(holder.Reserve(150).has_value());  // leaves two pages
  const Status status = Run({{.sequence = &first, .tokens = many},
                             {.sequence = &second, .tokens = many}});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(first.length(), 0);
  EXPECT_EQ(second.length(), 0);
  EXPECT_EQ(runtime_->kv().num_free(), 2u);
}

TEST_F(EngineErrors, NameWhatIsWrong) {
  KvSequence sequence = runtime_->NewSequence();
  const Tokens bad = {1, 50};
  const Tokens long_one = RandomTokens(131, kStoryVocab);
  const struct {
    std::span<const text::TokenId> tokens;
    const char* message;
  } cases[] = {{bad, "token 50 (number 1)"},
               {{}, "no tokens"},
               {long_one, "131 tokens"}};
  for (const auto& c : cases) {
    const Status status = Run({{.sequence = &sequence, .tokens = c.tokens}});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find(c.message), std::string::npos)
        << status.error().message;
    EXPECT_EQ(sequence.length(), 0);
  }
}

TEST_F(EngineErrors, CancelledPassesLeaveNothing) {
  KvSequence sequence = runtime_->NewSequence();
  std::atomic<bool> cancel = true;
  const Tokens tokens = RandomTokens(9, kStoryVocab);
  const Status status =
      Run({{.sequence = &sequence, .tokens = tokens}}, {.cancel = &cancel});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(sequence.length(), 0);
  EXPECT_EQ(runtime_->kv().num_free(), runtime_->kv().num_pages());
}

}  // namespace
}  // namespace thermocline::engine
