// A model file opened for running: its description, its vocabulary, and every
// weight by its role, checked against the description.
#ifndef THERMOCLINE_MODEL_MODEL_H_
#define THERMOCLINE_MODEL_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "model/split_file.h"
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

// The matrices of one FFN, or of one expert.
struct FfnMatrices {
  TensorView gate;    // [F, D]; empty if the FFN has no gate
  TensorView up;      // [F, D]
  TensorView down;    // [D, F]; empty if only down_t is there
  TensorView down_t;  // [F, D], row i is neuron i's column of down; or empty
};

struct FfnWeights : FfnMatrices {
  TensorView norm;       // [D]
  TensorView norm_bias;  // [D]
  TensorView gate_bias, up_bias, down_bias;
  TensorView router;                 // [E, D]; empty without experts
  std::vector<FfnMatrices> experts;  // E; then the matrices above are empty
};

// score = down relu(up x + up_bias) + down_bias, x as PredictorKind says.
struct PredictorWeights {
  TensorView up;         // [R, D]; empty: this layer has no predictor
  TensorView up_bias;    // [R], or empty
  TensorView down;       // [F, R]
  TensorView down_bias;  // [F], or empty
};

struct LayerWeights {
  AttentionWeights attention;
  FfnWeights ffn;
  PredictorWeights predictor;
};

struct Weights {
  TensorView token_embedding;     // [V, D]
  TensorView position_embedding;  // [P, D], row p is position p; or empty
  TensorView output_norm;         // [D]
  TensorView output_norm_bias;
  TensorView head;  // [V, D]; the embedding when tied
  bool tied = false;
  std::vector<float> rope_freq_factors;  // width / 2, or empty
  std::vector<LayerWeights> layers;
};

struct OpenOptions {
  ConfigOverrides overrides;
  std::optional<std::string> split_path;  // a split file for this model
  bool check_tensors = false;  // scan all weights for NaN and infinity
  ProgressFn progress;
  // How Open keeps the weights; FromFile takes the file as it is.
  gguf::HoldOptions hold;
  ProgressFn hold_progress;  // counts bytes
  // With `hold`: asked once the file has turned out to be a model and before
  // its weights are read into memory or locked, `num_bytes` of them. Its error
  // is Open's.
  std::function<Status(const Config& config, uint64_t num_bytes)> admit;
};

// Immutable; safe from any thread. Keeps the file mapped, or as options.hold
// says.
class Model {
 public:
  // Besides gguf::File's errors: kCorrupt for missing tensors, wrong shapes,
  // vocabularies and split files that do not fit; kUnsupported for types
  // without kernels and tensors that the architecture does not know (they would
  // change the result).
  static Result<std::shared_ptr<const Model>> Open(
      const std::string& path, const OpenOptions& options = {});
  static Result<std::shared_ptr<const Model>> FromFile(
      std::unique_ptr<const gguf::File> file, const OpenOptions& options = {});

  const gguf::File& file() const { return *file_; }
  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  // What the split file said: null without one, or if it is of the other kind.
  const NeuronOrder* neuron_order() const {
    return split_.order ? &*split_.order : nullptr;
  }
  const HotNeurons* hot_neurons() const {
    return split_.hot ? &*split_.hot : nullptr;
  }
  // Null when the file has no vocabulary (tokenizer.ggml.model absent or
  // "none"): token ids still run.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }

 private:
  Model() = default;
  static Result<std::shared_ptr<const Model>> Create(
      std::unique_ptr<const gguf::File>&& file, Config config,
      const OpenOptions& options);
  std::unique_ptr<const gguf::File> file_;
  Config config_;
  Weights weights_;
  Split split_;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_MODEL_H_
