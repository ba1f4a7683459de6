#include "training/fit.h"

#include <algorithm>

#include "base/math.h"
#include "training/trainer.h"

namespace thermocline::training {
namespace {

// Of a full training: enough to order ranks.
constexpr size_t kTrialShare = 6;
constexpr size_t kMaxTrials = 4;
constexpr size_t kTrialSamples = 2048;  // held-out ones that a trial looks at
// Scores that are held at once where a threshold is chosen: 64 MiB.
constexpr size_t kMaxScores = size_t{1} << 24;
// Recall that rounding to 8 bits may cost.
constexpr double kRoundingLoss = 0.002;
// Candidates and what finds them must leave some neurons alone.
constexpr double kMaxCandidateShare = 0.8;
// A neuron that is missed costs more the more recall is asked for: with this
// weight scores near 0 are about where 0.97 of what fires is reached.
constexpr float kPositiveWeight = 8.0f;

size_t RankStep(DType dtype) {
  return dtype == DType::kQ8_0 ? InfoOf(dtype).block_elems : 8;
}

Samples ForThreshold(const Samples& samples) {
  return samples.Thinned(
      std::max<size_t>(1, kMaxScores / samples.used_neurons()));
}

// Fits the ranks of one layer.
class Fitter {
 public:
  Fitter(const Gemm& gemm, const FitData& data, const FitOptions& options)
      : gemm_(gemm),
        data_(data),
        options_(options),
        moments_(ComputeMoments(gemm, data.train)) {}

  Result<FittedPredictor> Fit();
  Result<LowRank> Trained(size_t rank, size_t num_steps);

 private:
  size_t NumTrialSteps() const {
    return std::max<size_t>(options_.num_steps / kTrialShare, 20);
  }
  size_t FirstRank(size_t max_rank, size_t step) const;
  // Candidates per fired neuron at the least recall, after a short training.
  Result<double> Try(size_t rank, DType dtype);
  Result<size_t> FindRank(size_t max_rank, DType dtype);
  bool LosesByRounding(const LowRank& predictor) const;
  // 16 bits where 8 lose recall, with as many ranks as the bytes allow.
  Status RefineType(uint64_t max_bytes, DType& dtype, LowRank& trained);
  void Finish(const LowRank& trained, DType dtype, FittedPredictor& out) const;

