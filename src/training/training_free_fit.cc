#include "training/training_free_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace thermocline::training {
namespace {

constexpr size_t kMaxSamples = 2048;
constexpr size_t kMaxFreeScores = size_t{1} << 23;  // samples times neurons
constexpr size_t kSampleGrain = 32;
// Signs that let more than this share of all neurons pass are not worth
// reading.
constexpr double kMaxFreeShare = 0.9;

bool Fired(const Samples& samples, size_t sample_idx, size_t neuron) {
  return (samples.fired_of(sample_idx)[neuron / 64] >> (neuron % 64) & 1) != 0;
}

// Calibrates both steps on thinned samples.
class TrainingFreeFitter {
 public:
  TrainingFreeFitter(const Gemm& gemm, const FitData& data,
                     const TrainingFreeOptions& options)
      : gemm_(gemm),
        data_(data),
        options_(options),
        samples_(data.held_out.Thinned(std::clamp<size_t>(
            kMaxFreeScores / data.held_out.num_neurons, 1, kMaxSamples))),
        width_(samples_.width),
        num_words_((samples_.width + 63) / 64),
        num_neurons_(samples_.num_neurons) {}

  FittedTrainingFree Fit();

 private:
  // Of one FFN.
  uint64_t NumSignBytes() const {
    return samples_.ffn_width() * num_words_ * sizeof(uint64_t);
  }
  // Calls f(sample, neuron) for the neurons of the experts that each uses.
  template <typename Function>
  void ForEachScored(Function f) const {
    for (size_t n = 0; n < samples_.num_samples; ++n) {
      samples_.ForEachUsed(n, [&](size_t first, size_t end) {
        for (size_t i = first; i < end; ++i) f(n, i);
      });
    }
  }
  void PackGate();
  void CountDifferences();
  size_t FindMaxDifferences() const;
  Accuracy MeasureSigns(size_t max_differences) const;
  size_t MarginRank() const;
  void AddMargin(size_t rank, size_t max_differences, FittedTrainingFree& out);

