#include "training/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "neuron/neuron_set.h"

namespace thermocline::training {
namespace {

constexpr float kBeta1 = 0.9f;
constexpr float kBeta2 = 0.99f;
constexpr float kEpsilon = 1e-8f;
constexpr size_t kBatchGrain = 16;   // of a batch, for one thread
constexpr size_t kColumnGrain = 64;  // of neurons
constexpr size_t kAdamGrain = 8192;  // weights

// e^x for |x| <= 80 within 3e-7 of it, without a call or a branch, so that a
// compiler makes vectors of loops around it: 2^n by the exponent's bits, n the
// nearest integer to x / ln 2, times a polynomial for the rest.
inline float FastExp(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
  x = std::min(std::max(x, -80.0f), 80.0f);
  const float n = (x * std::numbers::log2e_v<float> + kRounder) - kRounder;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  const int32_t exponent = (static_cast<int32_t>(n) + 127) << 23;
  return y * std::bit_cast<float>(exponent);
}

// Scores of neurons [first, first + count) to the loss's derivatives, for one
// sample.
void DifferentiateLoss(const uint64_t* fired, size_t first, size_t count,
                       float positive_weight, float scale, float* scores) {
  for (size_t i = 0; i < count; ++i) {
    scores[i] = scale / (1.0f + FastExp(-scores[i]));
  }
  neuron::ForEachMember(fired, first, first + count, [&](size_t i) {
    float& score = scores[i - first];
    score = positive_weight * (score - scale);
  });
}

// sums[i] = sum over rows of values[row, i].
void SumColumns(const Gemm& gemm, const float* values, size_t num_rows,
                size_t num_columns, float* sums) {
  gemm.pool().ParallelFor(
      num_columns, kColumnGrain, [&](size_t begin, size_t end, int) {
        std::fill(sums + begin, sums + end, 0.0f);
        for (size_t row = 0; row < num_rows; ++row) {
          const float* values_of_row = values + row * num_columns;
          for (size_t i = begin; i < end; ++i) sums[i] += values_of_row[i];
        }
      });
}

// First and second moments of the gradients of one array of weights.
struct Moments {
  explicit Moments(size_t n) : first(n), second(n) {}
  std::vector<float> first, second;
};

// How far a step goes: the rate, and the corrections for moments that began
// at 0.
struct StepSize {
  float rate = 0;
  float first_correction = 1;
  float second_correction = 1;
};

void AdamStep(const Gemm& gemm, const std::vector<float>& gradients,
              const StepSize& step, Moments& moments,
              std::vector<float>& weights) {
  gemm.pool().ParallelFor(
      weights.size(), kAdamGrain, [&](size_t begin, size_t end, int) {
        const float* g = gradients.data();
        float* first = moments.first.data();
        float* second = moments.second.data();
        float* w = weights.data();
        for (size_t i = begin; i < end; ++i) {
          first[i] = kBeta1 * first[i] + (1 - kBeta1) * g[i];
          second[i] = kBeta2 * second[i] + (1 - kBeta2) * g[i] * g[i];
          const float mean = first[i] * step.first_correction;
          const float size =
              std::sqrt(second[i] * step.second_correction) + kEpsilon;
          w[i] -= step.rate * mean / size;
        }
      });
}

class Adam {
 public:
  explicit Adam(const LowRank& predictor)
      : up_(predictor.up.size()),
        up_bias_(predictor.up_bias.size()),
        down_(predictor.down.size()),
        down_bias_(predictor.down_bias.size()) {}

  void Step(const Gemm& gemm, const LowRank& gradients, float rate,
            LowRank& predictor) {
    beta1_power_ *= double{kBeta1};
    beta2_power_ *= double{kBeta2};
    const StepSize step = {
        .rate = rate,
        .first_correction = static_cast<float>(1.0 / (1.0 - beta1_power_)),
        .second_correction = static_cast<float>(1.0 / (1.0 - beta2_power_))};
    AdamStep(gemm, gradients.up, step, up_, predictor.up);
    AdamStep(gemm, gradients.up_bias, step, up_bias_, predictor.up_bias);
    AdamStep(gemm, gradients.down, step, down_, predictor.down);
    AdamStep(gemm, gradients.down_bias, step, down_bias_, predictor.down_bias);
  }

