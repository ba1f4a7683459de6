#include "model/architectures.h"

namespace thermocline::model {
namespace {

using enum Activation;

// Rotations: NORM where converters permute q and k to pairs (2i, 2i + 1), NEOX
// where they do not. prosparse-llama, sparse-qwen2 and relu-falcon are KAIROX's
// names; bamboo and opt are PowerInfer's and KAIROX's.
constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .rope = RopeKind::kNorm,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kSilu,
     .mixture = Mixture::kPossible,
     .powerinfer_activation = kRelu},
    {.name = "qwen2",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kSilu,
     .qkv_bias = true,
     .powerinfer_activation = kRelu},
    {.name = "falcon",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kLayer,
     .gated = false,
     .activation = kGelu,
     .parallel_block = true,
     .powerinfer_activation = kRelu},
    {.name = "opt",
     .rope = RopeKind::kNone,
     .norm = NormKind::kLayer,
     .gated = false,
     .activation = kRelu,
     .qkv_bias = true,
     .other_biases = true,
     .learned_positions = true,
     .powerinfer_activation = kRelu,
     .default_epsilon = 1e-5f},
    {.name = "bamboo",
     .rope = RopeKind::kNorm,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kDRelu,
     .powerinfer_activation = kDRelu},
    {.name = "prosparse-llama",
     .rope = RopeKind::kNorm,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kFatRelu,
     .threshold = 0.01f,
     .powerinfer_activation = kFatRelu},
    {.name = "sparse-qwen2",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kDRelu,
     .qkv_bias = true,
     .powerinfer_activation = kDRelu},
    {.name = "relu-falcon",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kLayer,
     .gated = false,
     .activation = kRelu,
     .parallel_block = true,
     .powerinfer_activation = kRelu},
    {.name = "qwen3",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kSilu,
     .qk_norm = QkNorm::kPerHead,
     .powerinfer_activation = kRelu},
    {.name = "qwen3moe",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kRms,
     .gated = true,
     .activation = kSilu,
     .mixture = Mixture::kAlways,
     .qk_norm = QkNorm::kPerHead,
     .powerinfer_activation = kRelu},
    {.name = "nemotron",
     .rope = RopeKind::kNeox,
     .norm = NormKind::kLayer,
     .gated = false,
     .activation = kRelu2,
     .powerinfer_activation = kRelu2},
    {.name = "arcee",
     .rope = RopeKind::kNorm,
     .norm = NormKind::kRms,
     .gated = false,
     .activation = kRelu2,
     .powerinfer_activation = kRelu2},
};

}  // namespace

std::span<const Architecture> KnownArchitectures() { return kArchitectures; }

const Architecture* FindArchitecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string ListArchitectures() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    names += names.empty() ? "" : ", ";
    names += architecture.name;
  }
  return names;
}

}  // namespace thermocline::model
