// A model file opened for running: its description, its vocabulary, and every
// weight by its role, checked against the description.
#ifndef THERMOCLINE_MODEL_MODEL_H_
#define THERMOCLINE_MODEL_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "tensor/tensor_view.h"
#include "text/tokenizer.h"

namespace thermocline::model {

// Optional tensors are empty views. Norm weights and biases are F32.
struct AttentionWeights {
  TensorView norm;       // [D]
  TensorView norm_bias;  // [D]
  TensorView q;          // [H * K, D]
  TensorView k;          // [KVH * K, D]
  TensorView v;          // [KVH * Kv, D]
  TensorView out;        // [D, H * Kv]
  TensorView q_bias, k_bias, v_bias, out_bias;
};

struct FfnWeights {
  TensorView norm;       // [D]
  TensorView norm_bias;  // [D]
  TensorView gate;       // [F, D]; empty if the FFN has no gate
  TensorView up;         // [F, D]
  TensorView down;       // [D, F]
  TensorView gate_bias, up_bias, down_bias;
};

struct LayerWeights {
  AttentionWeights attention;
  FfnWeights ffn;
};

struct Weights {
  TensorView token_embedding;  // [V, D]
  TensorView output_norm;      // [D]
  TensorView output_norm_bias;
  TensorView head;  // [V, D]; the embedding when tied
  bool tied = false;
  std::vector<float> rope_freq_factors;  // width / 2, or empty
  std::vector<LayerWeights> layers;
};

struct OpenOptions {
  ConfigOverrides overrides;
  bool check_tensors = false;  // scan all weights for NaN and infinity
  ProgressFn progress;
};

// Immutable; safe from any thread. Keeps the file mapped.
class Model {
 public:
  // Besides gguf::File's errors: kCorrupt for missing tensors, wrong shapes,
  // vocabularies that do not fit; kUnsupported for types without kernels and
  // tensors that the architecture does not know (they would change the result).
  static Result<std::shared_ptr<const Model>> Open(
      const std::string& path, const OpenOptions& options = {});
  static Result<std::shared_ptr<const Model>> FromFile(
      std::unique_ptr<const gguf::File> file, const OpenOptions& options = {});

  const gguf::File& file() const { return *file_; }
  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  // Null when the file has no vocabulary (tokenizer.ggml.model absent or
  // "none"): token ids still run.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }

 private:
  Model() = default;
  std::unique_ptr<const gguf::File> file_;
  Config config_;
  Weights weights_;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_MODEL_H_
