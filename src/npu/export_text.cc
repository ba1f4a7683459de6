#include "npu/export_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "npu/chunk_plan.h"

namespace thermocline::npu {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kVersion = 1;
constexpr size_t kMostShapes = 64;

// Reads the keys of one object; after the first that is wrong, nothing.
class Fields {
 public:
  Fields(const Json& json, std::string path)
      : json_(json), path_(std::move(path)) {}

  std::string Text(const char* key) {
    const Json* value = Find(key, "a text");
    if (value == nullptr) return "";
    if (!value->is_string()) return Wrong(key, "a text"), "";
    return value->get<std::string>();
  }
  int64_t Whole(const char* key, int64_t most) {
    const Json* value = Find(key, "a whole number");
    if (value == nullptr) return 0;
    return WholeOf(*value, key, most);
  }
  std::vector<int64_t> Wholes(const char* key, int64_t most) {
    std::vector<int64_t> numbers;
    const Json* value = Find(key, "a list of whole numbers");
    if (value == nullptr) return numbers;
    if (!value->is_array() || value->size() > kMostShapes) {
      return Wrong(key, "a short list of whole numbers"), numbers;
    }
    for (const Json& number : *value) {
      numbers.push_back(WholeOf(number, key, most));
    }
    return numbers;
  }
  void Wrong(const char* key, std::string_view must_be) {
    if (!status_.has_value()) return;
    status_ = Fail(ErrorCode::kCorrupt, "{}: \"{}\" has to be {}", path_, key,
                   must_be);
  }
  const Status& status() const { return status_; }

 private:
  const Json* Find(const char* key, std::string_view must_be) {
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    Wrong(key, must_be);
    return nullptr;
  }
  int64_t WholeOf(const Json& value, const char* key, int64_t most) {
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() <= static_cast<uint64_t>(most)) {
      return value.get<int64_t>();
    }
    Wrong(key, fmt::format("whole, of 0 to {}", most));
    return 0;
  }

  const Json& json_;
  std::string path_;
  Status status_;
};

std::string HashText(uint64_t hash) { return fmt::format("{:016x}", hash); }

uint64_t ReadHash(Fields& fields) {
  const std::string text = fields.Text("hash");
  uint64_t hash = 0;
  const auto is_hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  if (text.size() != 16 || !std::ranges::all_of(text, is_hex)) {
    fields.Wrong("hash", "16 hexadecimal digits");
    return hash;
  }
  for (const char c : text) {
    hash = hash * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return hash;
}

model::ModelFingerprint ReadModel(Fields& fields) {
  model::ModelFingerprint model;
  const auto extent = [&](const char* key) {
    return static_cast<size_t>(fields.Whole(key, model::kMaxWidth));
  };
  model.architecture = fields.Text("architecture");
  model.name = fields.Text("name");
  model.num_layers = extent("layers");
  model.width = extent("width");
  model.ffn_width = extent("ffn_width");
  model.num_experts = extent("experts");
  model.hash = ReadHash(fields);
  return model;
}

}  // namespace

std::string FormatExport(const ExportedModel& exported) {
  const model::ModelFingerprint& model = exported.model;
  const Json json = {{"format", "thermocline-npu"},
                     {"version", kVersion},
                     {"model_path", exported.model_path},
                     {"architecture", model.architecture},
                     {"name", model.name},
                     {"layers", model.num_layers},
                     {"width", model.width},
                     {"ffn_width", model.ffn_width},
                     {"experts", model.num_experts},
                     {"hash", HashText(model.hash)},
                     {"weights", NameOf(exported.weights)},
                     {"kv", NameOf(exported.kv)},
                     {"rows", exported.rows},
                     {"contexts", exported.contexts},
                     {"layers_per_graph", exported.layers_per_graph}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ExportedModel> ParseExport(std::string_view text,
                                  const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Fail(ErrorCode::kCorrupt, "{}: is no JSON object", path);
  }
  Fields fields(json, path);
  if (fields.Text("format") != "thermocline-npu") {
    fields.Wrong("format", "\"thermocline-npu\"");
  }
  if (fields.Whole("version", kVersion) != kVersion) {
    fields.Wrong("version", "1");
  }
  ExportedModel exported = {.model_path = fields.Text("model_path"),
                            .model = ReadModel(fields)};
  const auto weights = ParseWeightForm(fields.Text("weights"));
  auto kv = ParseKvForm(fields.Text("kv"));
  if (kv == KvForm::kScatter || kv == KvForm::kRoll) kv.reset();
  if (!weights) fields.Wrong("weights", "one of " + ListWeightForms());
  if (!kv) fields.Wrong("kv", "append or stateful");
  exported.weights = weights.value_or(exported.weights);
  exported.kv = kv.value_or(exported.kv);
  exported.rows = fields.Wholes("rows", 1 << 20);
  exported.contexts = fields.Wholes("contexts", 1 << 24);
  exported.layers_per_graph =
      static_cast<size_t>(fields.Whole("layers_per_graph", model::kMaxLayers));
  TC_RETURN_IF_ERROR(fields.status());
  const Status shapes = CheckShapes({exported.rows, exported.contexts});
  if (!shapes.has_value()) {
    return Fail(ErrorCode::kCorrupt, "{}: {}", path, shapes.error().message);
  }
  return exported;
}

std::string FormatModelFacts(const model::Config& config) {
  const model::AttentionSpec& attention = config.layers[0].attention;
  Json json = {{"model_type", config.architecture},
               {"_name_or_path", config.name},
               {"num_hidden_layers", config.layers.size()},
               {"hidden_size", config.width},
               {"intermediate_size", config.layers[0].ffn.width},
               {"num_attention_heads", attention.num_heads},
               {"num_key_value_heads", attention.num_kv_heads},
               {"head_dim", attention.key_width},
               {"vocab_size", config.vocab_size},
               {"max_position_embeddings", config.context_length},
               {"rms_norm_eps", config.norm_epsilon},
               {"hidden_act", NameOf(config.layers[0].ffn.activation)}};
  if (!config.ropes.empty()) json["rope_theta"] = config.ropes[0].freq_base;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thermocline::npu
