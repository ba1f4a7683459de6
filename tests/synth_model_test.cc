// Synthetic models as the engine runs them: what fires, what the predictors
// say of it, and that all layouts hold the same weights.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "model/model.h"
#include "synth/activity.h"
#include "synth/synth.h"
#include "tensor/codec.h"

namespace thermocline {
namespace {

using synth::SynthLayout;

struct Case {
  std::string like;
  DType dtype;
  double density = 0.1;
  double skew = 0.26;
  double locality = 0.6;
};

std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) {
  std::string name =
      info.param.like + "_" + std::string(NameOf(info.param.dtype));
  std::ranges::replace(name, '-', '_');
  return name + "_" + std::to_string(info.index);
}

std::vector<float> Decode(const TensorView& view) {
  std::vector<float> values;
  std::vector<float> row(view.shape.ne[0]);
  for (uint64_t i = 0; i < view.shape.num_rows(); ++i) {
    DequantizeRow(view.dtype, view.row(i), row);
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

// A predictor as its definition says, in floats.
class PlainPredictor {
 public:
  explicit PlainPredictor(const model::PredictorWeights& weights)
      : up_(Decode(weights.up)),
        down_(Decode(weights.down)),
        rank_(weights.up.shape.num_rows()) {
    EXPECT_FALSE(weights.up_bias);
    EXPECT_FALSE(weights.down_bias);
  }

  std::vector<bool> Candidates(std::span<const float> x) const {
    std::vector<float> hidden(rank_);
    for (size_t r = 0; r < rank_; ++r) {
      hidden[r] = std::max(Dot(x, up_.data() + r * x.size()), 0.0f);
    }
    std::vector<bool> candidates(down_.size() / rank_);
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i] = Dot(hidden, down_.data() + i * rank_) >= 0.0f;
    }
    return candidates;
  }

 private:
  static float Dot(std::span<const float> x, const float* row) {
    return std::inner_product(x.data(), x.data() + x.size(), row, 0.0f);
  }

  std::vector<float> up_, down_;
  size_t rank_;
};

// What a layer did over all tokens.
struct LayerSums {
  std::vector<double> counts;
  std::vector<bool> last;
  double shared = 0.0;  // of fired neurons with the token before, in shares
  uint64_t num_pairs = 0;
  uint64_t num_tokens = 0;
  double num_fired = 0.0, num_candidates = 0.0, num_found = 0.0;
};

std::shared_ptr<const model::Model> WriteAndOpen(
    const synth::SynthWeights& weights, SynthLayout layout) {
  const std::string path = ::testing::TempDir() + "synth_" +
                           std::to_string(::getpid()) + "_" +
                           std::to_string(static_cast<int>(layout)) + ".gguf";
  const Status written = synth::WriteSynthModel(weights, layout, path, {});
  EXPECT_TRUE(written.has_value()) << written.error().message;
  auto model = model::Model::Open(path);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  ::unlink(path.c_str());
  return model.has_value() ? *model : nullptr;
}

class SynthModelTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& c = GetParam();
    auto plan = synth::PlanSynth({.like = c.like,
                                  .dtype = c.dtype,
                                  .density = c.density,
                                  .skew = c.skew,
                                  .locality = c.locality,
                                  .seed = 7});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    weights_ = std::make_unique<synth::SynthWeights>(*plan);
  }

  std::shared_ptr<const model::Model> Make(SynthLayout layout) {
    return WriteAndOpen(*weights_, layout);
  }

  const synth::SynthPlan& plan() const { return weights_->plan(); }
  bool is_mixture() const { return plan().shape.num_experts > 0; }

  std::vector<LayerSums> Measure(const model::Model& model,
                                 std::shared_ptr<const model::Model> shared,
                                 size_t num_tokens, bool with_predictor);

  std::unique_ptr<synth::SynthWeights> weights_;
};

