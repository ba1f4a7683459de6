// The modes on whole models: what each computes, and what must not change it.
#include "engine/ffn/ffn_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/testing/tiny_model.h"
#include "model/weight_bytes.h"

namespace thermocline::engine {
namespace {

using testing::DecodeAll;
using testing::Nmse;
using testing::TinySpec;

// The bound on what F32 weights may differ by; quantised ones round
// differently.
constexpr double kExactNmse = 1e-10;

TinySpec ReluSpec(const std::string& architecture) {
  TinySpec spec;
  testing::UseArchitecture(architecture, spec);
  spec.num_layers = 3;
  if (architecture == "llama" || architecture == "mixtral") {
    spec.activation = "relu";
  }
  return spec;
}

double NmseOf(const std::vector<float>& a, const std::vector<float>& b) {
  return Nmse(a, std::span<const float>(b));
}

// Every architecture of the ReLU family, mixtures, with either form of down.
TEST(ExactFfn, IsDenseForEveryReluModel) {
  for (const char* architecture :
       {"llama", "mixtral", "opt", "relu-falcon", "bamboo", "prosparse-llama",
        "sparse-qwen2"}) {
    for (const bool down_t : {false, true}) {
      SCOPED_TRACE(std::string(architecture) + (down_t ? ", down_t" : ""));
      TinySpec spec = ReluSpec(architecture);
      spec.both_downs = down_t && spec.num_experts == 0;
      if (spec.both_downs) spec.low_ranks = {8, 8, 8};  // KAIROX's files have
      const auto model = testing::MakeTinyModel(spec);
      ASSERT_NE(model, nullptr);
      const auto tokens = testing::RandomTokens(12, spec.vocab_size);
      const auto dense = DecodeAll(model, tokens, {.ffn = FfnMode::kDense});
      const auto exact = DecodeAll(model, tokens, {.ffn = FfnMode::kExact});
      EXPECT_LE(NmseOf(exact, dense), kExactNmse);
    }
  }
}

TEST(ExactFfn, QuantisedIsDenseUpToRounding) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    SCOPED_TRACE(NameOf(dtype));
    TinySpec spec = testing::WideSpec(dtype);
    spec.activation = "relu";
    const auto model = testing::MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto tokens = testing::RandomTokens(9, spec.vocab_size);
    EXPECT_LE(NmseOf(DecodeAll(model, tokens, {.ffn = FfnMode::kExact}),
                     DecodeAll(model, tokens, {.ffn = FfnMode::kDense})),
              1e-3);
  }
}

// Records are the same numbers in another place: of floats the same result up
// to the order of sums, in every mode; and exact is what such files run in.
TEST(BundledFfn, IsTheSameModel) {
  for (const char* architecture : {"llama", "mixtral", "opt"}) {
    SCOPED_TRACE(architecture);
    const TinySpec spec = ReluSpec(architecture);
    const auto plain = testing::MakeTinyModel(spec);
    const auto bundled = testing::OpenTinyModel(spec, {.bundle_at_load = true});
    ASSERT_TRUE(plain != nullptr && bundled.has_value());
    const auto tokens = testing::RandomTokens(40, spec.vocab_size);
    const auto dense = DecodeAll(plain, tokens, {.ffn = FfnMode::kDense});
    for (const FfnMode mode : {FfnMode::kDense, FfnMode::kExact}) {
      EXPECT_LE(NmseOf(DecodeAll(*bundled, tokens, {.ffn = mode}), dense),
                kExactNmse);
    }
    // What is generated is computed otherwise, in all modes alike.
    const auto generate = [&](SessionOptions options) {
      return DecodeAll(*bundled, tokens, options, Phase::kGenerate);
    };
    const auto one_by_one = generate({.batch = 1, .ffn = FfnMode::kDense});
    EXPECT_LE(NmseOf(one_by_one, dense), kExactNmse);
    EXPECT_EQ(generate({.num_threads = 3, .batch = 7, .ffn = FfnMode::kDense}),
              one_by_one);
    EXPECT_EQ(generate({.ffn = FfnMode::kExact}), one_by_one);
    EXPECT_EQ((*Session::Create(*bundled, {}))->ffn(), FfnMode::kExact);
    EXPECT_EQ((*Session::Create(plain, {}))->ffn(), FfnMode::kDense);
  }
}