 private:
  Moments up_, up_bias_, down_, down_bias_;
  double beta1_power_ = 1.0;
  double beta2_power_ = 1.0;
};

// Samples in an order that is drawn anew for every round.
class Shuffler {
 public:
  Shuffler(size_t num_samples, uint64_t seed)
      : order_(num_samples), next_(num_samples), random_(seed) {
    std::iota(order_.begin(), order_.end(), uint32_t{0});
  }

  size_t Next() {
    if (next_ == order_.size()) {
      for (size_t i = order_.size(); i > 1; --i) {
        std::swap(order_[i - 1], order_[random_.Below(i)]);
      }
      next_ = 0;
    }
    return order_[next_++];
  }

 private:
  std::vector<uint32_t> order_;
  size_t next_;
  Random random_;
};

void LoadBatch(const Gemm& gemm, const Samples& samples,
               const std::vector<size_t>& picked, TrainScratch& scratch) {
  gemm.pool().ParallelFor(
      picked.size(), kBatchGrain, [&](size_t begin, size_t end, int) {
        for (size_t b = begin; b < end; ++b) {
          samples.LoadInput(picked[b], scratch.x.data() + b * samples.width);
        }
      });
}

// A short rise, then half a cosine down to 0.
float RateAt(const TrainOptions& options, size_t step) {
  const double warm_up = std::min(
      1.0, static_cast<double>(step + 1) /
               std::max(1.0, 0.05 * static_cast<double>(options.num_steps)));
  const double done =
      static_cast<double>(step) / static_cast<double>(options.num_steps);
  return options.learning_rate *
         static_cast<float>(warm_up * 0.5 *
                            (1.0 + std::cos(std::numbers::pi * done)));
}

// Gradients of one batch, expert by expert: its neurons, for the samples that
// use it, and what they ask of the hidden layer.
class Gradients {
 public:
  Gradients(const Gemm& gemm, const LowRank& predictor, const Samples& samples,
            const std::vector<size_t>& picked, float positive_weight,
            TrainScratch& scratch, LowRank& out)
      : gemm_(gemm),
        predictor_(predictor),
        samples_(samples),
        picked_(picked),
        positive_weight_(positive_weight),
        scratch_(scratch),
        out_(out) {}

  void Compute();

 private:
  void GatherGroup(size_t expert_idx);
  void ComputeScores(size_t first);
  void Differentiate(size_t first);
  // Leaves the group's part of the hidden layer's gradient in its place.
  void AddGroup(size_t first);

  size_t rank() const { return predictor_.rank; }
  size_t count() const { return samples_.ffn_width(); }

