#include "model/firing_shares.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "model/prepared_names.h"

namespace thermocline::model {
namespace {

// Of the profile; 0 without one, or of what is no number.
uint64_t ProfileTokens(const gguf::File& file) {
  const auto tokens = file.Int(prepared::kProfileTokens);
  if (!tokens || !tokens->has_value()) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(**tokens, 0));
}

}  // namespace

std::vector<float> FiringShares(const Model& model, size_t layer_idx) {
  const TensorView& counts = model.weights().layers[layer_idx].profile_counts;
  std::vector<float> shares;
  if (!counts || !counts.in_memory()) return shares;
  for (size_t i = 0; i < counts.shape.num_elems(); ++i) {
    int32_t count;
    std::memcpy(&count, counts.data + i * sizeof(count), sizeof(count));
    shares.push_back(static_cast<float>(std::max(count, 0)));
  }
  // Counts are checked where profiles are read, not in every model's file.
  const float num_tokens = std::max(
      {static_cast<float>(ProfileTokens(model.file())),
       shares.empty() ? 0.0f : *std::ranges::max_element(shares), 1.0f});
  for (float& share : shares) share /= num_tokens;
  return shares;
}

std::vector<float> ExpertShares(const Model& model, size_t layer_idx) {
  const FfnSpec& ffn = model.config().layers[layer_idx].ffn;
  const std::vector<float> neurons = FiringShares(model, layer_idx);
  if (neurons.empty() || ffn.num_experts == 0) return {};
  return SharesOfExperts(neurons, ffn.num_experts, ffn.num_experts_used);
}

std::vector<float> SharesOfExperts(std::span<const float> neurons,
                                   size_t num_experts, size_t num_used) {
  const size_t width = neurons.size() / num_experts;
  std::vector<float> experts(num_experts, 0.0f);
  for (size_t i = 0; i < width * num_experts; ++i) {
    experts[i / width] += neurons[i];
  }
  const float sum = std::accumulate(experts.begin(), experts.end(), 0.0f);
  if (sum == 0.0f) return experts;
  const float scale = static_cast<float>(num_used) / sum;
  for (float& share : experts) share = std::min(share * scale, 1.0f);
  return experts;
}

}  // namespace thermocline::model