  const Gemm& gemm_;
  const FitData& data_;
  const TrainingFreeOptions& options_;
  Samples samples_;
  size_t width_;
  size_t num_words_;
  size_t num_neurons_;
  std::vector<uint64_t> signs_;        // [N, words]
  std::vector<uint16_t> differences_;  // [samples, N]
};

void TrainingFreeFitter::PackGate() {
  signs_.resize(num_neurons_ * num_words_);
  uint64_t* to = signs_.data();
  for (size_t e = 0; e < data_.gate.num_experts; ++e) {
    const std::vector<float> rows = data_.gate.read(e).rows;
    for (size_t i = 0; i < rows.size(); i += width_) {
      options_.kernels->pack_signs(&rows[i], width_, to);
      to += num_words_;
    }
  }
}

void TrainingFreeFitter::CountDifferences() {
  differences_.resize(samples_.num_samples * num_neurons_);
  gemm_.pool().ParallelFor(
      samples_.num_samples, kSampleGrain, [&](size_t begin, size_t end, int) {
        std::vector<float> x(width_);
        std::vector<uint64_t> packed(num_words_);
        std::vector<uint32_t> counts(num_neurons_);
        for (size_t n = begin; n < end; ++n) {
          samples_.LoadInput(n, x.data());
          options_.kernels->pack_signs(x.data(), width_, packed.data());
          options_.kernels->count_differences(signs_.data(), num_neurons_,
                                              packed.data(), num_words_,
                                              counts.data());
          std::ranges::transform(
              counts, &differences_[n * num_neurons_],
              [](uint32_t count) { return static_cast<uint16_t>(count); });
        }
      });
}

size_t TrainingFreeFitter::FindMaxDifferences() const {
  std::vector<uint64_t> histogram(width_ + 1);
  uint64_t num_fired = 0;
  for (size_t n = 0; n < samples_.num_samples; ++n) {
    for (size_t i = 0; i < num_neurons_; ++i) {
      if (!Fired(samples_, n, i)) continue;
      ++histogram[differences_[n * num_neurons_ + i]];
      ++num_fired;
    }
  }
  const double share = 1.0 - (1.0 - options_.goal.recall) / 2;
  const auto wanted =
      static_cast<uint64_t>(std::ceil(share * static_cast<double>(num_fired)));
  uint64_t num_passed = 0;
  for (size_t count = 0; count < histogram.size(); ++count) {
    num_passed += histogram[count];
    if (num_passed >= wanted) return count;
  }
  return width_;
}

Accuracy TrainingFreeFitter::MeasureSigns(size_t max_differences) const {
  Accuracy out = {.num_samples = samples_.num_samples,
                  .num_neurons = samples_.used_neurons()};
  ForEachScored([&](size_t n, size_t i) {
    const bool passes = differences_[n * num_neurons_ + i] <= max_differences;
    const bool fired = Fired(samples_, n, i);
    out.num_candidates += passes ? 1 : 0;
    out.num_fired += fired ? 1 : 0;
    out.num_hits += passes && fired ? 1 : 0;
  });
  return out;
}

size_t TrainingFreeFitter::MarginRank() const {
  const auto allowed = static_cast<uint64_t>(
      options_.max_bytes_share * static_cast<double>(data_.ffn_bytes));
  if (NumSignBytes() >= allowed || width_ % 32 != 0) return 0;
  return MaxRank(width_, samples_.ffn_width(), DType::kQ8_0,
                 allowed - NumSignBytes());
}

void TrainingFreeFitter::AddMargin(size_t rank, size_t max_differences,
                                   FittedTrainingFree& out) {
  const InputMoments moments = ComputeMoments(gemm_, data_.train);
  const GateImage image =
      FitImage(gemm_, data_.gate, num_neurons_, moments, rank, options_.seed);
  LowRank linear = LowRank::Zeros(width_, rank, num_neurons_);
  linear.up = image.up;
  linear.down = image.down;
  linear.down_bias = image.bias;
  const RoundedPredictor rounded = Round(linear, DType::kQ8_0);

  std::vector<float> all;
  std::vector<float> of_fired;
  std::vector<float> scores(samples_.num_samples * num_neurons_);
  ForEachLinearScores(gemm_, rounded, samples_,
                      [&](size_t begin, size_t count, const float* values) {
                        std::copy_n(values, count * num_neurons_,
                                    &scores[begin * num_neurons_]);
                      });
  ForEachScored([&](size_t n, size_t i) {
    const size_t k = n * num_neurons_ + i;
    if (differences_[k] > max_differences) return;
    all.push_back(scores[k]);
    if (Fired(samples_, n, i)) of_fired.push_back(scores[k]);
  });
  // What the signs lost is lost: the share of the rest that must be kept.
  RecallGoal goal = options_.goal;
  goal.recall = std::min(goal.recall / out.signs.recall(), 1.0);
  goal.recall_floor = std::min(goal.recall_floor / out.signs.recall(), 1.0);
  goal.max_candidates /= out.signs.recall();
  const float threshold = ChooseThreshold(all, of_fired, goal);
  out.accuracy = out.signs;
  out.accuracy.num_candidates = static_cast<uint64_t>(std::ranges::count_if(
      all, [=](float score) { return score >= threshold; }));
  out.accuracy.num_hits = static_cast<uint64_t>(std::ranges::count_if(
      of_fired, [=](float score) { return score >= threshold; }));

  for (float& bias : linear.down_bias) bias -= threshold;
  for (float& weight : linear.up) weight *= samples_.input_scale;
  out.rank = rank;
  out.num_margin_bytes =
      PredictorBytes(width_, rank, samples_.ffn_width(), DType::kQ8_0) -
      rank * sizeof(float);
  out.predictor->up = pack::EncodeMatrix(DType::kQ8_0, rank, width_, linear.up);
  out.predictor->down =
      pack::EncodeMatrix(DType::kQ8_0, num_neurons_, rank, linear.down);
  out.predictor->bias = linear.down_bias;
}

FittedTrainingFree TrainingFreeFitter::Fit() {
  FittedTrainingFree out;
  PackGate();
  CountDifferences();
  const size_t max_differences = FindMaxDifferences();
  out.num_sign_bytes = NumSignBytes();
  out.signs = MeasureSigns(max_differences);
  out.accuracy = out.signs;
  if (out.signs.num_fired == 0) return out;
  out.predictor = {.signs = signs_, .max_differences = max_differences};
  const size_t rank = MarginRank();
  if (rank > 0) AddMargin(rank, max_differences, out);
  if (out.accuracy.density() * out.accuracy.candidates_per_fired() >
      kMaxFreeShare) {
    out.predictor.reset();
  }
  return out;
}

}  // namespace

FittedTrainingFree FitTrainingFree(const Gemm& gemm, const FitData& data,
                                   const TrainingFreeOptions& options) {
  TC_CHECK(options.kernels != nullptr && data.held_out.width < 65536);
  return TrainingFreeFitter(gemm, data, options).Fit();
}

}  // namespace thermocline::training
