#include "pack/renumber.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "model/prepared_names.h"
#include "model/profile_file.h"
#include "model/tensor_roles.h"
#include "pack/names.h"

namespace thermocline::pack {
namespace {

namespace prepared = model::prepared;

// Where a tensor has its neurons.
enum class NeuronAxis : uint8_t {
  kNone,
  kRows,  // a row, or an element of a vector, for each
  kBits,  // a bit for each, in every row
};

NeuronAxis AxisOf(const model::TensorRole& role) {
  const auto is_neurons = [](model::Extent extent) {
    return extent == model::Extent::kFfnWidth ||
           extent == model::Extent::kNeurons;
  };
  if (is_neurons(role.rows)) return NeuronAxis::kRows;
  if (!is_neurons(role.columns)) return NeuronAxis::kNone;
  if (role.rows == model::Extent::kOne) return NeuronAxis::kRows;
  // A matrix with a column for each is in the records.
  TC_CHECK(role.form == model::TensorForm::kData);
  return NeuronAxis::kBits;
}

std::vector<std::byte> MoveRows(std::span<const std::byte> bytes,
                                std::span<const uint32_t> order) {
  TC_CHECK(bytes.size() % order.size() == 0);
  const size_t row_bytes = bytes.size() / order.size();
  std::vector<std::byte> moved(bytes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(&moved[i * row_bytes], &bytes[order[i] * row_bytes], row_bytes);
  }
  return moved;
}

std::vector<std::byte> MoveBits(std::span<const std::byte> bytes,
                                std::span<const uint32_t> order) {
  const size_t row_bytes = (order.size() + 7) / 8;
  TC_CHECK(bytes.size() % row_bytes == 0);
  std::vector<std::byte> moved(bytes.size());
  for (size_t row = 0; row < bytes.size(); row += row_bytes) {
    for (size_t i = 0; i < order.size(); ++i) {
      const std::byte bit =
          bytes[row + order[i] / 8] >> (order[i] % 8) & std::byte{1};
      moved[row + i / 8] |= bit << (i % 8);
    }
  }
  return moved;
}

std::vector<uint32_t> InNumberOrder(size_t num_neurons) {
  std::vector<uint32_t> numbers(num_neurons);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

std::vector<uint32_t> NumbersIn(const TensorView& view) {
  std::vector<uint32_t> numbers(view.num_bytes() / sizeof(uint32_t));
  std::memcpy(numbers.data(), view.data, view.num_bytes());
  return numbers;
}

// Of any layer, in the file that is written: ours of the parts, or those of the
// source that are kept without these.
bool HasPredictors(const model::Model& source, const PreparedParts& parts) {
  const auto is_there = [](const auto& part) { return part.has_value(); };
  if (std::ranges::any_of(parts.predictors, is_there) ||
      std::ranges::any_of(parts.training_free, is_there)) {
    return true;
  }
  const model::PredictorKind kind = source.config().predictor.kind;
  return parts.predictors.empty() && kind != model::PredictorKind::kNone &&
         kind != model::PredictorKind::kThermocline;
}

}  // namespace

std::string WhyInNumberOrder(const model::Model& source,
                             const PreparedParts& parts) {
  if (CommonFfn(source.config()).num_experts > 0) {
    return "those of experts keep theirs";
  }
  if (parts.order.empty()) return "nothing says which fire together";
  if (!HasPredictors(source, parts)) {
    return "without a predictor all gates are read";
  }
  return "";
}

Renumbering::Renumbering(const model::Model& source) : source_(source) {
  for (const model::LayerWeights& layer : source.weights().layers) {
    if (!layer.source_neurons) return;
    source_neurons_.push_back(NumbersIn(layer.source_neurons));
  }
}

Renumbering::Renumbering(const model::Model& source, const PreparedParts& parts)
    : Renumbering(source) {
  TC_CHECK(WhyInNumberOrder(source, parts).empty());
  order_ = parts.order;
  const bool is_anew = source_neurons_.empty();
  for (size_t i = 0; i < order_.size(); ++i) {
    if (is_anew) {
      source_neurons_.push_back(order_[i]);
      continue;
    }
    const std::vector<uint32_t> before = source_neurons_[i];
    for (size_t k = 0; k < before.size(); ++k) {
      source_neurons_[i][k] = before[order_[i][k]];
    }
  }
}

std::vector<std::byte> Renumbering::Moved(
    std::string_view name, std::span<const std::byte> bytes) const {
  const std::optional<LayerName> layer = ParseLayerName(name);
  if (order_.empty() || !layer || layer->layer_idx >= order_.size()) return {};
  const std::vector<uint32_t>& order = order_[layer->layer_idx];
  if (layer->rest == prepared::kSourceNeurons) return {};  // by the new numbers
  if (layer->rest == prepared::kOrder) {
    const std::vector<uint32_t> numbers = InNumberOrder(order.size());
    const auto view = std::as_bytes(std::span(numbers));
    return {view.begin(), view.end()};
  }
  const model::TensorRole* role = model::FindRole(layer->rest);
  switch (role == nullptr ? NeuronAxis::kNone : AxisOf(*role)) {
    case NeuronAxis::kRows:
      return MoveRows(bytes, order);
    case NeuronAxis::kBits:
      return MoveBits(bytes, order);
    case NeuronAxis::kNone:
      break;
  }
  return {};
}

std::optional<uint64_t> Renumbering::Hash() const {
  if (source_neurons_.empty()) return std::nullopt;
  model::Weights weights = source_.weights();
  for (size_t i = 0; i < source_neurons_.size(); ++i) {
    const std::vector<uint32_t>& numbers = source_neurons_[i];
    weights.layers[i].source_neurons = {
        .dtype = DType::kI32,
        .shape = {.ne = {numbers.size(), 1, 1, 1}, .rank = 1},
        .data = reinterpret_cast<const std::byte*>(numbers.data())};
  }
  return model::FingerprintOf(source_.config(), weights).hash;
}

Renumbering ChooseNumbers(const model::Model& source,
                          const PreparedParts& parts,
                          const PackOptions& options) {
  const bool in_order = options.bundle && options.in_order &&
                        WhyInNumberOrder(source, parts).empty();
  return in_order ? Renumbering(source, parts) : Renumbering(source);
}

}  // namespace thermocline::pack