void Add(const engine::FfnObservation& seen, LayerSums& sums) {
  for (const uint32_t neuron : seen.fired) sums.counts[neuron] += 1.0;
  if (sums.num_tokens > 0 && !seen.fired.empty()) {
    size_t common = 0;
    for (const uint32_t neuron : seen.fired) common += sums.last[neuron];
    sums.shared +=
        static_cast<double>(common) / static_cast<double>(seen.fired.size());
    ++sums.num_pairs;
  }
  std::fill(sums.last.begin(), sums.last.end(), false);
  for (const uint32_t neuron : seen.fired) sums.last[neuron] = true;
  sums.num_fired += static_cast<double>(seen.fired.size());
  ++sums.num_tokens;
}

std::vector<LayerSums> SynthModelTest::Measure(
    const model::Model& model, std::shared_ptr<const model::Model> shared,
    size_t num_tokens, bool with_predictor) {
  const size_t num_neurons = plan().shape.num_neurons();
  std::vector<LayerSums> sums(plan().num_layers);
  std::vector<PlainPredictor> predictors;
  for (size_t l = 0; l < sums.size(); ++l) {
    sums[l].counts.resize(num_neurons);
    sums[l].last.resize(num_neurons);
    if (with_predictor) {
      predictors.emplace_back(model.weights().layers[l].predictor);
    }
  }
  const bool reads_stream =
      model.config().predictor.kind == model::PredictorKind::kPowerInfer;
  engine::SessionOptions options = {.context = static_cast<int64_t>(num_tokens),
                                    .num_threads = 2,
                                    .ffn = engine::FfnMode::kDense};
  options.observer = [&](const engine::FfnObservation& seen) {
    LayerSums& layer = sums[seen.layer_idx];
    Add(seen, layer);
    if (!with_predictor) return;
    const auto candidates = predictors[seen.layer_idx].Candidates(
        reads_stream ? seen.stream : seen.input);
    for (size_t i = 0; i < candidates.size(); ++i) {
      // Of a mixture those of the experts in use count.
      const bool counts =
          seen.experts.empty() ||
          std::ranges::find(seen.experts, i / plan().shape.ffn_width) !=
              seen.experts.end();
      if (counts && candidates[i]) layer.num_candidates += 1.0;
    }
    for (const uint32_t neuron : seen.fired) {
      layer.num_found += candidates[neuron];
    }
  };
  auto session = engine::Session::Create(std::move(shared), options);
  EXPECT_TRUE(session.has_value()) << session.error().message;
  const auto tokens = model.tokenizer()->Encode(
      weights_->words().Text(weights_->vocab(), num_tokens - 2), {});
  EXPECT_TRUE(tokens.has_value());
  EXPECT_EQ(tokens->size(), num_tokens);  // BOS, words, the line's end
  const Status decoded =
      (*session)->Prompt(*tokens, engine::LogitsOf::kNone, {});
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return sums;
}

TEST_P(SynthModelTest, FiresAsAskedFor) {
  const Case& c = GetParam();
  const auto model = Make(SynthLayout::kPrepared);
  ASSERT_NE(model, nullptr);
  EXPECT_NE(model->config().name.find("synthetic like " + c.like),
            std::string::npos);
  const auto sums = Measure(*model, model, 1024, false);
  const synth::SynthShape& shape = plan().shape;
  const double used = is_mixture() ? static_cast<double>(shape.experts_used) /
                                         static_cast<double>(shape.num_experts)
                                   : 1.0;
  for (size_t l = 0; l < sums.size(); ++l) {
    const LayerSums& layer = sums[l];
    ASSERT_EQ(layer.num_tokens, 1024u);
    const double density = layer.num_fired /
                           static_cast<double>(layer.num_tokens) /
                           static_cast<double>(layer.counts.size());
    EXPECT_NEAR(density / (c.density * used), 1.0, 0.1) << "layer " << l;
    auto counts = layer.counts;
    std::ranges::sort(counts, std::greater<>());
    EXPECT_NEAR(synth::SkewOf(counts), c.skew, 0.05) << "layer " << l;
    // Of a mixture only experts that both tokens use can share neurons; in a
    // parallel block the first FFN comes before all attention.
    if (is_mixture() || plan().ReadsEmbedding(l)) continue;
    EXPECT_NEAR(layer.shared / static_cast<double>(layer.num_pairs), c.locality,
                0.05)
        << "layer " << l;
  }
}

