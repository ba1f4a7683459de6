// What the layers of a model are, each described by itself.
#ifndef THERMOCLINE_MODEL_LAYER_SPEC_H_
#define THERMOCLINE_MODEL_LAYER_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/op_kinds.h"

namespace thermocline::model {

// Scaling of rotary positions beyond the trained context.
enum class RopeScaling { kNone, kLinear, kYarn };
std::string_view NameOf(RopeScaling scaling);  // "none", "linear", "yarn"

struct RopeConfig {
  RopeKind kind = RopeKind::kNorm;
  size_t width = 0;  // rotated elements per head, even, <= head width
  float freq_base = 10000.0f;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;            // context is stretched by it; > 0
  int64_t original_context = 0;   // YaRN: what the model was trained with
  float attention_factor = 1.0f;  // multiplies cosines and sines
};

// Norms of q and k, before they rotate.
enum class QkNorm : uint8_t {
  kNone,
  kPerHead,  // RMS over each head's K elements, with weights [K] for all heads
};

struct AttentionSpec {
  static constexpr int kNoRope = -1;

  size_t num_heads = 0;  // H
  size_t num_kv_heads = 0;
  size_t key_width = 0;    // K of q and k heads
  size_t value_width = 0;  // Kv of v heads
  int rope = kNoRope;      // of Config::ropes
  QkNorm qk_norm = QkNorm::kNone;
};

// What the router of a mixture reads.
enum class RouterInput : uint8_t {
  kFfnInput,    // what its experts read
  kLayerInput,  // the layer's input, as it is: before attention and any norm
};

struct FfnSpec {
  Activation activation = Activation::kSilu;
  float threshold = 0.0f;  // FATReLU
  bool gated = true;
  size_t width = 0;                 // F, of a mixture those of one expert
  bool down_is_transposed = false;  // the file has ffn_down_t alone
  size_t num_experts = 0;           // E; 0: one FFN for all tokens
  size_t num_experts_used = 0;      // of them, by each token; 1 to E
  RouterInput router_input = RouterInput::kFfnInput;
};

struct LayerSpec {
  AttentionSpec attention;
  FfnSpec ffn;
  // Attention and FFN both read the layer's input: x + A(n1(x)) + F(n2(x)).
  bool parallel = false;
};

// F, or F * E of a mixture: neuron i of expert e is e * F + i.
size_t NumNeurons(const FfnSpec& ffn);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_LAYER_SPEC_H_
