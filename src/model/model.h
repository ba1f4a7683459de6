// A model file opened for running: its description, its vocabulary, and every
// weight by its role, checked against the description.
#ifndef THERMOCLINE_MODEL_MODEL_H_
#define THERMOCLINE_MODEL_MODEL_H_

#include <algorithm>
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
#include "os/memory.h"
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
  TensorView q_norm, k_norm;  // [K], of each head, if it is normed
};

// The matrices of one FFN, or of one expert.
struct FfnMatrices {
  TensorView gate;    // [F, D]; empty if the FFN has no gate
  TensorView up;      // [F, D]
  TensorView down;    // [D, F]; empty if only down_t is there
  TensorView down_t;  // [F, D], row i is neuron i's column of down; or empty
  // up and down_t are parts of records (neuron/record.h), and the gate if their
  // layout has one: a neuron's rows lie side by side, and each view has a
  // stride.
  bool bundled = false;
};

struct FfnWeights : FfnMatrices {
  TensorView norm;       // [D]
  TensorView norm_bias;  // [D]
  TensorView gate_bias, up_bias, down_bias;
  TensorView router;                 // [E, D]; empty without experts
  std::vector<FfnMatrices> experts;  // E; then the matrices above are empty
};

// score = down relu(up x + up_bias) + down_bias, x as PredictorConfig says.
struct PredictorWeights {
  TensorView up;         // [R, D]; empty: this layer has no predictor
  TensorView up_bias;    // [R], or empty
  TensorView down;       // [F, R]
  TensorView down_bias;  // [F], or empty
};

// What guesses without training which gates open, in two steps. All empty: the
// layer has none.
//   1. Signs: a neuron goes on if its gate row and x differ in at most
//      `max_differences` signs (SparseInfer).
//   2. Margin, where `down` is there: of those, the candidates have
//      down_i (up x) + bias_i >= 0, a low-rank image of the gate.
struct TrainingFreeWeights {
  TensorView signs;  // I8 [F, words * 8]: PackSigns of the gate rows, as words
  size_t max_differences = 0;
  TensorView up;    // [R, D]
  TensorView down;  // [F, R]
  TensorView bias;  // [F]
};

// What a layer did for S tokens when its predictor was made: one that belongs
// to another model shows. Sample s of every layer is of the same token. All
// empty: the layer has none.
struct SelfTest {
  TensorView inputs;      // F32 [S, D] what the FFN reads, normed; finite
  TensorView fired;       // I8 [S, ceil(N / 8)]: bit i % 8 of byte i / 8 is
                          // neuron i; the bits behind the last are 0
  TensorView candidates;  // likewise, of the trained predictor; or empty
  TensorView free;        // likewise, of the training-free one; or empty
};

struct LayerWeights {
  AttentionWeights attention;
  FfnWeights ffn;
  PredictorWeights predictor;
  TrainingFreeWeights training_free;
  // Of prepared files; N is NeuronsPerLayer(). Or empty.
  SelfTest self_test;
  TensorView profile_counts;  // I32 [N] how often each neuron fired
  TensorView order;           // I32 [N] the neuron at each place; a permutation
  // I32 [N] the number that each neuron has in the model that this one was made
  // of; a permutation. Empty: the same.
  TensorView source_neurons;
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
  // The FFNs of a file that has them as matrices are laid out as records in
  // anonymous memory (neuron/record_builder.h); the down columns of quantised
  // files lose a little by it, which is logged.
  bool bundle_at_load = false;
  int num_threads = 0;  // of that, as os::ThreadPool's
  ConfigOverrides overrides;
  std::optional<std::string> split_path;  // a split file for this model
  bool check_tensors = false;  // scan all weights for NaN and infinity
  ProgressFn progress;
  // How Open keeps the weights; FromFile takes the file as it is.
  gguf::WeightResidency hold;
  ProgressFn hold_progress;  // counts bytes
  // By Open: asked once the file has turned out to be a model. The tensors that
  // it names stay in the file (their views have no data), and if there are any
  // the rest is read as with hold.read. Its error is Open's.
  std::function<Result<std::vector<std::string>>(const gguf::File& file,
                                                 const Config& config)>
      leaves;
  // With `hold` and `bundle_at_load`, by Open: asked once the file has turned
  // out to be a model and before memory is taken: `num_bytes` that are read,
  // locked or bundled. Its error is Open's.
  std::function<Status(const Config& config, uint64_t num_bytes)> admit;
};

