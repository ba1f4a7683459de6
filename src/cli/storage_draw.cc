#include "cli/storage_draw.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace thermocline::cli {
namespace {

// A candidate that does not fire is one of those that often do.
constexpr float kMostCandidates = 0.99f;

// The locality of neurons that stay as they are with probability s, and else
// fire by their shares: s + (1 - s) * what chance gives.
double StaysOf(const neuron::LayerProfile& layer) {
  const double chance = layer.chance_locality();
  const std::optional<double> locality = layer.locality();
  if (!locality || chance >= 1.0) return 0.0;
  return std::clamp((*locality - chance) / (1.0 - chance), 0.0, 0.999);
}

float AskedFor(float share, double factor) {
  return std::min(static_cast<float>(factor) * share,
                  std::max(kMostCandidates, share));
}

// So that `per_fired` times as many are asked for as fire, where none is for
// more than kMostCandidates of all tokens.
double FactorFor(const std::vector<float>& shares, double per_fired) {
  double wanted = 0.0;
  for (const float share : shares) {
    wanted += per_fired * static_cast<double>(share);
  }
  double low = per_fired;
  double high = 64.0 * per_fired;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    double sum = 0.0;
    for (const float share : shares) {
      sum += static_cast<double>(AskedFor(share, middle));
    }
    (sum < wanted ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::vector<LayerLaw> LawsOf(const neuron::Profile& profile) {
  std::vector<LayerLaw> laws;
  for (const neuron::LayerProfile& layer : profile.layers) {
    LayerLaw& law = laws.emplace_back();
    law.stays = StaysOf(layer);
    const auto num_tokens =
        static_cast<float>(std::max<uint64_t>(layer.num_tokens, 1));
    for (const uint32_t count : layer.counts) {
      law.shares.push_back(static_cast<float>(count) / num_tokens);
    }
  }
  return laws;
}

Drawer::Drawer(std::vector<LayerLaw> laws, double per_fired, bool extra_only,
               uint64_t seed)
    : laws_(std::move(laws)), random_(seed) {
  for (LayerLaw& law : laws_) {
    const double factor = FactorFor(law.shares, per_fired);
    for (float& share : law.shares) {
      const float asked = AskedFor(share, factor);
      share = !extra_only     ? asked
              : share >= 1.0f ? 0.0f
                              : (asked - share) / (1.0f - share);
    }
    std::vector<bool>& state = states_.emplace_back();
    for (const float share : law.shares) state.push_back(Fires(share));
  }
}

const std::vector<bool>& Drawer::Next(size_t layer_idx) {
  const LayerLaw& law = laws_[layer_idx];
  std::vector<bool>& state = states_[layer_idx];
  for (size_t i = 0; i < state.size(); ++i) {
    if (random_.Uniform() >= law.stays) state[i] = Fires(law.shares[i]);
  }
  return state;
}

ExpertDrawer::ExpertDrawer(const model::Config& config,
                           const std::vector<LayerLaw>& laws, uint64_t seed)
    : random_(seed) {
  for (size_t l = 0; l < laws.size(); ++l) {
    const model::FfnSpec& spec = config.layers[l].ffn;
    Layer& layer = layers_.emplace_back();
    layer.num_used = spec.num_experts_used;
    layer.stays = laws[l].stays;
    layer.weights.assign(std::max<size_t>(spec.num_experts, 1), 0.0);
    for (size_t i = 0; i < laws[l].shares.size(); ++i) {
      layer.weights[std::min(i / spec.width, layer.weights.size() - 1)] +=
          static_cast<double>(laws[l].shares[i]);
    }
  }
}

std::vector<uint32_t> ExpertDrawer::Next(size_t layer_idx) {
  Layer& layer = layers_[layer_idx];
  std::erase_if(layer.chosen, [&](uint32_t /*expert*/) {
    return random_.Uniform() >= layer.stays;
  });
  while (layer.chosen.size() < layer.num_used && Choose(layer)) {
  }
  std::ranges::sort(layer.chosen);
  return layer.chosen;
}

bool ExpertDrawer::Choose(Layer& layer) {
  const auto can_be_chosen = [&](size_t e) {
    return layer.weights[e] > 0.0 &&
           std::ranges::find(layer.chosen, static_cast<uint32_t>(e)) ==
               layer.chosen.end();
  };
  double sum = 0.0;
  for (size_t e = 0; e < layer.weights.size(); ++e) {
    if (can_be_chosen(e)) sum += layer.weights[e];
  }
  if (sum <= 0.0) return false;
  double at = random_.Uniform() * sum;
  size_t last = 0;
  for (size_t e = 0; e < layer.weights.size() && at >= 0.0; ++e) {
    if (!can_be_chosen(e)) continue;
    last = e;
    at -= layer.weights[e];
  }
  layer.chosen.push_back(static_cast<uint32_t>(last));
  return true;
}

std::vector<uint32_t> ExpertsOf(const std::vector<uint32_t>& neurons,
                                size_t width) {
  std::vector<uint32_t> experts;
  for (const uint32_t neuron : neurons) {
    const auto expert = static_cast<uint32_t>(neuron / width);
    if (experts.empty() || experts.back() != expert) experts.push_back(expert);
  }
  return experts;
}

ExpertNeurons::ExpertNeurons(const model::Config& config,
                             std::vector<LayerLaw> laws, double per_fired,
                             uint64_t seed)
    : asks_all_(per_fired == 0.0), random_(seed) {
  for (size_t l = 0; l < laws.size(); ++l) {
    const model::FfnSpec& spec = config.layers[l].ffn;
    widths_.push_back(spec.width);
    std::vector<float>& shares = laws[l].shares;
    std::vector<double> busy(spec.num_experts, 0.0);
    for (size_t i = 0; i < shares.size(); ++i) {
      busy[i / spec.width] += static_cast<double>(shares[i]);
    }
    // Experts fire alike: who fires more is chosen more often.
    double all = 0.0;
    for (const double sum : busy) all += sum;
    for (size_t i = 0; i < shares.size() && all > 0.0; ++i) {
      const double chosen =
          std::min(1.0, static_cast<double>(spec.num_experts_used) *
                            busy[i / spec.width] / all);
      if (chosen <= 0.0) continue;
      shares[i] = std::min(
          1.0f, static_cast<float>(static_cast<double>(shares[i]) / chosen));
    }
    const double factor = asks_all_ ? 1.0 : FactorFor(shares, per_fired);
    for (float& share : shares) share = AskedFor(share, factor);
    shares_.push_back(std::move(shares));
  }
}

std::vector<uint32_t> ExpertNeurons::Of(size_t layer_idx,
                                        const std::vector<uint32_t>& experts,
                                        const std::vector<uint32_t>& fired) {
  const size_t width = widths_[layer_idx];
  const std::vector<float>& shares = shares_[layer_idx];
  std::vector<uint32_t> neurons;
  auto next = fired.begin();
  for (const uint32_t expert : experts) {
    for (size_t i = expert * width; i < (expert + 1) * width; ++i) {
      while (next != fired.end() && *next < i) ++next;
      const bool has_fired = next != fired.end() && *next == i;
      if (asks_all_ || has_fired ||
          random_.Uniform() < static_cast<double>(shares[i])) {
        neurons.push_back(static_cast<uint32_t>(i));
      }
    }
  }
  return neurons;
}

}  // namespace thermocline::cli
