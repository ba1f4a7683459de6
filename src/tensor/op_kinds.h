// Choices that a model's description makes and kernels carry out.
#ifndef THERMOCLINE_TENSOR_OP_KINDS_H_
#define THERMOCLINE_TENSOR_OP_KINDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace thermocline {

// Non-linearity of an FFN. With a gate: h = f(gate) * up; without: h = f(up).
enum class Activation : uint8_t {
  kSilu,     // x / (1 + exp(-x))
  kGelu,     // tanh form: 0.5x(1 + tanh(sqrt(2/pi)(x + 0.044715x^3)))
  kRelu,     // max(x, 0)
  kFatRelu,  // x if x >= threshold, else 0 (ProSparse)
  kDRelu,    // max(gate, 0) * max(up, 0) (Bamboo); needs a gate
  kRelu2,    // max(x, 0)^2 (Primer; Nemotron)
};

// What is known of each; a new one is a row of this table and a case of the
// kernels.
struct ActivationInfo {
  Activation activation;
  std::string_view name;  // the value of thermocline.ffn.activation
  // Exactly 0 for many inputs, so that neurons at rest can be left out.
  bool has_zeros;
  bool needs_gate;
};
std::span<const ActivationInfo> Activations();  // in the order above
const ActivationInfo& InfoOf(Activation activation);

std::string_view NameOf(Activation activation);
bool HasZeros(Activation activation);
std::optional<Activation> ParseActivation(std::string_view name);

// "silu, gelu and relu", for messages: all of them, or those whose has_zeros
// is as given.
std::string ListActivations(std::optional<bool> has_zeros = std::nullopt);

enum class NormKind : uint8_t { kRms, kLayer };

// Which elements of a head rotate together; n = rotated width.
enum class RopeKind : uint8_t {
  kNone,
  kNorm,  // (2i, 2i + 1)
  kNeox,  // (i, i + n/2)
};
std::string_view NameOf(RopeKind kind);  // "none", "norm", "neox"

}  // namespace thermocline

#endif  // THERMOCLINE_TENSOR_OP_KINDS_H_
