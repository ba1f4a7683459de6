#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/inspect_report.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// The shortest decimal that reads back as the same float: 0.1, not its double.
Json ShortFloat(float value) {
  return Json::parse(fmt::format("{}", value), nullptr,
                     /*allow_exceptions=*/false);
}

Json Rope(const model::RopeConfig& rope) {
  return {{"kind", NameOf(rope.kind)},
          {"width", rope.width},
          {"freq_base", ShortFloat(rope.freq_base)},
          {"scaling", NameOf(rope.scaling)},
          {"factor", ShortFloat(rope.factor)}};
}

Json Ffn(const model::FfnConfig& ffn) {
  return {{"activation", NameOf(ffn.activation)},
          {"threshold", ShortFloat(ffn.threshold)},
          {"gated", ffn.gated}};
}

Json Quantisation(const InspectReport& report) {
  Json classes = Json::object();
  for (int i = 0; i < kNumTensorClasses; ++i) {
    const auto tensor_class = static_cast<TensorClass>(i);
    Json uses = Json::array();
    if (const auto types = report.quantisation.find(tensor_class);
        types != report.quantisation.end()) {
      for (const auto& [dtype, use] : types->second) {
        uses.push_back({{"type", NameOf(dtype)},
                        {"tensors", use.num_tensors},
                        {"bytes", use.num_bytes}});
      }
    }
    classes[NameOf(tensor_class)] = std::move(uses);
  }
  return classes;
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
          {"kv_bytes", report.memory->kv_bytes},
          {"scratch_bytes", report.memory->scratch_bytes},
          {"mapped_bytes", report.num_file_bytes}};
}

}  // namespace

std::string FormatInspectJson(const InspectReport& report) {
  const ModelShape& shape = report.shape;
  const bool runs = report.cannot_run.empty();
  const Json json = {
      {"file", report.path},
      {"gguf_version", report.gguf_version},
      {"shards", report.num_shards},
      {"file_bytes", report.num_file_bytes},
      {"architecture", OrNull(report.architecture)},
      {"name", OrNull(report.name)},
      {"parameters", report.num_params},
      {"tensors", report.num_tensors},
      {"weight_bytes", report.num_weight_bytes},
      {"context_length", OrNull(shape.context_length)},
      {"layers", OrNull(shape.num_layers)},
      {"width", OrNull(shape.width)},
      {"ffn_width", OrNull(shape.ffn_width)},
      {"heads", OrNull(shape.num_heads)},
      {"kv_heads", OrNull(shape.num_kv_heads)},
      {"rope", report.config ? Rope(report.config->rope) : Json(nullptr)},
      {"ffn", report.config ? Ffn(report.config->ffn) : Json(nullptr)},
      {"quantisation", Quantisation(report)},
      {"tied_head", runs ? Json(report.tied_head) : Json(nullptr)},
      {"tokenizer", Tokenizer(report)},
      {"tokenizer_problem", TextOrNull(report.tokenizer_problem)},
      {"memory", Memory(report)},
      {"runs", runs},
      {"executor", runs ? Json("dense") : Json(nullptr)},
      {"isa", runs ? Json(report.isa) : Json(nullptr)},
      {"reason", TextOrNull(report.cannot_run)}};
  // Names in a file are any bytes: what is not UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

}  // namespace thermocline::cli