TEST_P(SynthModelTest, PredictorsFindWhatFires) {
  for (const SynthLayout layout :
       {SynthLayout::kPrepared, SynthLayout::kPowerInfer}) {
    if (layout == SynthLayout::kPowerInfer &&
        !synth::CheckPowerInfer(plan()).has_value()) {
      continue;
    }
    const auto model = Make(layout);
    ASSERT_NE(model, nullptr);
    for (const LayerSums& layer : Measure(*model, model, 96, true)) {
      // The first few tokens see a narrower window: more fires.
      EXPECT_GE(layer.num_candidates / layer.num_fired, 1.5);
      EXPECT_LE(layer.num_candidates / layer.num_fired, 1.7);
      EXPECT_GE(layer.num_found / layer.num_fired, 0.97);
    }
  }
}

TEST_P(SynthModelTest, AllLayoutsHoldTheSameWeights) {
  const auto plain = Make(SynthLayout::kPlain);
  const auto prepared = Make(SynthLayout::kPrepared);
  ASSERT_NE(plain, nullptr);
  ASSERT_NE(prepared, nullptr);
  const uint64_t width = plan().shape.width;
  const uint64_t ffn_width = plan().shape.ffn_width;
  const auto compare = [&](const model::FfnMatrices& a,
                           const model::FfnMatrices& b) {
    if (a.gate) EXPECT_EQ(Decode(a.gate), Decode(b.gate));
    EXPECT_EQ(Decode(a.up), Decode(b.up));
    const auto down = Decode(a.down);
    const auto down_t = Decode(b.down_t);
    std::vector<float> transposed(down.size());
    for (uint64_t i = 0; i < ffn_width; ++i) {
      for (uint64_t j = 0; j < width; ++j) {
        transposed[i * width + j] = down[j * ffn_width + i];
      }
    }
    EXPECT_EQ(down_t, transposed);
  };
  const model::FfnWeights& a = plain->weights().layers.back().ffn;
  const model::FfnWeights& b = prepared->weights().layers.back().ffn;
  ASSERT_EQ(a.experts.size(), b.experts.size());
  if (a.experts.empty()) compare(a, b);
  if (!a.experts.empty()) compare(a.experts.back(), b.experts.back());
  EXPECT_EQ(plain->config().predictor.kind, model::PredictorKind::kNone);
  if (!synth::CheckPowerInfer(plan()).has_value()) return;
  const auto twin = Make(SynthLayout::kPowerInfer);
  ASSERT_NE(twin, nullptr);
  EXPECT_EQ(twin->config().predictor.kind, model::PredictorKind::kPowerInfer);
  compare(a, twin->weights().layers.back().ffn);
}

// What the routers of a mixture choose.
struct ExpertSums {
  std::vector<double> counts;
  std::vector<uint32_t> last;
  double num_shared = 0.0, num_chosen = 0.0, num_fired = 0.0;
};

std::vector<ExpertSums> MeasureExperts(
    const synth::SynthWeights& weights,
    std::shared_ptr<const model::Model> model, size_t num_tokens) {
  const synth::SynthShape& shape = weights.plan().shape;
  std::vector<ExpertSums> sums(weights.plan().num_layers);
  engine::SessionOptions options = {.context = static_cast<int64_t>(num_tokens),
                                    .num_threads = 2,
                                    .ffn = engine::FfnMode::kDense};
  options.observer = [&](const engine::FfnObservation& seen) {
    ExpertSums& layer = sums[seen.layer_idx];
    layer.counts.resize(shape.num_experts);
    for (const uint32_t expert : seen.experts) {
      layer.counts[expert] += 1.0;
      layer.num_shared += std::ranges::count(layer.last, expert) > 0 ? 1 : 0;
    }
    layer.num_chosen += static_cast<double>(seen.experts.size());
    layer.last.assign(seen.experts.begin(), seen.experts.end());
    layer.num_fired += static_cast<double>(seen.fired.size());
  };
  const auto tokens = model->tokenizer()->Encode(
      weights.words().Text(weights.vocab(), num_tokens - 2), {});
  const auto session = engine::Session::Create(model, options);
  EXPECT_TRUE(tokens.has_value() && session.has_value());
  const Status decoded =
      (*session)->Prompt(*tokens, engine::LogitsOf::kNone, {});
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return sums;
}

