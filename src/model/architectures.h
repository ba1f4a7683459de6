// The architectures that run, as data: what a name in a file's
// general.architecture settles (rotation, norms, gate, activation, biases,
// experts). A new one is a row in architectures.cc and the steps of
// CONTRIBUTING.md, "A new architecture"; the engine never asks for the name.
#ifndef THERMOCLINE_MODEL_ARCHITECTURES_H_
#define THERMOCLINE_MODEL_ARCHITECTURES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/config.h"
#include "tensor/op_kinds.h"

namespace thermocline::model {

// Whether an architecture has experts.
enum class Mixture {
  kNever,
  kPossible,  // its files say; an expert is as wide as an FFN
  kAlways,    // an expert's width has its own key, expert_feed_forward_length
};

// What a value of general.architecture settles without further keys.
struct Architecture {
  std::string_view name;
  RopeKind rope;
  NormKind norm;
  bool gated;
  Activation activation;
  float threshold;    // FATReLU
  bool qkv_bias;      // required, not only possible
  bool other_biases;  // of attention's output and the FFN: likewise
  bool parallel_block;
  bool learned_positions;
  Mixture mixture;
  QkNorm qk_norm;
  // The activation of PowerInfer's files, which have the same names.
  Activation powerinfer_activation;
  // LayerNorm's or RMSNorm's epsilon where the file has none; absent: required.
  std::optional<float> default_epsilon;
};

std::span<const Architecture> KnownArchitectures();

// Null when it does not run in this version.
const Architecture* FindArchitecture(std::string_view name);

// "llama, qwen2, ...": for messages.
std::string ListArchitectures();

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_ARCHITECTURES_H_
