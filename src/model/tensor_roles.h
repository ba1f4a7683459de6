// Every tensor of the forward pass in one table: its name, what it is for, its
// shape, when it must be there, and where it is bound. Binding, checks, counts
// of bytes, imports and descriptions read it; an architecture with a new tensor
// adds a row.
#ifndef THERMOCLINE_MODEL_TENSOR_ROLES_H_
#define THERMOCLINE_MODEL_TENSOR_ROLES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "model/config.h"
#include "model/model.h"
#include "model/tensor_binder.h"
#include "tensor/tensor_view.h"

namespace thermocline::model {

// What a tensor is for; a weight and its bias are alike.
enum class TensorUse : uint8_t {
  kTokenEmbedding,
  kPositionEmbedding,
  kAttentionQ,
  kAttentionK,
  kAttentionV,
  kAttentionQkv,  // one matrix for all three
  kAttentionOut,
  kAttentionOther,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kFfnDownT,    // down transposed: a row per neuron
  kFfnRecords,  // of prepared files: gate, up and down side by side
  kFfnOther,
  kExpertRouter,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertShared,
  kPredictorUp,
  kPredictorDown,
  kPredictorFree,  // of prepared files: signs and margins, not trained
  kNorm,
  kHead,
  kPlacement,  // which neurons lie where: split files
  kFindings,   // of prepared files: counts, order, self-test
  kOther,
};

// An extent by its meaning. Letters as in LayerSpec and Config.
enum class Extent : uint8_t {
  kOne,
  kVocab,      // V
  kPositions,  // rows of the table of learned positions
  kWidth,      // D
  kQRows,      // H * K
  kKRows,      // KVH * K
  kVRows,      // KVH * Kv
  kQkvRows,    // the three together
  kHeadOut,    // H * Kv
  kKeyWidth,   // K
  kFfnWidth,   // F
  kNeurons,    // F, or F * E of a mixture
  kExperts,    // E
  kRopePairs,  // half of what rotates
  kRank,       // of a predictor: what its tensors say
};
// 0 for kRank.
size_t ExtentOf(Extent extent, const Config& config, const LayerSpec& layer);

enum class TensorForm : uint8_t {
  kVector,  // F32 [columns]
  kMatrix,  // [rows, columns]
  kStack,   // a matrix per expert, in one tensor
  kData,    // numbers that are no weights
};

// The member that holds the view; none: its binder is code of its own.
using Slot =
    std::variant<std::monostate, TensorView Weights::*,
                 TensorView AttentionWeights::*, TensorView FfnWeights::*,
                 TensorView FfnMatrices::*, TensorView PredictorWeights::*,
                 TensorView TrainingFreeWeights::*>;

// What the presence of another tensor changes.
enum class Beside : uint8_t {
  kNothing,
  kForbiddenWithout,
  kForbiddenWith,
  kOptionalWith,
};

struct TensorRole {
  std::string_view name;  // of a layer's: behind "blk.N."
  TensorUse use;
  TensorForm form;
  Extent rows;  // kOne for vectors
  Extent columns;
  Need (*need)(const Config& config, const LayerSpec& layer);
  Slot slot;
  Beside beside = Beside::kNothing;
  std::string_view other;  // the tensor that `beside` is about
};

// Tensors besides the layers', and those of a layer. In the order in which they
// are bound: where two have one slot, the later one wins if it is there.
std::span<const TensorRole> ModelRoles();
std::span<const TensorRole> LayerRoles();

// The role of a tensor's name, without "blk.N."; null: there is none.
const TensorRole* FindRole(std::string_view name);

// What the name says without its last part, ".weight" or ".bias"; kOther if it
// is in no row.
TensorUse UseOf(std::string_view stem);

// Calls `visit` for each slot once, with the first of its roles and what is
// bound there, an empty view too: those of the model, those of a layer. FFN
// matrices of a mixture come once per expert.
using VisitTensor =
    std::function<void(const TensorRole& role, const TensorView& view)>;
void ForEachModelTensor(const Weights& weights, const VisitTensor& visit);
void ForEachLayerTensor(const LayerWeights& layer, const VisitTensor& visit);

// Whether norms and biases, which are read as floats in place, lie at multiples
// of 4 bytes. Matrices may lie anywhere.
bool VectorsAreAligned(const Weights& weights);

}  // namespace thermocline::model

#endif  // THERMOCLINE_MODEL_TENSOR_ROLES_H_