TEST(SynthExpertsModelTest, ExpertsAreChosenAsAskedFor) {
  struct Asked {
    std::string like;
    std::optional<double> skew, locality;
  };
  for (const Asked& asked : {Asked{"tiny-moe", 0.45, 0.75},
                             {"tiny-moe", 0.6, 0.5},
                             {"tiny-moe", 0.45, std::nullopt},
                             {"tiny-moe", std::nullopt, 0.6},
                             {"tiny-mixtral", 0.6, 0.8}}) {
    SCOPED_TRACE(asked.like + " " + std::to_string(asked.skew.value_or(0)) +
                 " " + std::to_string(asked.locality.value_or(0)));
    const auto plan = synth::PlanSynth({.like = asked.like,
                                        .expert_skew = asked.skew,
                                        .expert_locality = asked.locality,
                                        .seed = 7});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const synth::SynthWeights weights(*plan);
    const auto model = WriteAndOpen(weights, SynthLayout::kPrepared);
    ASSERT_NE(model, nullptr);
    for (const ExpertSums& layer : MeasureExperts(weights, model, 1536)) {
      auto counts = layer.counts;
      std::ranges::sort(counts, std::greater<>());
      // Neurons fire as they did: the router has directions of its own.
      EXPECT_NEAR(layer.num_fired / layer.num_chosen /
                      static_cast<double>(plan->shape.ffn_width),
                  0.1, 0.01);
      if (asked.skew) EXPECT_NEAR(synth::SkewOf(counts), *asked.skew, 0.06);
      if (asked.locality) {
        EXPECT_NEAR(layer.num_shared / layer.num_chosen, *asked.locality, 0.06);
      }
    }
  }
}

// How often each neuron of a layer fired, topic by topic.
struct TopicSums {
  std::vector<std::vector<double>> counts;  // [topics][N]
  std::vector<double> num_tokens;
};

std::vector<TopicSums> MeasureTopics(const synth::SynthWeights& weights,
                                     std::shared_ptr<const model::Model> model,
                                     size_t num_tokens) {
  const uint64_t num_topics = weights.plan().options.num_topics;
  const auto tokens = model->tokenizer()->Encode(
      weights.words().Text(weights.vocab(), num_tokens - 2), {});
  EXPECT_TRUE(tokens.has_value());
  std::vector<TopicSums> sums(weights.plan().num_layers);
  for (TopicSums& layer : sums) {
    layer.counts.assign(
        num_topics, std::vector<double>(weights.plan().shape.num_neurons()));
    layer.num_tokens.resize(num_topics);
  }
  engine::SessionOptions options = {.context = static_cast<int64_t>(num_tokens),
                                    .num_threads = 2,
                                    .ffn = engine::FfnMode::kDense};
  options.observer = [&](const engine::FfnObservation& seen) {
    TopicSums& layer = sums[seen.layer_idx];
    const uint64_t topic = weights.TopicOf(
        static_cast<uint64_t>((*tokens)[static_cast<size_t>(seen.position)]));
    for (const uint32_t i : seen.fired) layer.counts[topic][i] += 1.0;
    layer.num_tokens[topic] += 1.0;
  };
  const auto session = engine::Session::Create(model, options);
  EXPECT_TRUE(session.has_value());
  const Status decoded =
      (*session)->Prompt(*tokens, engine::LogitsOf::kNone, {});
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return sums;
}

// The busiest `share` of the neurons.
std::set<size_t> HotSet(const std::vector<double>& counts, double share) {
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });
  order.resize(static_cast<size_t>(share * static_cast<double>(order.size())));
  return {order.begin(), order.end()};
}

