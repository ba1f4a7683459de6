// What the names of a model's tensors and keys say to those who pack it.
#ifndef THERMOCLINE_PACK_NAMES_H_
#define THERMOCLINE_PACK_NAMES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace thermocline::pack {

// "blk.12.ffn_up.weight": layer 12, "ffn_up.weight". nullopt: of no layer.
struct LayerName {
  size_t layer_idx = 0;
  std::string_view rest;  // into the name
};
std::optional<LayerName> ParseLayerName(std::string_view name);

// Of LayerName::rest: gate, up, down or transposed down of an FFN, of all
// experts ("ffn_up_exps.weight") or of one ("ffn_up.3.weight").
bool IsFfnMatrix(std::string_view rest);

// A tensor that only prepared files have, other than records.
bool IsOwnTensor(std::string_view rest);

// A predictor of PowerInfer or KAIROX, and keys that speak of it.
bool IsForeignPredictor(std::string_view rest);
bool IsForeignPredictorKey(std::string_view key);

}  // namespace thermocline::pack

#endif  // THERMOCLINE_PACK_NAMES_H_
