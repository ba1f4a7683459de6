#include <fmt/format.h>

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "inspect/report.h"
#include "neuron/json_values.h"

namespace thermocline::inspect {
namespace {

using Json = nlohmann::ordered_json;

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// The shortest decimal that reads back as the same float: 0.1, not its double.
// JSON has no others than finite ones.
Json ShortFloat(float value) {
  if (!std::isfinite(value)) return nullptr;
  return Json::parse(fmt::format("{}", value), nullptr,
                     /*allow_exceptions=*/false);
}

// A number, or one of each layer.
Json OfLayers(std::optional<int64_t> number,
              const std::vector<int64_t>& of_layers) {
  return of_layers.empty() ? OrNull(number) : Json(of_layers);
}

Json Rope(const model::Config& config) {
  const model::RopeConfig rope =
      config.ropes.empty() ? model::RopeConfig{.kind = RopeKind::kNone}
                           : config.ropes.front();
  return {{"kind", NameOf(rope.kind)},
          {"width", rope.width},
          {"freq_base", ShortFloat(rope.freq_base)},
          {"scaling", NameOf(rope.scaling)},
          {"factor", ShortFloat(rope.factor)}};
}

Json Ffn(const model::FfnSpec& ffn) {
  return {{"activation", NameOf(ffn.activation)},
          {"threshold", ShortFloat(ffn.threshold)},
          {"gated", ffn.gated}};
}

Json Quantisation(const InspectReport& report) {
  Json classes = Json::object();
  for (int i = 0; i < kNumTensorClasses; ++i) {
    classes[NameOf(static_cast<TensorClass>(i))] = Json::array();
  }
  for (const auto& [key, use] : SumBy(report.tensors, [](const TensorRow& row) {
         return std::pair(ClassOf(row.role), row.dtype);
       })) {
    classes[NameOf(key.first)].push_back({{"type", NameOf(key.second)},
                                          {"tensors", use.num_tensors},
                                          {"bytes", use.num_bytes}});
  }
  return classes;
}

// A list with an object for each layer that has tensors.
Json LayerBytes(const InspectReport& report) {
  Json layers = Json::array();
  for (const auto& [layer, bytes] : BytesByLayer(report.tensors)) {
    layers.push_back({{"layer", layer}});
    for (const auto& [tensor_class, num_bytes] : bytes) {
      layers.back()[NameOf(tensor_class)] = num_bytes;
    }
  }
  return layers;
}

Json Predictors(const Sparsity& sparsity) {
  if (sparsity.predictor_ranks.empty()) return nullptr;
  return {{"ranks", sparsity.predictor_ranks},
          {"bias", sparsity.predictor_bias}};
}

Json Records(std::span<const neuron::RecordLayout> records) {
  Json layers = Json::array();
  for (const neuron::RecordLayout& layout : records) {
    layers.push_back(
        {{"gate", layout.gate ? Json(NameOf(*layout.gate)) : Json(nullptr)},
         {"up", NameOf(layout.up)},
         {"down", NameOf(layout.down)},
         {"stride", layout.stride}});
  }
  return layers;
}

Json Prepared(const InspectReport& report) {
  if (!report.prepared.has_value()) return nullptr;
  const PreparedFacts& prepared = *report.prepared;
  Json thresholds = Json::array();
  for (const float threshold : prepared.thresholds) {
    thresholds.push_back(ShortFloat(threshold));
  }
  return {{"version", prepared.version},
          {"records", Records(prepared.records)},
          {"lookahead", OrNull(prepared.lookahead)},
          {"free_layers", prepared.num_training_free_layers},
          {"thresholds", std::move(thresholds)},
          {"profile_tokens", OrNull(prepared.profile_tokens)},
          {"density", OrNull(prepared.density)},
          {"locality", OrNull(prepared.locality)},
          {"skew", OrNull(prepared.skew)},
          {"order_group_size", OrNull(prepared.order_group_size)},
          {"in_order", prepared.is_in_order},
          {"selftest_tokens", prepared.num_test_samples}};
}

Json Split(const InspectReport& report) {
  if (!report.split.has_value()) return nullptr;
  const SplitFile& split = *report.split;
  return {{"kind", split.kind},
          {"layers", split.num_layers},
          {"neurons", split.num_neurons},
          {"gpu_neurons", OrNull(split.num_gpu_neurons)},
          {"vram_bytes", OrNull(split.vram_bytes)},
          {"group_size", OrNull(split.neurons_per_group)}};
}

Json KvBytesJson(const InspectReport& report) {
  if (!report.kv_bytes.has_value()) return nullptr;
  return {{"f16", report.kv_bytes->f16},
          {"q8_0", OrNull(report.kv_bytes->q8_0)}};
}

Json PositionRows(const InspectReport& report) {
  for (const TensorRow& row : report.tensors) {
    if (row.role == TensorRole::kPositionEmbedding) return row.shape.ne[1];
  }
  return nullptr;
}

Json Tokenizer(const InspectReport& report) {
  if (!report.vocab.has_value()) return nullptr;
  const text::Vocab& vocab = *report.vocab;
  Json tokenizer = {{"model", OrNull(report.tokenizer_model)},
                    {"pre", vocab.pre},
                    {"tokens", vocab.tokens.size()},
                    {"merges", vocab.merges.size()}};
  for (const SpecialToken& special : SpecialTokens(vocab)) {
    tokenizer[special.name] = OrNull(special.id);
  }
  tokenizer["add_bos"] = vocab.add_bos;
  tokenizer["add_eos"] = vocab.add_eos;
  return tokenizer;
}

Json Memory(const InspectReport& report) {
  if (!report.memory.has_value()) return nullptr;
  return {{"context", report.memory_context},
          {"kv_bytes", report.memory->host.kv},
          {"scratch_bytes", report.memory->host.scratch},
          {"mapped_bytes", report.num_file_bytes}};
}

}  // namespace

std::string FormatInspectJson(const InspectReport& report) {
  const ModelShape& shape = report.shape;
  const bool runs = report.cannot_run.empty();
  const Json json = {
      {"file", report.path},
      {"container", NameOf(report.container)},
      {"gguf_version", report.gguf_version},
      {"shards", report.num_shards},
      {"file_bytes", report.num_file_bytes},
      {"architecture", OrNull(report.architecture)},
      {"name", OrNull(report.name)},
      {"parameters", report.total.num_params},
      {"tensors", report.total.num_tensors},
      {"weight_bytes", report.total.num_bytes},
      {"bits_per_weight", BitsPerWeight(report.total)},
      {"context_length", OrNull(shape.context_length)},
      {"layers", OrNull(shape.num_layers)},
      {"width", OrNull(shape.width)},
      {"ffn_width", OfLayers(shape.ffn_width, shape.ffn_widths)},
      {"heads", OfLayers(shape.num_heads, shape.heads_of_layers)},
      {"kv_heads", OfLayers(shape.num_kv_heads, shape.kv_heads_of_layers)},
      {"experts", OrNull(shape.num_experts)},
      {"experts_used", OrNull(shape.num_experts_used)},
      {"position_rows", PositionRows(report)},
      {"rope", report.config ? Rope(*report.config) : Json(nullptr)},
      {"ffn",
       report.config ? Ffn(report.config->layers.front().ffn) : Json(nullptr)},
      {"predictors", Predictors(report.sparsity)},
      {"score_threshold", report.sparsity.score_threshold.has_value()
                              ? ShortFloat(*report.sparsity.score_threshold)
                              : Json(nullptr)},
      {"prepared", Prepared(report)},
      {"split_file", Split(report)},
      {"quantisation", Quantisation(report)},
      {"layer_bytes", LayerBytes(report)},
      {"tied_head", runs ? Json(report.tied_head) : Json(nullptr)},
      {"tokenizer", Tokenizer(report)},
      {"tokenizer_problem", TextOrNull(report.tokenizer_problem)},
      {"kv_bytes_per_position", KvBytesJson(report)},
      {"weight_bytes_per_token",
       runs ? Json(report.weight_bytes_per_token) : Json(nullptr)},
      {"memory", Memory(report)},
      {"runs", runs},
      {"executor", runs ? Json(report.executor) : Json(nullptr)},
      {"isa", runs ? Json(report.isa) : Json(nullptr)},
      {"reason", TextOrNull(report.cannot_run)}};
  // Names in a file are any bytes: what is not UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

}  // namespace thermocline::inspect