// Observers are told the same of records, of prompts and of what is generated.
TEST(BundledFfn, TellsTheRawGates) {
  const TinySpec spec = ReluSpec("llama");
  const auto bundled = testing::OpenTinyModel(spec, {.bundle_at_load = true});
  ASSERT_TRUE(bundled.has_value());
  const auto tokens = testing::RandomTokens(40, spec.vocab_size);
  for (const Phase phase : kPhases) {
    SessionOptions options = {.batch = 7, .ffn = FfnMode::kDense};
    size_t num_seen = 0;
    options.observer = [&](const FfnObservation& seen) {
      ++num_seen;
      ASSERT_EQ(seen.gate.size(), spec.ffn_width);
      std::vector<uint32_t> open;
      for (uint32_t i = 0; i < seen.gate.size(); ++i) {
        if (seen.gate[i] > 0.0f) open.push_back(i);
      }
      EXPECT_TRUE(std::ranges::equal(seen.fired, open));
      EXPECT_EQ(seen.candidates.size(), seen.gate.size());
    };
    DecodeAll(*bundled, tokens, options, phase);
    EXPECT_EQ(num_seen, 3 * tokens.size());
  }
}

TEST(ExactFfn, SameBitsForEveryThreadCountAndCut) {
  for (const char* architecture : {"llama", "mixtral", "opt"}) {
    SCOPED_TRACE(architecture);
    TinySpec spec = ReluSpec(architecture);
    spec.ffn_width = 500;
    const auto model = testing::MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto tokens = testing::RandomTokens(19, spec.vocab_size);
    SessionOptions options = {.num_threads = 2, .ffn = FfnMode::kExact};
    const auto expected = DecodeAll(model, tokens, options);
    for (const int num_threads : {1, 3}) {
      for (const int64_t batch : {1, 3, 8, 19}) {
        options.num_threads = num_threads;
        options.batch = batch;
        EXPECT_EQ(DecodeAll(model, tokens, options), expected) << batch;
      }
    }
  }
}

// What observers are told in a sparse mode is what they are told in dense.
TEST(ExactFfn, FiresWhatDenseFires) {
  for (const char* architecture : {"llama", "mixtral", "opt"}) {
    SCOPED_TRACE(architecture);
    const TinySpec spec = ReluSpec(architecture);
    const auto model = testing::MakeTinyModel(spec);
    ASSERT_NE(model, nullptr);
    const auto tokens = testing::RandomTokens(11, spec.vocab_size);
    using Place = std::pair<size_t, int64_t>;
    std::map<Place, std::vector<uint32_t>> of_mode[2];
    for (const bool exact : {false, true}) {
      SessionOptions options;
      options.ffn = exact ? FfnMode::kExact : FfnMode::kDense;
      options.observer = [&](const FfnObservation& seen) {
        of_mode[exact][{seen.layer_idx, seen.position}] = {seen.fired.begin(),
                                                           seen.fired.end()};
        EXPECT_TRUE(std::ranges::includes(seen.candidates, seen.fired));
        if (exact) EXPECT_TRUE(seen.gate.empty());
      };
      DecodeAll(model, tokens, options);
    }
    EXPECT_EQ(of_mode[0], of_mode[1]);
    EXPECT_EQ(of_mode[0].size(), 3u * tokens.size());
  }
}

TEST(FreeFfn, SignsChooseMostOfWhatFires) {
  TinySpec spec = ReluSpec("llama");
  spec.width = 192;
  spec.head_width = 32;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto tokens = testing::RandomTokens(13, spec.vocab_size);
  size_t num_candidates = 0;
  size_t num_neurons = 0;
  SessionOptions options = {.ffn = FfnMode::kFast,
                            .predictor = PredictorChoice::kTrainingFree};
  options.observer = [&](const FfnObservation& seen) {
    num_candidates += seen.candidates.size();
    num_neurons += spec.ffn_width;
  };
  const auto free = DecodeAll(model, tokens, options);
  EXPECT_GT(num_candidates, num_neurons / 3);
  EXPECT_LT(num_candidates, num_neurons * 2 / 3);
  const auto dense = DecodeAll(model, tokens, {.ffn = FfnMode::kDense});
  const double nmse = NmseOf(free, dense);
  EXPECT_GT(nmse, 1e-8);  // some of what fires is missing
  EXPECT_LT(nmse, 0.3);
  options.observer = nullptr;
  for (const int64_t batch : {1, 5}) {
    options.batch = batch;
    options.num_threads = 3;
    EXPECT_EQ(DecodeAll(model, tokens, options), free);
  }
  const auto need = PlanMemory(model->config(), options);
  ASSERT_TRUE(need.has_value());
  EXPECT_EQ(need->host.signs, (spec.num_layers * spec.ffn_width) * 3 * 8);
}

