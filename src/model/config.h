// What an architecture is, as data: the engine's layer loop reads this
// description and has no copy per architecture.
#ifndef THERMOCLINE_MODEL_CONFIG_H_
#define THERMOCLINE_MODEL_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/layer_spec.h"
#include "neuron/record.h"
#include "tensor/op_kinds.h"

namespace thermocline::model {

// Whose predictors a file brings: what its tensors are called. What is computed
// with them is the rest of PredictorConfig; only who reads and writes files
// asks for the kind.
enum class PredictorKind { kNone, kPowerInfer, kKairox, kThermocline };
// For people: "PowerInfer", "KAIROX", "trained" for ours, "no".
std::string_view NameOf(PredictorKind kind);

enum class PredictorInput : uint8_t {
  kNormed,  // what the FFN reads
  // What the FFN's norm reads: the stream behind the attention, or the layer's
  // input in a parallel block.
  kStream,
};

struct PredictorConfig {
  PredictorKind kind = PredictorKind::kNone;
  PredictorInput input = PredictorInput::kNormed;
  // Layer l reads the input of layer l - lookahead; the first layers, which
  // have no such layer, their own. 0 or 1.
  size_t lookahead = 0;
  // What the candidates leave out counts as 0, also where it would fire: so
  // PowerInfer's and KAIROX's files define what their models compute. Else they
  // are guesses of what fires.
  bool is_mask = false;
  // Neuron i is a candidate unless score[i] < threshold (NaN: it is one).
  // KAIROX's sigmoid(score) >= 0.5 is score >= 0.
  float threshold = 0.0f;

  bool is_there() const { return kind != PredictorKind::kNone; }
};

// Extents, counts and indices of them (widths, heads, layers, experts, the
// vocabulary) are size_t: memory is counted with them. Positions are int64_t,
// which may be subtracted, and what a file or a user says is int64_t until its
// range is checked. Token ids are text::TokenId.
struct Config {
  std::string architecture;  // "llama"
  std::string name;          // general.name, for people
  int64_t context_length = 0;
  size_t num_layers = 0;          // L
  size_t width = 0;               // D
  size_t vocab_size = 0;          // V
  std::vector<LayerSpec> layers;  // [L]
  std::vector<RopeConfig> ropes;  // that the layers name
  NormKind norm = NormKind::kRms;
  float norm_epsilon = 1e-5f;
  // Required by the architecture; others may have them.
  bool qkv_bias = false;
  bool other_biases = false;  // of attention's output and the FFN
  // Learned positions (OPT): added to the embedding of the token. A session
  // cannot be longer. 0: none.
  int64_t num_positions = 0;
  int64_t position_offset = 0;  // rows of the table before position 0's
  PredictorConfig predictor;
  // Whether any layer of a prepared file brings a training-free predictor.
  bool has_training_free = false;
  // For --ffn threshold: a neuron of layer l whose opened gate |f(gate x)| is
  // below thresholds[l] counts as at rest (CATS). [L], or empty.
  std::vector<float> thresholds;
  // What `thermocline prepare` wrote (docs/formats/prepared.md); 0: a plain
  // file. How the FFNs lie then [L], a neuron's parts side by side; empty: as
  // matrices.
  int64_t prepared_version = 0;
  std::vector<neuron::RecordLayout> records;
};

// The functions below require layers.

// What the FFNs of all layers have in common, since a file says it once:
// activation, threshold, gate and experts. The width is that of layer 0.
const FfnSpec& CommonFfn(const Config& config);

// F of the widest.
size_t MaxFfnWidth(const Config& config);

// For what keeps one number of neurons for all layers. kUnsupported: they
// differ; `what`, "m.gguf: a profile", cannot be had then.
Status CheckEqualWidths(const Config& config, std::string_view what);

// Neurons of every layer (NumNeurons). Requires CheckEqualWidths.
size_t NeuronsPerLayer(const Config& config);

// Overrides that a user can ask for.
struct ConfigOverrides {
  std::optional<Activation> ffn_activation;  // --ffn-act
  std::optional<float> ffn_threshold;        // --ffn-threshold
  std::optional<float> predictor_threshold;  // --sparse-threshold
};

// Reads and validates every field (ranges, divisibility, limits below), so that
// nothing later multiplies or divides by an unchecked number. kCorrupt,
// kUnsupported (architecture, named, with the list of what runs),
// kInvalidArgument (overrides, or an activation that the FFN cannot have).
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxWidth = int64_t{1} << 24;
inline constexpr int64_t kMaxExperts = 1024;
Result<Config> ReadConfig(const gguf::File& file,
                          const ConfigOverrides& overrides = {});

// Reads what a file says by keys of ours about the activation of all layers;
// what it does not say stays. kUnsupported: an unknown one; kCorrupt: a
// threshold out of range; kInvalidArgument: one that needs a gate, and there is
// none.
Status ReadActivationKeys(const gguf::File& file, Config& config);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_CONFIG_H_
