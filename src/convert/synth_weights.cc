#include "convert/synth_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "convert/synth_math.h"

namespace thermocline::convert {
namespace {

// What all blocks but the first attention add to the stream, together.
constexpr double kNoise = 0.02;
// Mean square of an active neuron's hidden value, about.
constexpr double kHiddenSquare = 0.25;
// The logit of the next word, if the stream were the newest token alone.
constexpr double kTopLogit = 24.0;
constexpr double kRouterSpread = 2.0;
constexpr uint64_t kUnusedPositions = 2;  // rows before position 0's

// For each rank of busyness the neuron's place: a random order per expert.
std::vector<uint32_t> MakeRanks(const SynthPlan& plan, uint64_t layer_idx) {
  const uint64_t ffn_width = plan.shape.ffn_width;
  std::vector<uint32_t> ranks(plan.shape.num_neurons());
  for (uint64_t begin = 0; begin < ranks.size(); begin += ffn_width) {
    const std::span part = std::span(ranks).subspan(begin, ffn_width);
    std::iota(part.begin(), part.end(), 0u);
    Random random =
        RandomFor(plan.options.seed, SynthPart::kNeuronOrder, layer_idx, begin);
    for (uint64_t i = 0; i + 1 < ffn_width; ++i) {
      std::swap(part[i], part[i + random.Below(ffn_width - i)]);
    }
  }
  return ranks;
}

// Nearly normal, exact in floats: a sum of four uniform numbers.
float SumOfFour(Random& random) {
  uint64_t word = random.Next();
  int32_t sum = -2 * 0xffff;
  for (int i = 0; i < 4; ++i, word >>= 16) {
    sum += static_cast<int32_t>(word & 0xffff);
  }
  return static_cast<float>(sum);
}

uint64_t SeedOf(const SynthPlan& plan, SynthPart part) {
  return RandomFor(plan.options.seed, part, 0, 0).Next();
}

}  // namespace

SynthWeights::SynthWeights(SynthPlan plan)
    : plan_(std::move(plan)),
      vocab_(MakeSynthVocab(plan_.shape.vocab_size)),
      words_(vocab_, SeedOf(plan_, SynthPart::kWords)),
      basis_(plan_.basis_width(), plan_.num_directions,
             SeedOf(plan_, SynthPart::kBasis)) {
  for (uint64_t i = 0; i < plan_.num_layers; ++i) {
    ranks_.push_back(MakeRanks(plan_, i));
  }
}

double SynthWeights::Threshold(uint64_t layer_idx, uint64_t neuron) const {
  return plan_.thresholds[ranks_[layer_idx][neuron]];
}

double SynthWeights::CandidateThreshold(uint64_t layer_idx,
                                        uint64_t neuron) const {
  return plan_.candidate_thresholds[ranks_[layer_idx][neuron]];
}

void SynthWeights::Constant(double factor, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  for (uint64_t j = 0; j < plan_.constant_width; ++j) {
    row[j] = static_cast<float>(j % 2 == 0 ? factor : -factor);
  }
}

void SynthWeights::AddBasis(double factor, std::span<const float> coefs,
                            std::span<float> row) const {
  const auto scale = static_cast<float>(factor);
  const std::span part = row.subspan(plan_.basis_begin());
  basis_.Combine(coefs, part);
  for (float& x : part) x *= scale;
}

void SynthWeights::Coefs(SynthPart part, uint64_t place, uint64_t index,
                         std::span<float> coefs) const {
  Random random = RandomFor(plan_.options.seed, part, place, index);
  double squares = 0.0;
  for (float& c : coefs) {
    c = SumOfFour(random);
    squares += static_cast<double>(c) * c;
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
  for (float& c : coefs) c *= scale;
}

double SynthWeights::InputRms(uint64_t layer_idx) const {
  return plan_.ReadsEmbedding(layer_idx) ? plan_.embedding_rms
                                         : plan_.stream_rms;
}

double SynthWeights::BasisGain(uint64_t layer_idx, double rms) const {
  const double deviation =
      plan_.scale *
      (plan_.ReadsEmbedding(layer_idx) ? plan_.window.token_gain : 1.0);
  return rms * std::sqrt(static_cast<double>(plan_.num_directions)) /
         (deviation * static_cast<double>(plan_.basis_width()));
}

double SynthWeights::ConstantGain(double rms) const {
  return rms / (static_cast<double>(plan_.constant_width) * plan_.scale *
                plan_.sign_gain);
}

void SynthWeights::Embedding(uint64_t token, std::span<float> row) const {
  std::vector<float> coefs(plan_.num_directions);
  Coefs(SynthPart::kEmbedding, 0, token, coefs);
  Constant(plan_.scale, row);
  AddBasis(plan_.scale * plan_.window.token_gain, coefs, row);
}

void SynthWeights::Position(uint64_t table_row, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  const double position =
      static_cast<double>(table_row) - static_cast<double>(kUnusedPositions);
  for (size_t i = 0; i < plan_.frequencies.size(); ++i) {
    const double angle = plan_.frequencies[i] * position;
    const size_t at = plan_.constant_width + 2 * i;
    row[at] = static_cast<float>(plan_.scale * StableCos(angle));
    row[at + 1] = static_cast<float>(plan_.scale * StableSin(angle));
  }
}

void SynthWeights::Head(uint64_t token, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  const auto before = words_.Before(static_cast<text::TokenId>(token));
  if (!before) return;
  std::vector<float> coefs(plan_.num_directions);
  Coefs(SynthPart::kEmbedding, 0, static_cast<uint64_t>(*before), coefs);
  AddBasis(kTopLogit * plan_.stream_rms /
               (plan_.scale * static_cast<double>(plan_.basis_width())),
           coefs, row);
}

void SynthWeights::QueryOrKey(uint64_t row_idx, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  const Window& window = plan_.window;
  const uint64_t head_width = plan_.shape.head_width();
  const uint64_t i = row_idx % head_width;
  // Scores are products over all frequencies, divided by sqrt(K).
  const double factor =
      std::sqrt(kScorePeak * std::sqrt(static_cast<double>(head_width)) /
                static_cast<double>(window.num_frequencies));
  if (plan_.has_positions()) {
    if (i >= 2 * window.num_frequencies) return;
    row[plan_.constant_width + i] =
        static_cast<float>(factor * plan_.embedding_rms / plan_.scale);
    return;
  }
  // A pair (factor, 0), which RoPE turns.
  const bool is_neox = plan_.shape.arch().rope == RopeKind::kNeox;
  const bool is_first = is_neox ? i < head_width / 2 : i % 2 == 0;
  const uint64_t pair = is_neox ? i : i / 2;
  if (!is_first || pair < window.first_frequency ||
      pair >= window.first_frequency + window.num_frequencies) {
    return;
  }
  Constant(factor * ConstantGain(plan_.embedding_rms), row);
}

void SynthWeights::Value(uint64_t row_idx, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  if (row_idx >= plan_.num_directions) return;
  const double factor = plan_.embedding_rms *
                        std::sqrt(static_cast<double>(plan_.num_directions)) /
                        (static_cast<double>(plan_.basis_width()) *
                         plan_.window.token_gain * plan_.scale);
  basis_.Direction(row_idx, static_cast<float>(factor),
                   row.subspan(plan_.basis_begin()));
}

void SynthWeights::AttentionOut(uint64_t dim, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  if (dim < plan_.basis_begin()) return;
  const SynthShape& shape = plan_.shape;
  const auto factor =
      static_cast<float>(plan_.window.window_gain * plan_.scale /
                         std::sqrt(static_cast<double>(plan_.num_directions)));
  const uint64_t group = shape.num_heads / shape.num_kv_heads;
  for (uint64_t k = 0; k < plan_.num_directions; ++k) {
    // The first head that reads the direction's KV head.
    const uint64_t head = k / shape.head_width() * group;
    const int sign = basis_.Sign(k, dim - plan_.basis_begin());
    row[head * shape.head_width() + k % shape.head_width()] =
        sign > 0 ? factor : -factor;
  }
}

void SynthWeights::Gate(uint64_t layer_idx, uint64_t neuron,
                        std::span<float> row) const {
  std::vector<float> coefs(plan_.num_directions);
  Coefs(SynthPart::kGate, layer_idx, neuron, coefs);
  const double rms = InputRms(layer_idx);
  Constant(-Threshold(layer_idx, neuron) * ConstantGain(rms), row);
  AddBasis(BasisGain(layer_idx, rms), coefs, row);
}

void SynthWeights::Router(uint64_t layer_idx, uint64_t expert,
                          std::span<float> row) const {
  std::vector<float> coefs(plan_.num_directions);
  Coefs(SynthPart::kRouter, layer_idx, expert, coefs);
  std::fill(row.begin(), row.end(), 0.0f);
  AddBasis(kRouterSpread * BasisGain(layer_idx, InputRms(layer_idx)), coefs,
           row);
}

void SynthWeights::PredictorUp(uint64_t layer_idx, uint64_t row_idx,
                               Reads reads, std::span<float> row) const {
  TC_CHECK(row_idx < plan_.needed_rank());
  const uint64_t num_directions = plan_.num_directions;
  const double rms = reads == Reads::kNormed ? InputRms(layer_idx) : 1.0;
  if (row_idx >= 2 * num_directions) {
    Constant(ConstantGain(rms), row);  // reads 1
    return;
  }
  std::fill(row.begin(), row.end(), 0.0f);
  const auto factor = static_cast<float>(BasisGain(layer_idx, rms));
  basis_.Direction(row_idx % num_directions,
                   row_idx < num_directions ? factor : -factor,
                   row.subspan(plan_.basis_begin()));
}

void SynthWeights::PredictorDown(uint64_t layer_idx, uint64_t neuron,
                                 std::span<float> row) const {
  const uint64_t num_directions = plan_.num_directions;
  std::fill(row.begin(), row.end(), 0.0f);
  // relu(u) - relu(-u) = u
  const std::span coefs = row.first(num_directions);
  Coefs(SynthPart::kGate, layer_idx, neuron, coefs);
  for (uint64_t k = 0; k < num_directions; ++k) {
    row[num_directions + k] = -row[k];
  }
  const uint64_t num_constant = plan_.needed_rank() - 2 * num_directions;
  const double share = -CandidateThreshold(layer_idx, neuron) /
                       static_cast<double>(num_constant);
  std::fill_n(row.begin() + static_cast<std::ptrdiff_t>(2 * num_directions),
              num_constant, static_cast<float>(share));
}

double SynthWeights::reading_deviation() const {
  return 1.0 / std::sqrt(static_cast<double>(plan_.shape.width));
}

double SynthWeights::down_deviation() const {
  const double num_active =
      plan_.options.density * static_cast<double>(plan_.shape.ffn_width);
  return kNoise * plan_.scale /
         std::sqrt(kHiddenSquare * num_active *
                   static_cast<double>(plan_.num_layers));
}

double SynthWeights::attention_out_deviation() const {
  return kNoise * plan_.scale /
         std::sqrt(static_cast<double>(plan_.shape.attention_width() *
                                       plan_.num_layers));
}

}  // namespace thermocline::convert
