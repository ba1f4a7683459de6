#include "training/accuracy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "neuron/neuron_set.h"
#include "tensor/codec.h"

namespace thermocline::training {
namespace {

constexpr size_t kBatch = 256;
constexpr size_t kPredictionGrain = 8;

double Ratio(uint64_t part, uint64_t whole, double otherwise) {
  return whole == 0 ? otherwise
                    : static_cast<double>(part) / static_cast<double>(whole);
}

void RoundRows(DType dtype, size_t width, std::vector<float>& values) {
  std::vector<std::byte> bytes(BytesOf(dtype, width));
  for (size_t begin = 0; begin < values.size(); begin += width) {
    const std::span row(&values[begin], width);
    QuantizeRow(dtype, row, bytes.data());
    DequantizeRow(dtype, bytes.data(), row);
  }
}

// Rows of activations as block kernels see them.
void RoundActivations(const Gemm& gemm, size_t width, size_t num_rows,
                      float* values) {
  gemm.pool().ParallelFor(
      num_rows, kPredictionGrain, [&](size_t begin, size_t end, int) {
        std::vector<std::byte> bytes(BytesOf(DType::kQ8_0, width));
        for (size_t row = begin; row < end; ++row) {
          const std::span row_values(values + row * width, width);
          QuantizeRow(DType::kQ8_0, row_values, bytes.data());
          DequantizeRow(DType::kQ8_0, bytes.data(), row_values);
        }
      });
}

void LoadInputs(const Gemm& gemm, const Samples& samples, size_t first,
                size_t count, float* x) {
  gemm.pool().ParallelFor(
      count, kPredictionGrain, [&](size_t begin, size_t end, int) {
        for (size_t n = begin; n < end; ++n) {
          samples.LoadInput(first + n, x + n * samples.width);
        }
      });
}

// The greatest threshold that a share `share` of the scores reaches.
float KeepsShare(std::vector<float>& scores, double share) {
  const double num_missed =
      // 0.2 of 25 is 5, whatever 1 - 0.8 is in binary.
      std::floor((1.0 - share) * static_cast<double>(scores.size()) + 1e-9);
  const size_t place = std::min(static_cast<size_t>(std::max(num_missed, 0.0)),
                                scores.size() - 1);
  std::ranges::nth_element(scores,
                           scores.begin() + static_cast<ptrdiff_t>(place));
  return scores[place];
}

}  // namespace

double Accuracy::density() const {
  return Ratio(num_fired, num_samples * num_neurons, 0.0);
}
double Accuracy::recall() const { return Ratio(num_hits, num_fired, 1.0); }
double Accuracy::precision() const {
  return Ratio(num_hits, num_candidates, 1.0);
}
double Accuracy::candidates_per_fired() const {
  return Ratio(num_candidates, num_fired, 0.0);
}

RoundedPredictor Round(const LowRank& predictor, DType dtype) {
  TC_CHECK(predictor.width % InfoOf(dtype).block_elems == 0 &&
           predictor.rank % InfoOf(dtype).block_elems == 0);
  RoundedPredictor out = {.values = predictor, .dtype = dtype};
  RoundRows(dtype, predictor.width, out.values.up);
  RoundRows(dtype, predictor.rank, out.values.down);
  return out;
}

namespace {

struct ScoreScratch {
  std::vector<float> x, hidden, scores;
};

// Rounds x [count, D] on the way, if the predictor's type asks for it.
void Score(const Gemm& gemm, const RoundedPredictor& predictor, bool has_relu,
           float* x, size_t count, std::vector<float>& hidden, float* scores) {
  const LowRank& values = predictor.values;
  const bool rounds = !IsFloat(predictor.dtype);
  hidden.resize(count * values.rank);
  if (rounds) RoundActivations(gemm, values.width, count, x);
  if (has_relu) {
    Hidden(gemm, values, x, count, hidden.data());
  } else {
    gemm.Multiply({x, values.width},
                  {values.up.data(), values.width, Op::kTransposed}, count,
                  values.rank, values.width, 0.0f, hidden.data(), values.rank);
  }
  if (rounds) RoundActivations(gemm, values.rank, count, hidden.data());
  ScoresOfHidden(gemm, values, hidden.data(), count, scores);
}

void ForEachBatch(const Gemm& gemm, const RoundedPredictor& predictor,
                  bool has_relu, const Samples& samples,
                  const ScoresFn& visit) {
  const size_t batch = std::min(kBatch, samples.num_samples);
  ScoreScratch scratch;
  scratch.x.resize(batch * samples.width);
  scratch.scores.resize(batch * samples.num_neurons);
  for (size_t begin = 0; begin < samples.num_samples; begin += batch) {
    const size_t count = std::min(batch, samples.num_samples - begin);
    LoadInputs(gemm, samples, begin, count, scratch.x.data());
    Score(gemm, predictor, has_relu, scratch.x.data(), count, scratch.hidden,
          scratch.scores.data());
    visit(begin, count, scratch.scores.data());
  }
}

}  // namespace

void ComputeScores(const Gemm& gemm, const RoundedPredictor& predictor,
                   float* x, size_t count, float* scores) {
  std::vector<float> hidden;
  Score(gemm, predictor, true, x, count, hidden, scores);
}

void ForEachScores(const Gemm& gemm, const RoundedPredictor& predictor,
                   const Samples& samples, const ScoresFn& visit) {
  ForEachBatch(gemm, predictor, true, samples, visit);
}

void ForEachLinearScores(const Gemm& gemm, const RoundedPredictor& predictor,
                         const Samples& samples, const ScoresFn& visit) {
  ForEachBatch(gemm, predictor, false, samples, visit);
}

namespace {

// One of the scores, or just above one.
float LowestKept(std::vector<float>& scores, std::vector<float>& of_fired,
                 const RecallGoal& goal) {
  const float for_recall = KeepsShare(of_fired, goal.recall);
  const auto max_candidates = static_cast<size_t>(
      goal.max_candidates * static_cast<double>(of_fired.size()));
  if (max_candidates >= scores.size()) return for_recall;
  // Above it are max_candidates scores.
  const auto place = scores.begin() + static_cast<ptrdiff_t>(max_candidates);
  std::ranges::nth_element(scores, place, std::greater<>());
  const float for_candidates =
      std::nextafter(*place, std::numeric_limits<float>::infinity());
  if (for_candidates <= for_recall) return for_recall;
  return std::min(for_candidates, KeepsShare(of_fired, goal.recall_floor));
}

}  // namespace

float ChooseThreshold(std::vector<float>& scores, std::vector<float>& of_fired,
                      const RecallGoal& goal) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  if (of_fired.empty()) return kNone;
  const float lowest = LowestKept(scores, of_fired, goal);
  float next_lower = kNone;
  for (const float score : scores) {
    if (score < lowest) next_lower = std::max(next_lower, score);
  }
  if (next_lower == kNone) return lowest;
  const float halfway = std::midpoint(next_lower, lowest);
  return halfway > next_lower ? halfway : lowest;
}

