// What inspect says of prepared files.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "inspect/report.h"
#include "model/prepared_names.h"

namespace thermocline::inspect {
namespace {

namespace prepared = model::prepared;

std::optional<int64_t> IntOf(const gguf::File& file, const char* key) {
  return file.Int(key).value_or(std::nullopt);
}

std::optional<double> FigureOf(const gguf::File& file, const char* key) {
  return file.Float(key).value_or(std::nullopt);
}

bool IsOf(const TensorRow& row, const char* name) {
  return row.layer.has_value() &&
         row.name == prepared::OfLayer(static_cast<size_t>(*row.layer), name);
}

void CountTensors(std::span<const TensorRow> rows, PreparedFacts& prepared) {
  for (const TensorRow& row : rows) {
    prepared.num_training_free_layers +=
        IsOf(row, prepared::kFreeSigns) ? 1 : 0;
    prepared.num_free_margins += IsOf(row, prepared::kFreeDown) ? 1 : 0;
    prepared.num_profile_layers += IsOf(row, prepared::kProfileCounts) ? 1 : 0;
    if (IsOf(row, prepared::kSourceNeurons)) prepared.is_in_order = true;
    if (IsOf(row, prepared::kTestInputs)) {
      prepared.num_test_samples = static_cast<int64_t>(row.shape.ne[1]);
    }
  }
}

std::string DescribeRecord(const neuron::RecordLayout& layout) {
  return fmt::format(
      "{}{} up, {} down, {} bytes a neuron",
      layout.gate ? fmt::format("{} gate, ", NameOf(*layout.gate)) : "",
      NameOf(layout.up), NameOf(layout.down), layout.stride);
}

std::string Percent(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

std::string DescribeProfile(const PreparedFacts& prepared) {
  std::string text = prepared.profile_tokens.has_value()
                         ? Plural(*prepared.profile_tokens, "token")
                         : Plural(prepared.num_profile_layers, "layer");
  for (const auto& [name, share] : {std::pair("density", prepared.density),
                                    std::pair("locality", prepared.locality),
                                    std::pair("skew", prepared.skew)}) {
    if (share.has_value()) {
      text += fmt::format(", {} {}", name, Percent(*share));
    }
  }
  return text;
}

std::string DescribeThresholds(std::span<const float> thresholds) {
  const auto [least, most] = std::ranges::minmax(thresholds);
  return least == most ? fmt::format("{:.3g}", least)
                       : fmt::format("{:.3g} to {:.3g}", least, most);
}

}  // namespace

std::string DescribeRecords(std::span<const neuron::RecordLayout> records) {
  std::string text;
  for (size_t begin = 0; begin < records.size();) {
    size_t end = begin + 1;
    while (end < records.size() && records[end] == records[begin]) ++end;
    const std::string record = DescribeRecord(records[begin]);
    if (begin == 0 && end == records.size()) return record;
    text += begin > 0 ? "; " : "";
    text += end - begin == 1 ? fmt::format("{}: ", begin)
                             : fmt::format("{}-{}: ", begin, end - 1);
    text += record;
    begin = end;
  }
  return text;
}

std::vector<PreparedFact> DescribeFindings(const PreparedFacts& prepared) {
  std::vector<PreparedFact> facts;
  if (prepared.lookahead.has_value()) {
    facts.push_back(
        {"input", *prepared.lookahead == 0
                      ? "predictors read their own layer's"
                      : "predictors read that of the layer before"});
  }
  if (prepared.num_training_free_layers > 0) {
    facts.push_back(
        {"free", fmt::format("training-free predictors, signs of {}{}",
                             Plural(prepared.num_training_free_layers, "layer"),
                             prepared.num_free_margins > 0
                                 ? fmt::format(", margins of {}",
                                               prepared.num_free_margins)
                                 : "")});
  }
  if (!prepared.thresholds.empty()) {
    facts.push_back({"thresholds", DescribeThresholds(prepared.thresholds)});
  }
  if (prepared.num_profile_layers > 0) {
    facts.push_back({"profile", DescribeProfile(prepared)});
  }
  if (prepared.order_group_size.has_value()) {
    facts.push_back(
        {"order", fmt::format("groups of {}{}", *prepared.order_group_size,
                              prepared.is_in_order
                                  ? ", and neurons lie in it, with other "
                                    "numbers than in their source"
                                  : "")});
  }
  if (prepared.num_test_samples > 0) {
    facts.push_back({"self-test", Plural(prepared.num_test_samples, "token")});
  }
  return facts;
}

void CountRecords(const model::Config& config, std::span<TensorRow> rows) {
  for (TensorRow& row : rows) {
    if (row.role != TensorRole::kFfnRecords || !row.layer.has_value() ||
        std::cmp_greater_equal(*row.layer, config.records.size())) {
      continue;
    }
    const neuron::RecordLayout& layout =
        config.records[static_cast<size_t>(*row.layer)];
    row.dtype = layout.up;
    row.num_params = row.shape.ne[1] * layout.width * (layout.gate ? 3 : 2);
  }
}

std::optional<PreparedFacts> ReadPreparedFacts(
    const gguf::File& file, const model::Config* config,
    std::span<const TensorRow> rows) {
  PreparedFacts prepared;
  prepared.version = IntOf(file, prepared::kVersionKey).value_or(0);
  if (prepared.version < 1) return std::nullopt;
  prepared.has_model = file.String("general.type").value_or(std::nullopt) !=
                       prepared::kPartsType;
  if (config != nullptr) {
    prepared.records = config->records;
    prepared.thresholds = config->thresholds;
  }
  prepared.lookahead = IntOf(file, prepared::kLookahead);
  prepared.profile_tokens = IntOf(file, model::prepared::kProfileTokens);
  prepared.density = FigureOf(file, "thermocline.profile.density");
  prepared.locality = FigureOf(file, "thermocline.profile.locality");
  prepared.skew = FigureOf(file, "thermocline.profile.skew");
  prepared.order_group_size = IntOf(file, prepared::kOrderGroupSize);
  CountTensors(rows, prepared);
  return prepared;
}

}  // namespace thermocline::inspect
