#include "synth/weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "synth/math.h"

namespace thermocline::synth {
namespace {

// What all blocks but the first attention add to the stream, together.
constexpr double kNoise = 0.02;
// Mean square of an active neuron's hidden value, about: of ReLU, and of its
// square.
constexpr double kHiddenSquare = 0.25;
constexpr double kSquaredHiddenSquare = 0.7;
// The logit of the next word, if the stream were the newest token alone.
constexpr double kTopLogit = 24.0;
constexpr double kRouterSpread = 2.0;
constexpr uint64_t kUnusedPositions = 2;  // rows before position 0's

// A random order of all that are in `ranks`.
void Shuffle(Random random, std::span<uint32_t> ranks) {
  std::iota(ranks.begin(), ranks.end(), 0u);
  for (size_t i = 0; i + 1 < ranks.size(); ++i) {
    std::swap(ranks[i], ranks[i + random.Below(ranks.size() - i)]);
  }
}

// For each rank of busyness the neuron's place: a random order per expert.
// `order` counts layers, topic by topic.
std::vector<uint32_t> MakeRanks(const SynthPlan& plan, uint64_t order) {
  const SynthPart part = order < plan.num_layers ? SynthPart::kNeuronOrder
                                                 : SynthPart::kTopicOrder;
  const uint64_t ffn_width = plan.shape.ffn_width;
  std::vector<uint32_t> ranks(plan.shape.num_neurons());
  for (uint64_t begin = 0; begin < ranks.size(); begin += ffn_width) {
    Shuffle(RandomFor(plan.options.seed, part, order, begin),
            std::span(ranks).subspan(begin, ffn_width));
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
      basis_(plan_.basis_width(), plan_.all_directions(),
             SeedOf(plan_, SynthPart::kBasis)) {
  for (uint64_t i = 0; i < plan_.num_layers * num_topics(); ++i) {
    ranks_.push_back(MakeRanks(plan_, i));
    auto& experts = expert_ranks_.emplace_back(plan_.router.biases.size());
    Shuffle(RandomFor(plan_.options.seed, SynthPart::kExpertOrder, i, 0),
            experts);
  }
}

double SynthWeights::FiringShare(uint64_t layer_idx, uint64_t neuron) const {
  const SynthShape& shape = plan_.shape;
  const uint64_t expert = neuron / shape.ffn_width;
  double sum = 0.0;
  for (uint64_t topic = 0; topic < num_topics(); ++topic) {
    const uint64_t order = OrderOf(layer_idx, topic);
    const double share = plan_.shares[ranks_[order][neuron]];
    sum += plan_.router.shares.empty()
               ? share
               : share * plan_.router.shares[expert_ranks_[order][expert]];
  }
  const double mean = sum / static_cast<double>(num_topics());
  if (shape.num_experts == 0 || !plan_.router.shares.empty()) return mean;
  return mean * static_cast<double>(shape.experts_used) /
         static_cast<double>(shape.num_experts);
}

double SynthWeights::Threshold(uint64_t layer_idx, uint64_t neuron,
                               uint64_t topic) const {
  return plan_.thresholds[ranks_[OrderOf(layer_idx, topic)][neuron]];
}

double SynthWeights::CandidateThreshold(uint64_t layer_idx, uint64_t neuron,
                                        uint64_t topic) const {
  return plan_.candidate_thresholds[ranks_[OrderOf(layer_idx, topic)][neuron]];
}

uint64_t SynthWeights::TopicOf(uint64_t token) const {
  return words_.TopicOf(static_cast<text::TokenId>(token), num_topics());
}

void SynthWeights::Constant(double factor, uint64_t topic,
                            std::span<float> row) const {
  const uint64_t begin = topic * plan_.constant_width;
  for (uint64_t j = 0; j < plan_.constant_width; ++j) {
    row[begin + j] = static_cast<float>(j % 2 == 0 ? factor : -factor);
  }
}

void SynthWeights::AddBasis(double factor, std::span<const float> coefs,
                            std::span<float> row) const {
  const auto scale = static_cast<float>(factor);
  const std::span part = row.subspan(plan_.basis_begin());
  std::vector<float> all(coefs.begin(), coefs.end());
  all.resize(basis_.count());
  basis_.Combine(all, part);
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
  std::vector<float> coefs(plan_.all_directions());
  const std::span all(coefs);
  Coefs(SynthPart::kEmbedding, 0, token, all.first(plan_.num_directions));
  const std::span own = all.subspan(plan_.num_directions);
  if (!own.empty()) {
    Coefs(SynthPart::kExpertEmbedding, 0, token, own);
    const auto gain = static_cast<float>(plan_.router.window.token_gain /
                                         plan_.window.token_gain);
    for (float& c : own) c *= gain;
  }
  std::fill(row.begin(), row.end(), 0.0f);
  Constant(plan_.scale, TopicOf(token), row);
  AddBasis(plan_.scale * plan_.window.token_gain, coefs, row);
}

void SynthWeights::Position(uint64_t table_row, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  const double position =
      static_cast<double>(table_row) - static_cast<double>(kUnusedPositions);
  for (size_t i = 0; i < plan_.frequencies.size(); ++i) {
    const double angle = plan_.frequencies[i] * position;
    const size_t at = plan_.position_begin() + 2 * i;
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

const Window& SynthWeights::WindowOf(uint64_t direction) const {
  return direction < plan_.num_directions ? plan_.window : plan_.router.window;
}

std::optional<uint64_t> SynthWeights::DirectionOf(uint64_t value_row) const {
  if (value_row < plan_.num_directions) return value_row;
  const uint64_t begin = plan_.router.first_kv_head * plan_.shape.head_width();
  if (value_row < begin || value_row >= begin + plan_.router.num_directions) {
    return std::nullopt;
  }
  return plan_.num_directions + value_row - begin;
}

void SynthWeights::QueryOrKey(uint64_t kv_head, uint64_t i,
                              std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  const uint64_t head_width = plan_.shape.head_width();
  const bool is_routers =
      plan_.router.num_directions > 0 && kv_head >= plan_.router.first_kv_head;
  const Window& window = is_routers ? plan_.router.window : plan_.window;
  // Scores are products over all frequencies, divided by sqrt(K).
  const double factor =
      std::sqrt(kScorePeak * std::sqrt(static_cast<double>(head_width)) /
                static_cast<double>(window.num_frequencies));
  if (plan_.has_positions()) {
    if (i >= 2 * window.num_frequencies) return;
    row[plan_.position_begin() + i] =
        static_cast<float>(factor * plan_.embedding_rms / plan_.scale);
    return;
  }
  // A pair (factor, 0), which RoPE turns.
  const bool is_neox = plan_.shape.arch().rope == RopeKind::kNeox;
  const bool is_first = is_neox ? i < plan_.shape.rope_width() / 2 : i % 2 == 0;
  const uint64_t pair = is_neox ? i : i / 2;
  if (!is_first || pair < window.first_frequency ||
      pair >= window.first_frequency + window.num_frequencies) {
    return;
  }
  // The same in every topic.
  for (uint64_t topic = 0; topic < num_topics(); ++topic) {
    Constant(factor * ConstantGain(plan_.embedding_rms), topic, row);
  }
}

double SynthWeights::HeadNorm(uint64_t layer_idx) const {
  if (layer_idx > 0) return 1.0;
  // Normed to an RMS of 1, queries times keys are K; divided by sqrt(K).
  return std::sqrt(kScorePeak /
                   std::sqrt(static_cast<double>(plan_.shape.head_width())));
}

void SynthWeights::Value(uint64_t row_idx, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  const std::optional<uint64_t> direction = DirectionOf(row_idx);
  if (!direction) return;
  const double factor = plan_.embedding_rms *
                        std::sqrt(static_cast<double>(plan_.num_directions)) /
                        (static_cast<double>(plan_.basis_width()) *
                         WindowOf(*direction).token_gain * plan_.scale);
  basis_.Direction(*direction, static_cast<float>(factor),
                   row.subspan(plan_.basis_begin()));
}

void SynthWeights::AttentionOut(uint64_t dim, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0f);
  if (dim < plan_.basis_begin()) return;
  const SynthShape& shape = plan_.shape;
  const uint64_t group = shape.num_heads / shape.num_kv_heads;
  for (uint64_t i = 0; i < shape.kv_width(); ++i) {
    const std::optional<uint64_t> k = DirectionOf(i);
    if (!k) continue;
    const auto factor = static_cast<float>(
        WindowOf(*k).window_gain * plan_.scale /
        std::sqrt(static_cast<double>(plan_.num_directions)));
    // The first head that reads the direction's KV head.
    const uint64_t head = i / shape.head_width() * group;
    const int sign = basis_.Sign(*k, dim - plan_.basis_begin());
    row[head * shape.head_width() + i % shape.head_width()] =
        sign > 0 ? factor : -factor;
  }
}

void SynthWeights::Gate(uint64_t layer_idx, uint64_t neuron,
                        std::span<float> row) const {
  std::vector<float> coefs(plan_.num_directions);
  Coefs(SynthPart::kGate, layer_idx, neuron, coefs);
  const double rms = InputRms(layer_idx);
  std::fill(row.begin(), row.end(), 0.0f);
  for (uint64_t topic = 0; topic < num_topics(); ++topic) {
    Constant(-Threshold(layer_idx, neuron, topic) * ConstantGain(rms), topic,
             row);
  }
  AddBasis(BasisGain(layer_idx, rms), coefs, row);
}

void SynthWeights::Router(uint64_t layer_idx, uint64_t expert,
                          std::span<float> row) const {
  const SynthRouter& router = plan_.router;
  const bool has_own = router.num_directions > 0;
  std::vector<float> coefs(has_own ? plan_.all_directions()
                                   : plan_.num_directions);
  Coefs(SynthPart::kRouter, layer_idx, expert,
        std::span(coefs).subspan(has_own ? plan_.num_directions : 0));
  const double rms = InputRms(layer_idx);
  std::fill(row.begin(), row.end(), 0.0f);
  for (uint64_t topic = 0; topic < num_topics(); ++topic) {
    if (router.biases.empty()) break;
    const double bias =
        router.biases[expert_ranks_[OrderOf(layer_idx, topic)][expert]];
    Constant(kRouterSpread * bias * ConstantGain(rms), topic, row);
  }
  // Sums of fewer directions vary as much as those of all.
  const double fewer =
      has_own ? std::sqrt(static_cast<double>(router.num_directions) /
                          static_cast<double>(plan_.num_directions))
              : 1.0;
  AddBasis(kRouterSpread * fewer * BasisGain(layer_idx, rms), coefs, row);
}

void SynthWeights::PredictorUp(uint64_t layer_idx, uint64_t row_idx,
                               Reads reads, std::span<float> row) const {
  TC_CHECK(row_idx < plan_.needed_rank());
  const uint64_t num_directions = plan_.num_directions;
  const double rms = reads == Reads::kNormed ? InputRms(layer_idx) : 1.0;
  std::fill(row.begin(), row.end(), 0.0f);
  if (row_idx >= 2 * num_directions) {
    // Reads 1 in its topic, else 0.
    Constant(ConstantGain(rms),
             (row_idx - 2 * num_directions) / kRowsPerConstant, row);
    return;
  }
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
  for (uint64_t topic = 0; topic < num_topics(); ++topic) {
    const double share = -CandidateThreshold(layer_idx, neuron, topic) /
                         static_cast<double>(kRowsPerConstant);
    const std::span part = row.subspan(
        2 * num_directions + topic * kRowsPerConstant, kRowsPerConstant);
    std::ranges::fill(part, static_cast<float>(share));
  }
}

double SynthWeights::reading_deviation() const {
  return 1.0 / std::sqrt(static_cast<double>(plan_.shape.width));
}

double SynthWeights::down_deviation() const {
  const double num_active =
      plan_.options.density * static_cast<double>(plan_.shape.ffn_width);
  const double hidden_square =
      plan_.shape.arch().activation == Activation::kRelu2 ? kSquaredHiddenSquare
                                                          : kHiddenSquare;
  return kNoise * plan_.scale /
         std::sqrt(hidden_square * num_active *
                   static_cast<double>(plan_.num_layers));
}

double SynthWeights::attention_out_deviation() const {
  return kNoise * plan_.scale /
         std::sqrt(static_cast<double>(plan_.shape.attention_width() *
                                       plan_.num_layers));
}

}  // namespace thermocline::synth
