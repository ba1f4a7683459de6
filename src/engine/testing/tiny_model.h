// Small random models, made as files and opened, for tests.
#ifndef THERMOCLINE_ENGINE_TESTING_TINY_MODEL_H_
#define THERMOCLINE_ENGINE_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "tensor/dtype.h"
#include "text/vocab.h"

namespace thermocline::engine::testing {

// What one layer may have of its own.
struct TinyLayer {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_width;
  size_t ffn_width;
};

// Tensors and keys are those that the architecture's own converters write:
// falcon's q, k and v are one tensor, opt has biases everywhere and learned
// positions.
struct TinySpec {
  std::string architecture = "llama";
  gguf::Container container = gguf::Container::kGguf;
  size_t num_layers = 2;
  size_t width = 96;
  size_t ffn_width = 160;
  size_t num_heads = 6;
  size_t num_kv_heads = 2;
  size_t head_width = 16;
  // [L], in the place of the four above. Without keys for the width of heads
  // where it differs: then it is the head's share of `width`.
  std::vector<TinyLayer> layers;
  size_t vocab_size = 50;
  int64_t context_length = 64;
  DType dtype = DType::kF32;             // of every matrix but
  std::optional<DType> value_dtype;      // attn_v and ffn_down,
  std::optional<DType> embedding_dtype;  // and token_embd
  bool tied = false;
  bool biases = false;      // of q, k, v
  bool two_norms = false;   // falcon: attn_norm_2
  bool down_t = false;      // ffn_down_t in the place of ffn_down
  bool both_downs = false;  // ffn_down_t, the same values, beside ffn_down
  size_t num_experts = 0;
  size_t num_experts_used = 0;
  bool expert_tensors = false;   // one per expert, as before April 2024
  int64_t unused_positions = 0;  // opt: rows before position 0's
  // Predictors in every layer: fc1 and fc2 of PowerInfer in its container,
  // else those of KAIROX, with biases. 0: none.
  size_t predictor_rank = 0;
  // Predictors as training leaves them in a file, with this lookahead.
  std::optional<int64_t> lookahead;
  // KAIROX's ranks layer by layer, and the key that lists them; 0: none there.
  std::vector<size_t> low_ranks;
  bool predictor_biases = true;
  bool freq_factors = false;
  std::optional<float> norm_epsilon = 1e-5f;  // absent: no key
  float embedding_scale = 1.0f;
  std::optional<size_t> rope_width;  // of a head; absent: all of it
  float rope_base = 10000.0f;
  std::string rope_scaling;  // "linear", "yarn"
  float rope_factor = 1.0f;
  int64_t rope_original_context = 0;
  std::string activation;  // thermocline.ffn.activation
  std::optional<float> threshold;
  std::vector<float> thresholds;  // thermocline.ffn.thresholds, if any
  uint64_t seed = 1;
  // May change a tensor's values before they are written.
  std::function<void(const std::string& name, std::span<float> values)> edit;
};

// Rows that divide into the blocks of every type, heads that divide into 32.
TinySpec WideSpec(DType dtype);

// Gives the layers of a spec other heads and widths of FFNs than each other:
// four layers, heads of head_width elements, or where it is 0 of their shares
// of the width, 96.
void UseUnlikeLayers(size_t head_width, TinySpec& spec);

// Sets what the published models of an architecture have: biases, heads, tied
// embeddings. "mixtral" is llama with 2 of 8 experts.
void UseArchitecture(const std::string& name, TinySpec& spec);

// Writes and opens it; the file is gone afterwards, its mapping lives on.
Result<std::shared_ptr<const model::Model>> OpenTinyModel(
    const TinySpec& spec, const model::OpenOptions& options = {});

// Fails the calling test when it cannot.
std::shared_ptr<const model::Model> MakeTinyModel(const TinySpec& spec);

// For model::OpenOptions::leaves: the records of a prepared file.
Result<std::vector<std::string>> LeaveRecords(const gguf::File& file,
                                              const model::Config& config);

// `count` ids of the vocabulary, the same for the same arguments.
std::vector<text::TokenId> RandomTokens(size_t count, size_t vocab_size,
                                        uint64_t seed = 7);

// Logits [T, V] of all positions, rows of one phase, from a new session with
// keys and values in F32. Fails the calling test when it cannot.
std::vector<float> DecodeAll(const std::shared_ptr<const model::Model>& model,
                             const std::vector<text::TokenId>& tokens,
                             SessionOptions options = {},
                             Phase phase = Phase::kPrompt);

// sum (a - b)^2 / sum b^2; infinity when the sizes differ.
double Nmse(std::span<const float> a, std::span<const double> b);
double Nmse(std::span<const float> a, std::span<const float> b);

// Float arithmetic with 24 bits against 53: about 1e-13 (a few roundings of
// 6e-8, squared, per layer). A wrong epsilon, base or activation gives > 1e-7.
inline constexpr double kFloatNmse = 1e-12;
// The same with products of many tokens with F16 or BF16 in halves of 8 bits
// each (kernels/cpu/amx_matmul.h): some 1e-10, roundings of 2^-18.
inline constexpr double kHalvesNmse = 1e-9;
// Activations are rounded to 8 bits for quantised weights, and not always
// alike.
inline constexpr double kRoundedNmse = 1e-3;

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TINY_MODEL_H_
