// Names of keys and tensors in prepared files, for those who read and write
// them. What they mean: docs/formats/prepared.md.
#ifndef THERMOCLINE_MODEL_PREPARED_NAMES_H_
#define THERMOCLINE_MODEL_PREPARED_NAMES_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace thermocline::model::prepared {

inline constexpr int64_t kVersion = 1;  // what is written, and the newest read

inline constexpr char kProfileTokens[] = "thermocline.profile.tokens";
inline constexpr char kVersionKey[] = "thermocline.version";
inline constexpr char kActivation[] = "thermocline.ffn.activation";
inline constexpr char kFfnThreshold[] = "thermocline.ffn.threshold";
inline constexpr char kThresholds[] = "thermocline.ffn.thresholds";
inline constexpr char kRecordTypes[] = "thermocline.records.types";
inline constexpr char kGateIsMatrix[] = "matrix";  // in the place of a type
inline constexpr char kRecordStride[] = "thermocline.records.stride";
inline constexpr char kLookahead[] = "thermocline.predictor.lookahead";
inline constexpr char kMaxDifferences[] = "thermocline.free.max_differences";
inline constexpr char kProfilePrefix[] = "thermocline.profile.";
inline constexpr char kTrainingPrefix[] = "thermocline.training.";
inline constexpr char kOrderGroupSize[] = "thermocline.order.group_size";
// Of models that 'thermocline synth' made: what was asked for.
inline constexpr char kSynthetic[] = "thermocline.synthetic";
// Of files that hold the parts without a model: its extents.
inline constexpr char kPartsType[] = "thermocline-parts";  // general.type
inline constexpr char kPartsLayers[] = "thermocline.parts.layers";
inline constexpr char kPartsWidth[] = "thermocline.parts.width";
inline constexpr char kPartsNeurons[] = "thermocline.parts.neurons";

// Behind "blk.N.".
inline constexpr char kRecords[] = "ffn_records.weight";
inline constexpr char kGates[] = "ffn_gate.weight";  // if they are a matrix
inline constexpr char kExpertGates[] = "ffn_gate_exps.weight";  // likewise
inline constexpr char kPredictorUp[] = "tc_pred_up";      // .weight, .bias
inline constexpr char kPredictorDown[] = "tc_pred_down";  // .weight, .bias
inline constexpr char kFreeSigns[] = "tc_free_signs.weight";
inline constexpr char kFreeUp[] = "tc_free_up.weight";
inline constexpr char kFreeDown[] = "tc_free_down.weight";
inline constexpr char kFreeBias[] = "tc_free.bias";
inline constexpr char kTestInputs[] = "tc_selftest.inputs";
inline constexpr char kTestFired[] = "tc_selftest.fired";
inline constexpr char kTestCandidates[] = "tc_selftest.candidates";
inline constexpr char kTestFree[] = "tc_selftest.free";
inline constexpr char kProfileCounts[] = "tc_profile.counts";
inline constexpr char kOrder[] = "tc_order";
inline constexpr char kSourceNeurons[] = "tc_source_neurons";

inline std::string OfLayer(size_t layer_idx, std::string_view name) {
  return fmt::format("blk.{}.{}", layer_idx, name);
}

}  // namespace thermocline::model::prepared

#endif  // THERMOCLINE_MODEL_PREPARED_NAMES_H_
