#include "pack/names.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace thermocline::pack {
namespace {

// Digits at the front of `text`, taken off it; nullopt: none, or too many.
std::optional<size_t> TakeNumber(std::string_view& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(next - text.data()));
  return static_cast<size_t>(value);
}

bool TakePrefix(std::string_view prefix, std::string_view& text) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::optional<LayerName> ParseLayerName(std::string_view name) {
  if (!TakePrefix("blk.", name)) return std::nullopt;
  const auto layer_idx = TakeNumber(name);
  if (!layer_idx || !TakePrefix(".", name)) return std::nullopt;
  return LayerName{.layer_idx = *layer_idx, .rest = name};
}

bool IsFfnMatrix(std::string_view rest) {
  // The longer name first: the other is its beginning.
  for (const std::string_view stem :
       {"ffn_gate", "ffn_up", "ffn_down_t", "ffn_down"}) {
    std::string_view suffix = rest;
    if (!TakePrefix(stem, suffix)) continue;
    if (suffix == ".weight" || suffix == "_exps.weight") return true;
    return TakePrefix(".", suffix) && TakeNumber(suffix).has_value() &&
           suffix == ".weight";
  }
  return false;
}

bool IsOwnTensor(std::string_view rest) { return rest.starts_with("tc_"); }

bool IsForeignPredictor(std::string_view rest) {
  return rest == "fc1.weight" || rest == "fc2.weight" ||
         rest.starts_with("ffn_pred_up.") || rest.starts_with("ffn_pred_down.");
}

bool IsForeignPredictorKey(std::string_view key) {
  return key == "predictor.low_ranks" || key == "powerinfer.sparse_threshold" ||
         key.ends_with(".pred_lora");
}

}  // namespace thermocline::pack