// Immutable; safe from any thread. Keeps the file mapped, or as options.hold
// says.
class Model {
 public:
  // Besides gguf::File's and ReadConfig's errors: kCorrupt for missing tensors,
  // wrong shapes, vocabularies and split files that do not fit, and what
  // check_tensors finds; kUnsupported for types without kernels and tensors
  // that the architecture does not know (they would change the result); with
  // bundle_at_load those of model/bundle.h, of which FromFile does not ask
  // whether the records fit.
  static Result<std::shared_ptr<const Model>> Open(
      const std::string& path, const OpenOptions& options = {});
  static Result<std::shared_ptr<const Model>> FromFile(
      std::unique_ptr<const gguf::File> file, const OpenOptions& options = {});

  const gguf::File& file() const { return *file_; }
  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  // What the split file said: null without one, or if it is of the other kind.
  // Refused with a file whose neurons have other numbers than its source's.
  const NeuronOrder* neuron_order() const {
    return split_.order ? &*split_.order : nullptr;
  }
  const HotNeurons* hot_neurons() const {
    return split_.hot ? &*split_.hot : nullptr;
  }
  // Null when the file has no vocabulary (tokenizer.ggml.model absent or
  // "none"), or one with a tokenizer or pre-tokenizer that is not known, which
  // was warned of: token ids still run.
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // Anonymous memory of OpenOptions::bundle_at_load; 0 where it had nothing to
  // do.
  uint64_t num_bundle_bytes() const;
  // Whether OpenOptions::leaves has left tensors in the file: the names are
  // file().held().left_out.
  bool is_partly_left() const { return !file_->held().left_out.empty(); }
  // Where the file has a layer's records; nothing of other files.
  std::optional<gguf::FileSpan> RecordSpan(size_t layer_idx) const;

  // This model, with what is left in the file of its attention and FFNs at
  // addresses of the caller's, which outlive it: asked for each tensor that is
  // left, null for none. Shares the rest, and may outlive this one. Errors of
  // binding.
  Result<std::shared_ptr<const Model>> PlacedAt(
      const std::function<const std::byte*(const gguf::TensorInfo& tensor)>&
          address_of) const;

  // This model, as it was opened, with other thresholds for --ffn threshold:
  // [L] (CHECKed). Shares its weights, and may outlive it.
  std::shared_ptr<const Model> WithThresholds(
      std::vector<float> thresholds) const;

  // This model's shape with matrices of attention, FFNs and the head of another
  // type, and none of these in memory: for plans and times of what is not
  // there. What else it has is shared. kUnsupported: their rows are no whole
  // blocks of the type.
  Result<std::shared_ptr<const Model>> ShapeOf(DType dtype) const;

  // This model, as it was opened, with the predictors, thresholds, self-tests
  // and activation of `parts`, a file of `thermocline train` or a prepared
  // model, and none of its own: what overrides said of those goes with them.
  // Shares its weights, and may outlive it. Errors
  // of a prepared file's parts, among them kCorrupt for a model of other
  // extents.
  Result<std::shared_ptr<const Model>> WithParts(
      std::shared_ptr<const gguf::File> parts) const;

 private:
  Model() = default;
  Model(const Model&) = default;
  static Result<std::shared_ptr<const Model>> Create(
      std::unique_ptr<const gguf::File>&& file, Config config,
      const OpenOptions& options);
  // Shared with models that differ in their description alone.
  std::shared_ptr<const gguf::File> file_;
  std::shared_ptr<const gguf::File> parts_;  // null: those in file_
  Config config_;
  Weights weights_;
  Split split_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  // That weights_ point into; null: none.
  std::shared_ptr<const std::vector<os::AlignedBuffer>> bundles_;
};

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_MODEL_H_