TEST(SynthTopicsModelTest, EveryTopicHasItsOwnHotSet) {
  for (const std::string like : {"tiny", "tiny-opt"}) {
    const auto plan =
        synth::PlanSynth({.like = like, .num_topics = 2, .seed = 7});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const synth::SynthWeights weights(*plan);
    const auto model = WriteAndOpen(weights, SynthLayout::kPrepared);
    ASSERT_NE(model, nullptr);
    for (const TopicSums& layer : MeasureTopics(weights, model, 1026)) {
      for (size_t topic = 0; topic < 2; ++topic) {
        auto counts = layer.counts[topic];
        const double fired = std::accumulate(counts.begin(), counts.end(), 0.0);
        EXPECT_NEAR(layer.num_tokens[topic], 513.0, 2.0);
        EXPECT_NEAR(fired / layer.num_tokens[topic] /
                        static_cast<double>(counts.size()),
                    0.1, 0.012);
        std::ranges::sort(counts, std::greater<>());
        EXPECT_NEAR(synth::SkewOf(counts), 0.26, 0.05) << like;
      }
      // By chance a quarter of one is in the other too.
      const auto first = HotSet(layer.counts[0], 0.26);
      const auto second = HotSet(layer.counts[1], 0.26);
      size_t num_common = 0;
      for (const size_t i : first) num_common += second.count(i);
      EXPECT_NEAR(
          static_cast<double>(num_common) / static_cast<double>(first.size()),
          0.26, 0.06)
          << like;
    }
  }
}

TEST(SynthTopicsModelTest, PredictorsAndTheHeadKnowTheTopics) {
  const auto plan = synth::PlanSynth({.like = "tiny-moe",
                                      .expert_skew = 0.5,
                                      .expert_locality = 0.6,
                                      .num_topics = 2,
                                      .seed = 7});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const synth::SynthWeights weights(*plan);
  const auto model = WriteAndOpen(weights, SynthLayout::kPrepared);
  ASSERT_NE(model, nullptr);
  const auto tokens = model->tokenizer()->Encode(
      weights.words().Text(weights.vocab(), 320), {});
  ASSERT_TRUE(tokens.has_value());
  const size_t vocab_size = model->config().vocab_size;
  const auto session = engine::Session::Create(
      model, {.context = 512, .num_threads = 2, .ffn = engine::FfnMode::kFast});
  ASSERT_TRUE(session.has_value()) << session.error().message;
  // Words of both topics, one at a time, so that the predictors choose.
  size_t num_right = 0;
  std::vector<float> logits(vocab_size);
  const std::span<const text::TokenId> all(*tokens);
  ASSERT_TRUE(
      (*session)->Prompt(all.first(240), engine::LogitsOf::kLast, logits));
  for (size_t i = 240; i < 300; ++i) {
    const auto likeliest = std::ranges::max_element(logits) - logits.begin();
    num_right += likeliest == all[i] ? 1 : 0;
    ASSERT_TRUE((*session)->Generate(all.subspan(i, 1), engine::LogitsOf::kLast,
                                     logits));
  }
  EXPECT_EQ(num_right, 60u);
  const engine::SparseTotals totals = (*session)->sparse_totals();
  EXPECT_NEAR(static_cast<double>(totals.num_candidates) /
                  static_cast<double>(totals.num_open),
              synth::kCandidateRatio, 0.15);
  EXPECT_NEAR(static_cast<double>(totals.num_open) /
                  static_cast<double>(totals.num_neurons),
              0.1, 0.02);
}

std::vector<Case> AllCases() {
  return {{"tiny", DType::kQ4_0},
          {"tiny", DType::kQ8_0},
          {"tiny", DType::kF16},
          {"tiny", DType::kQ4_K},
          {"tiny", DType::kQ6_K},
          {"tiny", DType::kQ4_0, 0.25, 0.4, 0.75},
          {"tiny", DType::kQ4_0, 0.05, 0.15, 0.8},
          {"tiny-opt", DType::kQ4_0},
          {"tiny-falcon", DType::kQ4_0},
          {"tiny-mixtral", DType::kQ4_0},
          {"tiny-nemotron", DType::kQ4_0},
          {"tiny-moe", DType::kQ4_0}};
}

INSTANTIATE_TEST_SUITE_P(Shapes, SynthModelTest,
                         ::testing::ValuesIn(AllCases()), NameOfCase);

}  // namespace
}  // namespace thermocline