// Prompts compute all neurons if they are asked to, however they are cut; what
// is generated does not.
TEST(DensePrompts, AreDenseHoweverTheyAreCut) {
  TinySpec spec = ReluSpec("bamboo");
  spec.low_ranks = {8, 8, 8};
  spec.both_downs = true;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto tokens = testing::RandomTokens(12, spec.vocab_size);
  const auto decode = [&](FfnMode mode, bool dense_prompts, int64_t batch,
                          Phase phase = Phase::kPrompt) {
    return DecodeAll(
        model, tokens,
        {.batch = batch, .ffn = mode, .dense_prompts = dense_prompts}, phase);
  };
  const auto dense = decode(FfnMode::kDense, false, 12);
  const auto fast = decode(FfnMode::kFast, false, 12);
  EXPECT_GT(NmseOf(fast, dense), 1e-4);
  for (const int64_t batch : {1, 5, 12}) {
    EXPECT_EQ(decode(FfnMode::kFast, true, batch), dense) << batch;
    EXPECT_EQ(decode(FfnMode::kFast, false, batch), fast) << batch;
    EXPECT_LE(
        NmseOf(decode(FfnMode::kFast, true, batch, Phase::kGenerate), fast),
        kExactNmse);
  }
}

TEST(SparseTotals, CountGeneratedTokensOnly) {
  TinySpec spec = ReluSpec("llama");
  spec.dtype = DType::kF32;
  const auto model = testing::MakeTinyModel(spec);
  ASSERT_NE(model, nullptr);
  const auto session = Session::Create(model, {.ffn = FfnMode::kExact});
  ASSERT_TRUE(session.has_value());
  const auto tokens = testing::RandomTokens(6, spec.vocab_size);
  const std::span all(tokens);
  ASSERT_TRUE((*session)->Prompt(all.first(4), LogitsOf::kNone, {}));
  EXPECT_EQ((*session)->sparse_totals().num_tokens, 0u);
  EXPECT_EQ((*session)->sparse_totals().num_bytes, 0u);
  ASSERT_TRUE((*session)->Generate(all.subspan(4, 1), LogitsOf::kNone, {}));
  ASSERT_TRUE((*session)->Generate(all.subspan(5, 1), LogitsOf::kNone, {}));
  const SparseTotals totals = (*session)->sparse_totals();
  EXPECT_EQ(totals.num_tokens, 2u);
  EXPECT_EQ(totals.num_passes, 2u);
  EXPECT_EQ(totals.num_neurons, 2u * 3 * 160);
  EXPECT_EQ(totals.num_candidates, totals.num_neurons);
  EXPECT_GT(totals.num_open, totals.num_neurons / 4);
  EXPECT_LT(totals.num_open, totals.num_neurons * 3 / 4);
  // Rows of 96 floats: gates, up rows of those that are open, and all of down.
  EXPECT_EQ(totals.num_bytes,
            96 * 4 * (2 * totals.num_neurons + totals.num_open));
  EXPECT_LT(model::FixedWeightBytes(model->weights(), 1) + totals.num_bytes / 2,
            WeightBytesPerToken(*model));
  // Together they read each neuron once.
  (*session)->Truncate(4);
  ASSERT_TRUE((*session)->Generate(all.subspan(4, 2), LogitsOf::kNone, {}));
  const SparseTotals both = (*session)->sparse_totals() - totals;
  EXPECT_EQ(both.num_tokens, 2u);
  EXPECT_EQ(both.num_passes, 1u);
  EXPECT_EQ(both.num_open, totals.num_open);
  EXPECT_EQ(both.num_union_neurons, 3u * 160);
  EXPECT_LT(both.num_union_open, totals.num_open);
  EXPECT_GE(2 * both.num_union_open, totals.num_open);
  EXPECT_EQ(both.num_bytes,
            96 * 4 * (2 * both.num_union_neurons + both.num_union_open));
}

// Thresholds leave out what is nearly at rest: none at 0, more as they rise.
TEST(ThresholdFfn, LeavesOutWhatIsNearlyAtRest) {
  const TinySpec spec;  // silu
  const auto plain = testing::MakeTinyModel(spec);
  ASSERT_NE(plain, nullptr);
  const auto tokens = testing::RandomTokens(10, spec.vocab_size);
  const auto dense = DecodeAll(plain, tokens, {.ffn = FfnMode::kDense});
  double last = 0.0;
  for (const float threshold : {0.0f, 0.05f, 0.3f}) {
    TinySpec with = spec;
    with.thresholds = {threshold, threshold};
    const auto model = testing::MakeTinyModel(with);
    ASSERT_NE(model, nullptr);
    const auto logits = DecodeAll(model, tokens, {.ffn = FfnMode::kThreshold});
    const double nmse = NmseOf(logits, dense);
    if (threshold == 0.0f) {
      EXPECT_LE(nmse, kExactNmse);
    } else {
      EXPECT_GT(nmse, 2 * last);
    }
    last = nmse;
  }
}

}  // namespace
}  // namespace thermocline::engine