  const Gemm& gemm_;
  const LowRank& predictor_;
  const Samples& samples_;
  const std::vector<size_t>& picked_;
  float positive_weight_;
  TrainScratch& scratch_;
  LowRank& out_;
};

void Gradients::GatherGroup(size_t expert_idx) {
  scratch_.group.clear();
  for (size_t b = 0; b < picked_.size(); ++b) {
    if (samples_.Uses(picked_[b], expert_idx)) scratch_.group.push_back(b);
  }
  const size_t num_rows = scratch_.group.size();
  scratch_.group_hidden.resize(num_rows * rank());
  scratch_.group_gradient.resize(num_rows * rank());
  scratch_.scores.resize(num_rows * count());
  for (size_t i = 0; i < num_rows; ++i) {
    std::copy_n(&scratch_.hidden[scratch_.group[i] * rank()], rank(),
                &scratch_.group_hidden[i * rank()]);
  }
}

void Gradients::ComputeScores(size_t first) {
  const size_t num_rows = scratch_.group.size();
  for (size_t i = 0; i < num_rows; ++i) {
    std::copy_n(&predictor_.down_bias[first], count(),
                &scratch_.scores[i * count()]);
  }
  gemm_.Multiply({scratch_.group_hidden.data(), rank()},
                 {&predictor_.down[first * rank()], rank(), Op::kTransposed},
                 num_rows, count(), rank(), 1.0f, scratch_.scores.data(),
                 count());
}

void Gradients::Differentiate(size_t first) {
  const float scale = 1.0f / static_cast<float>(picked_.size());
  gemm_.pool().ParallelFor(
      scratch_.group.size(), kBatchGrain, [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) {
          DifferentiateLoss(samples_.fired_of(picked_[scratch_.group[i]]),
                            first, count(), positive_weight_, scale,
                            &scratch_.scores[i * count()]);
        }
      });
}

void Gradients::AddGroup(size_t first) {
  const size_t num_rows = scratch_.group.size();
  const float* derivatives = scratch_.scores.data();
  SumColumns(gemm_, derivatives, num_rows, count(), &out_.down_bias[first]);
  gemm_.Multiply({derivatives, count(), Op::kTransposed},
                 {scratch_.group_hidden.data(), rank()}, count(), rank(),
                 num_rows, 0.0f, &out_.down[first * rank()], rank());
  gemm_.Multiply({derivatives, count()},
                 {&predictor_.down[first * rank()], rank()}, num_rows, rank(),
                 count(), 0.0f, scratch_.group_gradient.data(), rank());
  for (size_t i = 0; i < num_rows; ++i) {
    float* to = &scratch_.hidden_gradient[scratch_.group[i] * rank()];
    const float* from = &scratch_.group_gradient[i * rank()];
    for (size_t r = 0; r < rank(); ++r) to[r] += from[r];
  }
}

void Gradients::Compute() {
  const size_t batch = picked_.size();
  scratch_.hidden.resize(batch * rank());
  scratch_.hidden_gradient.assign(batch * rank(), 0.0f);
  Hidden(gemm_, predictor_, scratch_.x.data(), batch, scratch_.hidden.data());
  for (size_t e = 0; e < samples_.num_experts; ++e) {
    const size_t first = e * count();
    GatherGroup(e);
    if (scratch_.group.empty()) {
      std::fill_n(&out_.down[first * rank()], count() * rank(), 0.0f);
      std::fill_n(&out_.down_bias[first], count(), 0.0f);
      continue;
    }
    ComputeScores(first);
    Differentiate(first);
    AddGroup(first);
  }
  float* hidden_gradient = scratch_.hidden_gradient.data();
  for (size_t i = 0; i < batch * rank(); ++i) {
    if (scratch_.hidden[i] <= 0.0f) hidden_gradient[i] = 0.0f;
  }
  SumColumns(gemm_, hidden_gradient, batch, rank(), out_.up_bias.data());
  gemm_.Multiply({hidden_gradient, rank(), Op::kTransposed},
                 {scratch_.x.data(), predictor_.width}, rank(),
                 predictor_.width, batch, 0.0f, out_.up.data(),
                 predictor_.width);
}

}  // namespace

void ComputeGradients(const Gemm& gemm, const LowRank& predictor,
                      const Samples& samples, const std::vector<size_t>& picked,
                      float positive_weight, TrainScratch& scratch,
                      LowRank& gradients) {
  Gradients(gemm, predictor, samples, picked, positive_weight, scratch,
            gradients)
      .Compute();
}

Status Train(const Gemm& gemm, const Samples& samples,
             const TrainOptions& options, LowRank& predictor) {
  TC_CHECK(samples.num_samples > 0 && samples.width == predictor.width &&
           samples.num_neurons == predictor.num_neurons);
  const size_t batch = std::min(options.batch, samples.num_samples);
  TrainScratch scratch;
  scratch.x.resize(batch * samples.width);
  LowRank gradients =
      LowRank::Zeros(predictor.width, predictor.rank, predictor.num_neurons);
  Adam adam(predictor);
  Shuffler shuffler(samples.num_samples, options.seed);
  std::vector<size_t> picked(batch);
  for (size_t step = 0; step < options.num_steps; ++step) {
    if (options.cancel != nullptr && options.cancel->load()) {
      return Fail(ErrorCode::kCancelled, "training was interrupted");
    }
    for (size_t& sample_idx : picked) sample_idx = shuffler.Next();
    LoadBatch(gemm, samples, picked, scratch);
    ComputeGradients(gemm, predictor, samples, picked, options.positive_weight,
                     scratch, gradients);
    adam.Step(gemm, gradients, RateAt(options, step), predictor);
    if (options.progress) options.progress(step + 1);
  }
  return {};
}

}  // namespace thermocline::training
