// What `thermocline prepare` finds out about a model, beside its weights:
// predictors, thresholds, counts, an order, samples for a self-test. In memory,
// and in a file of its own (M.pred.gguf). Byte by byte:
// docs/formats/prepared.md.
#ifndef THERMOCLINE_PACK_PARTS_H_
#define THERMOCLINE_PACK_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/gguf.h"
#include "model/config.h"
#include "tensor/dtype.h"
#include "tensor/op_kinds.h"

namespace thermocline::pack {

// Below, N is model::NeuronsPerLayer: F, or F * E of a mixture.

// A matrix as its bytes go into a file: rows one behind the other.
struct EncodedMatrix {
  DType dtype = DType::kF32;
  uint64_t num_rows = 0;
  uint64_t num_columns = 0;  // elements of a row; a multiple of the block
  std::vector<std::byte> bytes;

  bool empty() const { return bytes.empty(); }
  bool operator==(const EncodedMatrix&) const = default;
};

// `values` [num_rows, num_columns] in a computable type whose blocks divide the
// rows. (CHECKed) Encoded by tensor/codec.h.
EncodedMatrix EncodeMatrix(DType dtype, uint64_t num_rows, uint64_t num_columns,
                           std::span<const float> values);

// A trained predictor of one layer; model::PredictorWeights says what is
// computed. Neuron i is a candidate if its score is >= 0: the threshold that
// was calibrated is part of down_bias.
struct LayerPredictor {
  EncodedMatrix up;              // [R, D]
  std::vector<float> up_bias;    // [R], or empty
  EncodedMatrix down;            // [N, R]
  std::vector<float> down_bias;  // [N], or empty

  bool operator==(const LayerPredictor&) const = default;
};

// What guesses without training; model::TrainingFreeWeights says how.
struct LayerTrainingFree {
  std::vector<uint64_t> signs;  // [N, ceil(D / 64)], as pack_signs() packs
  size_t max_differences = 0;   // 0 to D
  EncodedMatrix up;             // [r, D]; or, with down and bias, empty
  EncodedMatrix down;           // [N, r]
  std::vector<float> bias;      // [N], or empty

  bool operator==(const LayerTrainingFree&) const = default;
};

// What one layer did for S tokens that every layer's test shares: sample s of
// layer l and sample s of layer l - 1 are of one token, so that a predictor
// that looks ahead finds its input too.
struct LayerSelfTest {
  std::vector<float> inputs;                 // [S, D] what the FFN reads
  std::vector<std::vector<uint32_t>> fired;  // [S] ascending neurons
  std::vector<std::vector<uint32_t>>
      candidates;                           // [S] of the trained predictor;
                                            // empty: it has none
  std::vector<std::vector<uint32_t>> free;  // [S] of the free one, likewise
  bool operator==(const LayerSelfTest&) const = default;
};

// Vectors "of layers" have L elements or none.
struct PreparedParts {
  // Replace what the source says; the threshold is FATReLU's.
  std::optional<Activation> activation;
  std::optional<float> ffn_threshold;

  size_t lookahead = 0;  // 0 or 1; of `predictors`
  std::vector<std::optional<LayerPredictor>> predictors;        // of layers
  std::vector<std::optional<LayerTrainingFree>> training_free;  // of layers
  std::vector<float> thresholds;  // of layers; CATS, >= 0
  // Of layers: how often each of the N neurons fired, at most INT32_MAX.
  std::vector<std::vector<uint32_t>> profile_counts;
  // Of layers: the neuron at each place, a permutation of the N. Neurons that
  // fire together stand together; weights stay as they are.
  std::vector<std::vector<uint32_t>> order;
  int64_t order_group_size = 1;          // divides N
  std::vector<LayerSelfTest> self_test;  // of layers
  // Everything else, written as it is: names begin with "thermocline." and are
  // none that the format gives another place. Figures of the profile
  // (thermocline.profile.tokens u64 belongs to the counts), what was trained on
  // what, marks of synthetic models.
  std::vector<gguf::KeyValue> keys;
};

// kInvalidArgument, naming layer and part: sizes that are not the model's or
// contradict each other, values out of range, thresholds for an activation of
// the ReLU family (whose zeros need none). kUnsupported: layers whose numbers
// of neurons differ.
Status CheckParts(const PreparedParts& parts, const model::Config& config);

// Whether the parts say what is stored under `key`: a source's own value is
// left out then. Also of all keys that belong to parts which they lack.
bool IsPartKey(const PreparedParts& parts, std::string_view key);

// Of those the figures that PreparedParts::keys has: of the profile, and of how
// predictors were trained and how good they were.
bool IsFigureKey(std::string_view key);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_PARTS_H_