  const Gemm& gemm_;
  const FitData& data_;
  const FitOptions& options_;
  InputMoments moments_;
  GateImage image_;
  size_t num_steps_done_ = 0;
  // That may come, when every trial is made.
  size_t num_steps_at_most_ = options_.num_steps + kMaxTrials * NumTrialSteps();
  std::vector<RankTrial> trials_;
};

Result<LowRank> Fitter::Trained(size_t rank, size_t num_steps) {
  if (image_.rank < rank) {
    image_ = FitImage(gemm_, data_.gate, data_.train.num_neurons, moments_,
                      rank, options_.seed);
  }
  LowRank predictor = StartFrom(image_, moments_, rank);
  TrainOptions train = {.positive_weight = kPositiveWeight,
                        .num_steps = num_steps,
                        .seed = options_.seed,
                        .cancel = options_.cancel};
  if (options_.progress) {
    train.progress = [&](size_t num_done) {
      options_.progress(num_steps_done_ + num_done, num_steps_at_most_);
    };
  }
  TC_RETURN_IF_ERROR(Train(gemm_, data_.train, train, predictor));
  num_steps_done_ += num_steps;
  return predictor;
}

// Layers that are denser, or whose activations are spread more evenly, begin
// wider (PowerInfer 5.1, Figure 9).
size_t Fitter::FirstRank(size_t max_rank, size_t step) const {
  const Accuracy seen = {.num_samples = data_.held_out.num_samples,
                         .num_neurons = data_.held_out.used_neurons(),
                         .num_fired = CountFired(data_.held_out)};
  const double share = std::clamp(0.4 + 2.0 * seen.density(), 0.0, 1.0) *
                       std::clamp(0.5 + 1.5 * data_.skew, 0.0, 1.0);
  const auto rank = static_cast<size_t>(share * static_cast<double>(max_rank));
  return std::clamp(RoundUp(rank, step), step, max_rank);
}

Result<double> Fitter::Try(size_t rank, DType dtype) {
  TC_ASSIGN_OR_RETURN(const LowRank trained, Trained(rank, NumTrialSteps()));
  const RoundedPredictor rounded = Round(trained, dtype);
  const Samples samples = ForThreshold(data_.held_out).Thinned(kTrialSamples);
  const RecallGoal floor = {.recall = options_.goal.recall_floor,
                            .recall_floor = options_.goal.recall_floor};
  const Accuracy accuracy = Measure(
      gemm_, rounded, samples, ThresholdFor(gemm_, rounded, samples, floor));
  trials_.push_back({rank, accuracy.candidates_per_fired()});
  return accuracy.candidates_per_fired();
}

Result<size_t> Fitter::FindRank(size_t max_rank, DType dtype) {
  const size_t step = RankStep(dtype);
  size_t rank = FirstRank(max_rank, step);
  TC_ASSIGN_OR_RETURN(double candidates, Try(rank, dtype));
  const bool holds_at_first = candidates <= options_.goal.max_candidates;
  while (trials_.size() < kMaxTrials) {
    const size_t next =
        holds_at_first ? rank * 3 / 4 / step * step
                       : std::min(RoundUp(rank * 4 / 3 + 1, step), max_rank);
    if (next == 0 || next == rank) return rank;
    // The largest needs no trial: nothing larger could be chosen.
    if (!holds_at_first && next == max_rank) return next;
    TC_ASSIGN_OR_RETURN(candidates, Try(next, dtype));
    const bool holds = candidates <= options_.goal.max_candidates;
    if (holds_at_first && !holds) return rank;
    rank = next;
    if (!holds_at_first && holds) return rank;
  }
  return rank;
}

bool Fitter::LosesByRounding(const LowRank& predictor) const {
  const Samples samples = ForThreshold(data_.held_out).Thinned(kTrialSamples);
  const RoundedPredictor fine = Round(predictor, DType::kF16);
  const float threshold = ThresholdFor(gemm_, fine, samples, options_.goal);
  const double recall = Measure(gemm_, fine, samples, threshold).recall();
  return Measure(gemm_, Round(predictor, DType::kQ8_0), samples, threshold)
             .recall() < recall - kRoundingLoss;
}

Status Fitter::RefineType(uint64_t max_bytes, DType& dtype, LowRank& trained) {
  if (dtype != DType::kQ8_0 || !LosesByRounding(trained)) return {};
  const size_t fitting =
      MaxRank(trained.width, data_.train.ffn_width(), DType::kF16, max_bytes);
  if (fitting == 0) return {};
  dtype = DType::kF16;
  if (fitting >= trained.rank) return {};
  // A part of the work of its own: nobody expected it.
  num_steps_done_ = 0;
  num_steps_at_most_ = options_.num_steps;
  TC_ASSIGN_OR_RETURN(trained, Trained(fitting, options_.num_steps));
  return {};
}

void Fitter::Finish(const LowRank& trained, DType dtype,
                    FittedPredictor& out) const {
  out.rank = trained.rank;
  out.dtype = dtype;
  out.num_bytes = PredictorBytes(trained.width, trained.rank,
                                 data_.train.ffn_width(), dtype);
  LowRank folded = trained;
  // The engine does not scale its inputs.
  RoundedPredictor rounded = Round(trained, dtype);
  const float threshold =
      ThresholdFor(gemm_, rounded, ForThreshold(data_.held_out), options_.goal);
  for (float& bias : folded.down_bias) bias -= threshold;
  rounded.values.down_bias = folded.down_bias;
  out.accuracy = Measure(gemm_, rounded, data_.held_out, 0.0f);
  for (float& weight : folded.up) weight *= data_.train.input_scale;
  out.predictor = {
      .up = pack::EncodeMatrix(dtype, folded.rank, folded.width, folded.up),
      .up_bias = folded.up_bias,
      .down = pack::EncodeMatrix(dtype, folded.num_neurons, folded.rank,
                                 folded.down),
      .down_bias = folded.down_bias};
}

Result<FittedPredictor> Fitter::Fit() {
  FittedPredictor out;
  out.accuracy = {.num_samples = data_.held_out.num_samples,
                  .num_neurons = data_.held_out.used_neurons(),
                  .num_fired = CountFired(data_.held_out)};
  const size_t width = data_.train.width;
  const size_t ffn_width = data_.train.ffn_width();
  if (CountFired(data_.train) == 0 || out.accuracy.num_fired == 0) {
    out.reason = "nothing fired";
    return out;
  }
  const auto max_bytes = static_cast<uint64_t>(
      options_.max_bytes_share * static_cast<double>(data_.ffn_bytes));
  DType dtype = SmallestType(width);
  size_t max_rank = MaxRank(width, ffn_width, dtype, max_bytes);
  if (max_rank == 0 && dtype == DType::kQ8_0) {
    dtype = DType::kF16;  // finer steps of rank
    max_rank = MaxRank(width, ffn_width, dtype, max_bytes);
  }
  if (max_rank == 0) {
    out.reason = "no rank is within the bytes allowed";
    return out;
  }
  image_ = FitImage(gemm_, data_.gate, data_.train.num_neurons, moments_,
                    max_rank, options_.seed);
  TC_ASSIGN_OR_RETURN(const size_t rank, FindRank(max_rank, dtype));
  TC_ASSIGN_OR_RETURN(LowRank trained, Trained(rank, options_.num_steps));
  TC_RETURN_IF_ERROR(RefineType(max_bytes, dtype, trained));
  Finish(trained, dtype, out);
  out.trials = trials_;
  if (out.accuracy.density() * out.accuracy.candidates_per_fired() >
      kMaxCandidateShare) {
    out.predictor.reset();
    out.reason = "nearly every neuron would be a candidate";
  }
  return out;
}

}  // namespace

uint64_t PredictorBytes(size_t width, size_t rank, size_t num_neurons,
                        DType dtype) {
  return rank * BytesOf(dtype, width) + num_neurons * BytesOf(dtype, rank) +
         (rank + num_neurons) * sizeof(float);
}

DType SmallestType(size_t width) {
  return width % InfoOf(DType::kQ8_0).block_elems == 0 ? DType::kQ8_0
                                                       : DType::kF16;
}

size_t MaxRank(size_t width, size_t num_neurons, DType dtype,
               uint64_t max_bytes) {
  if (width % InfoOf(dtype).block_elems != 0) return 0;
  const size_t step = RankStep(dtype);
  const size_t limit = std::min(width, num_neurons) / step * step;
  size_t rank = 0;
  while (rank + step <= limit &&
         PredictorBytes(width, rank + step, num_neurons, dtype) <= max_bytes) {
    rank += step;
  }
  return rank;
}

Result<FittedPredictor> FitPredictor(const Gemm& gemm, const FitData& data,
                                     const FitOptions& options) {
  return Fitter(gemm, data, options).Fit();
}

Result<Accuracy> MeasureAhead(const Gemm& gemm, const FitData& data,
                              size_t rank, double candidates_per_fired,
                              const FitOptions& options) {
  TC_ASSIGN_OR_RETURN(
      const LowRank trained,
      Fitter(gemm, data, options).Trained(rank, options.num_steps));
  const RoundedPredictor rounded = Round(trained, DType::kF16);
  // So many candidates, whatever recall that gives.
  const RecallGoal goal = {.recall = 1.0,
                           .recall_floor = 0.0,
                           .max_candidates = candidates_per_fired};
  const Samples samples = ForThreshold(data.held_out).Thinned(kTrialSamples);
  return Measure(gemm, rounded, samples,
                 ThresholdFor(gemm, rounded, samples, goal));
}

}  // namespace thermocline::training