namespace {

// Calls seen(score) for every neuron that each sample goes through, and
// fired(score) for those of them that fired.
template <typename Seen, typename Fired>
void ForEachScore(const Gemm& gemm, const RoundedPredictor& predictor,
                  const Samples& samples, Seen seen, Fired fired) {
  const size_t num_neurons = samples.num_neurons;
  ForEachScores(gemm, predictor, samples,
                [&](size_t begin, size_t count, const float* scores) {
                  for (size_t n = begin; n < begin + count; ++n) {
                    const float* row = scores + (n - begin) * num_neurons;
                    samples.ForEachUsed(n, [&](size_t first, size_t end) {
                      std::for_each(row + first, row + end, seen);
                    });
                    neuron::ForEachMember(samples.fired_of(n), 0, num_neurons,
                                          [&](size_t i) { fired(row[i]); });
                  }
                });
}

}  // namespace

float ThresholdFor(const Gemm& gemm, const RoundedPredictor& predictor,
                   const Samples& samples, const RecallGoal& goal) {
  std::vector<float> all;
  std::vector<float> of_fired;
  all.reserve(samples.num_samples * samples.used_neurons());
  ForEachScore(
      gemm, predictor, samples, [&](float score) { all.push_back(score); },
      [&](float score) { of_fired.push_back(score); });
  return ChooseThreshold(all, of_fired, goal);
}

Accuracy Measure(const Gemm& gemm, const RoundedPredictor& predictor,
                 const Samples& samples, float threshold) {
  Accuracy out = {.num_samples = samples.num_samples,
                  .num_neurons = samples.used_neurons()};
  ForEachScore(
      gemm, predictor, samples,
      [&](float score) { out.num_candidates += score >= threshold ? 1 : 0; },
      [&](float score) {
        ++out.num_fired;
        out.num_hits += score >= threshold ? 1 : 0;
      });
  return out;
}

}  // namespace thermocline::training
