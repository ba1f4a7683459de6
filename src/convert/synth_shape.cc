#include "convert/synth_shape.h"

namespace thermocline::convert {
namespace {

constexpr SynthShape kShapes[] = {
    {.name = "llama-1b",
     .architecture = "llama",
     .width = 2048,
     .ffn_width = 5632,
     .num_layers = 22,
     .num_heads = 16,
     .num_kv_heads = 16,
     .vocab_size = 32000,
     .context = 4096,
     .rope_base = 10000.0},
    {.name = "llama-7b",
     .architecture = "llama",
     .width = 4096,
     .ffn_width = 11008,
     .num_layers = 32,
     .num_heads = 32,
     .num_kv_heads = 32,
     .vocab_size = 32000,
     .context = 4096,
     .rope_base = 10000.0},
    {.name = "opt-6.7b",
     .architecture = "opt",
     .width = 4096,
     .ffn_width = 16384,
     .num_layers = 32,
     .num_heads = 32,
     .num_kv_heads = 32,
     .vocab_size = 50272,
     .context = 2048},
    {.name = "falcon-40b",
     .architecture = "falcon",
     .width = 8192,
     .ffn_width = 32768,
     .num_layers = 60,
     .num_heads = 128,
     .num_kv_heads = 8,
     .vocab_size = 65024,
     .context = 2048,
     .rope_base = 10000.0,
     .two_norms = true},
    {.name = "mixtral",
     .architecture = "llama",
     .width = 4096,
     .ffn_width = 14336,
     .num_layers = 32,
     .num_heads = 32,
     .num_kv_heads = 8,
     .vocab_size = 32000,
     .context = 32768,
     .rope_base = 1e6,
     .num_experts = 8,
     .experts_used = 2},
    // For tests: a model of each kind that takes no time.
    {.name = "tiny",
     .architecture = "llama",
     .width = 512,
     .ffn_width = 2048,
     .num_layers = 2,
     .num_heads = 8,
     .num_kv_heads = 4,
     .vocab_size = 2560,
     .context = 2048,
     .rope_base = 10000.0},
    {.name = "tiny-opt",
     .architecture = "opt",
     .width = 512,
     .ffn_width = 2048,
     .num_layers = 2,
     .num_heads = 8,
     .num_kv_heads = 8,
     .vocab_size = 2560,
     .context = 2048},
    {.name = "tiny-falcon",
     .architecture = "falcon",
     .width = 512,
     .ffn_width = 2048,
     .num_layers = 3,
     .num_heads = 8,
     .num_kv_heads = 2,
     .vocab_size = 2560,
     .context = 2048,
     .rope_base = 10000.0,
     .two_norms = true},
    {.name = "tiny-mixtral",
     .architecture = "llama",
     .width = 512,
     .ffn_width = 1024,
     .num_layers = 2,
     .num_heads = 8,
     .num_kv_heads = 4,
     .vocab_size = 2560,
     .context = 2048,
     .rope_base = 1e6,
     .num_experts = 4,
     .experts_used = 2},
};

}  // namespace

std::span<const SynthShape> SynthShapes() { return kShapes; }

const SynthShape* FindSynthShape(std::string_view name) {
  for (const SynthShape& shape : kShapes) {
    if (shape.name == name) return &shape;
  }
  return nullptr;
}

std::string ListSynthShapes() {
  std::string names;
  for (const SynthShape& shape : kShapes) {
    names += names.empty() ? "" : ", ";
    names += shape.name;
  }
  return names;
}

}  // namespace thermocline::convert
