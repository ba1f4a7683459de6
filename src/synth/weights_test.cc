#include "synth/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace thermocline::synth {
namespace {

SynthWeights SeededLike(const std::string& like) {
  return SynthWeights(PlanSynth({.like = like, .seed = 3}).value());
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double RmsOf(const std::vector<float>& x) {
  return std::sqrt(Dot(x, x) / static_cast<double>(x.size()));
}

// The stream of a token that was alone in the window for long.
std::vector<float> StreamOf(const SynthWeights& weights, uint64_t token) {
  std::vector<float> x(weights.plan().shape.width);
  weights.Embedding(token, x);
  const double gain = 1.0 / weights.plan().window.token_gain;
  for (size_t j = weights.plan().basis_begin(); j < x.size(); ++j) {
    x[j] = static_cast<float>(gain * x[j]);
  }
  return x;
}

TEST(SynthWeightsTest, EmbeddingsHaveTheSameNormAndConstant) {
  const SynthWeights weights = SeededLike("tiny");
  std::vector<float> first(512);
  std::vector<float> second(512);
  weights.Embedding(300, first);
  weights.Embedding(301, second);
  EXPECT_NE(first, second);
  EXPECT_NEAR(RmsOf(first) / weights.plan().embedding_rms, 1.0, 0.1);
  for (size_t j = 0; j < 32; ++j) EXPECT_EQ(first[j], second[j]);
  EXPECT_NEAR(std::accumulate(first.begin(), first.end(), 0.0), 0.0, 1e-2);
}

TEST(SynthWeightsTest, GatesFireAsOftenAsTheirThresholdSays) {
  const SynthWeights weights = SeededLike("tiny");
  const double rms = weights.plan().stream_rms;
  std::vector<float> gate(512);
  double expected = 0.0;
  double fired = 0.0;
  constexpr size_t kTokens = 200;
  std::vector<std::vector<float>> streams;
  for (uint64_t t = 0; t < kTokens; ++t) {
    streams.push_back(StreamOf(weights, 300 + t));
  }
  for (uint64_t neuron = 0; neuron < 256; ++neuron) {
    weights.Gate(1, neuron, gate);
    expected += 0.5 * std::erfc(weights.Threshold(1, neuron) / std::sqrt(2.0));
    double squares = 0.0;
    for (const auto& x : streams) {
      const double value = Dot(gate, x) / rms;
      fired += value > 0.0 ? 1.0 / kTokens : 0.0;
      squares += std::pow(value + weights.Threshold(1, neuron), 2) / kTokens;
    }
    EXPECT_NEAR(squares, 1.0, 0.5);
  }
  EXPECT_NEAR(fired / expected, 1.0, 0.1);
}

TEST(SynthWeightsTest, PredictorsComputeTheGatesProduct) {
  const SynthWeights weights = SeededLike("tiny");
  const SynthPlan& plan = weights.plan();
  const auto x = StreamOf(weights, 400);
  std::vector<float> hidden;
  std::vector<float> row(512);
  for (uint64_t r = 0; r < plan.needed_rank(); ++r) {
    weights.PredictorUp(1, r, SynthWeights::Reads::kStream, row);
    hidden.push_back(static_cast<float>(std::max(Dot(row, x), 0.0)));
  }
  std::vector<float> down(plan.rank);
  hidden.resize(plan.rank);
  for (uint64_t neuron = 0; neuron < 64; ++neuron) {
    weights.PredictorDown(1, neuron, down);
    weights.Gate(1, neuron, row);
    const double product =
        Dot(row, x) / plan.stream_rms + weights.Threshold(1, neuron);
    const double score =
        Dot(down, hidden) + weights.CandidateThreshold(1, neuron);
    EXPECT_NEAR(score, product, 0.15) << neuron;
  }
}

TEST(SynthWeightsTest, TheWordBeforeMakesItsSuccessorLikeliest) {
  const SynthWeights weights = SeededLike("tiny");
  const uint64_t token = 2000;
  const auto before = weights.words().Before(token);
  ASSERT_TRUE(before.has_value());
  const auto x = StreamOf(weights, static_cast<uint64_t>(*before));
  std::vector<float> head(512);
  weights.Head(token, head);
  const double right = Dot(head, x);
  for (uint64_t other = 1800; other < 1900; ++other) {
    weights.Head(other, head);
    EXPECT_LT(Dot(head, x), right);
  }
  weights.Head(2, head);  // the end of a text: never
  EXPECT_EQ(Dot(head, head), 0.0);
}

TEST(SynthWeightsTest, AttentionPassesTheBasisOn) {
  for (const char* like : {"tiny", "tiny-opt", "tiny-falcon"}) {
    const SynthWeights weights = SeededLike(like);
    const SynthPlan& plan = weights.plan();
    const SynthShape& shape = plan.shape;
    std::vector<float> x(512);
    weights.Embedding(700, x);
    std::vector<float> row(512);
    std::vector<float> values(shape.kv_width());
    for (uint64_t i = 0; i < values.size(); ++i) {
      weights.Value(i, row);
      values[i] = static_cast<float>(Dot(row, x) / plan.embedding_rms);
    }
    // Each query head gets its KV head's values.
    std::vector<float> heads(512);
    const uint64_t group = shape.num_heads / shape.num_kv_heads;
    for (uint64_t i = 0; i < heads.size(); ++i) {
      const uint64_t kv_head = i / shape.head_width() / group;
      heads[i] = values[kv_head * shape.head_width() + i % shape.head_width()];
    }
    // What comes out is the basis part, as much of it as the window's gain.
    const double gain = plan.window.window_gain / plan.window.token_gain;
    double difference = 0.0;
    double total = 0.0;
    for (uint64_t j = 0; j < 512; ++j) {
      weights.AttentionOut(j, row);
      const double got = Dot(row, heads);
      const double want = j < plan.basis_begin() ? 0.0 : gain * x[j];
      difference += (got - want) * (got - want);
      total += want * want;
    }
    EXPECT_LT(difference / total, 0.05) << like;
  }
}

TEST(SynthWeightsTest, QueriesSeeTheConstantOrThePosition) {
  const SynthWeights llama = SeededLike("tiny");
  std::vector<float> row(512);
  size_t num_used = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    llama.QueryOrKey(0, i, row);
    num_used += Dot(row, row) > 0.0 ? 1 : 0;
    for (size_t j = 32; j < row.size(); ++j) EXPECT_EQ(row[j], 0.0f);
  }
  EXPECT_EQ(num_used, llama.plan().window.num_frequencies);

  const SynthWeights opt = SeededLike("tiny-opt");
  std::vector<float> position(512);
  opt.Position(2, position);  // position 0
  EXPECT_EQ(position[32], 16.0f);
  EXPECT_NEAR(position[33], 0.0f, 1e-6);
  opt.QueryOrKey(0, 0, row);
  EXPECT_GT(row[32], 0.0f);
}

TEST(SynthWeightsTest, NeuronsOfAllBusynessesAreMixed) {
  const SynthWeights weights = SeededLike("tiny-mixtral");
  double first = 0.0;
  double second = 0.0;
  for (uint64_t i = 0; i < 512; ++i) {
    first += weights.Threshold(0, i);
    second += weights.Threshold(0, 512 + i);
  }
  EXPECT_NEAR(first / 512, second / 512, 0.25);
  EXPECT_NE(weights.Threshold(0, 0), weights.Threshold(1, 0));
}

}  // namespace
}  // namespace thermocline::synth
