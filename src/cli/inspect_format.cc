#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/inspect_report.h"
#include "cli/json_writer.h"

namespace thermocline::cli {
namespace {

using model::RopeScaling;

const char* NameOf(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kYarn:
      return "yarn";
  }
  return "";
}

const char* NameOf(RopeKind kind) {
  switch (kind) {
    case RopeKind::kNone:
      return "none";
    case RopeKind::kNorm:
      return "norm";
    case RopeKind::kNeox:
      return "neox";
  }
  return "";
}

struct SpecialToken {
  const char* name;
  std::optional<text::TokenId> id;
};

std::array<SpecialToken, 6> SpecialTokens(const text::Vocab& vocab) {
  return {{{"bos", vocab.bos},
           {"eos", vocab.eos},
           {"eot", vocab.eot},
           {"eom", vocab.eom},
           {"unk", vocab.unk},
           {"pad", vocab.pad}}};
}

// Text of a file for a terminal: control characters, which could steer it,
// become '?'.
std::string Plain(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

class TextReport {
 public:
  void Line(std::string_view label, std::string_view value) {
    out_ += fmt::format("{:<14}  {}\n", label, value);
  }
  // Nothing without a value.
  void Number(std::string_view label, std::optional<int64_t> value) {
    if (value.has_value()) Line(label, fmt::format("{}", *value));
  }
  std::string text() && { return std::move(out_); }

 private:
  std::string out_;
};

void AddShape(const InspectReport& report, TextReport& text) {
  const ModelShape& shape = report.shape;
  text.Number("context", shape.context_length);
  text.Number("layers", shape.num_layers);
  text.Number("width", shape.width);
  text.Number("ffn width", shape.ffn_width);
  text.Number("heads", shape.num_heads);
  text.Number("kv heads", shape.num_kv_heads);
  if (!report.config.has_value()) return;
  const model::RopeConfig& rope = report.config->rope;
  text.Line("rope",
            fmt::format("{}, {} elements per head, base {}, scaling {}{}",
                        NameOf(rope.kind), rope.width, rope.freq_base,
                        NameOf(rope.scaling),
                        rope.scaling == RopeScaling::kNone
                            ? ""
                            : fmt::format(" by {}", rope.factor)));
  const model::FfnConfig& ffn = report.config->ffn;
  text.Line("activation", fmt::format("{}{}{}", NameOf(ffn.activation),
                                      ffn.activation == Activation::kFatRelu
                                          ? fmt::format("({})", ffn.threshold)
                                          : "",
                                      ffn.gated ? ", gated" : ""));
}

void AddTensors(const InspectReport& report, TextReport& text) {
  text.Line("tensors", fmt::format("{}, {}", report.num_tensors,
                                   FormatBytes(report.num_weight_bytes)));
  for (const auto& [tensor_class, types] : report.quantisation) {
    std::vector<std::string> uses;
    for (const auto& [dtype, use] : types) {
      uses.push_back(fmt::format("{} x {} ({})", use.num_tensors, NameOf(dtype),
                                 FormatBytes(use.num_bytes)));
    }
    text.Line(fmt::format("  {}", NameOf(tensor_class)),
              fmt::format("{}", fmt::join(uses, ", ")));
  }
}

void AddTokenizer(const InspectReport& report, TextReport& text) {
  if (!report.vocab.has_value()) {
    text.Line("tokenizer", report.tokenizer_problem.empty()
                               ? "none"
                               : Plain(report.tokenizer_problem));
    return;
  }
  const text::Vocab& vocab = *report.vocab;
  text.Line("tokenizer",
            fmt::format("{}{}, {} tokens, {} merges",
                        Plain(report.tokenizer_model.value_or("")),
                        vocab.pre.empty() ? "" : " (" + Plain(vocab.pre) + ")",
                        vocab.tokens.size(), vocab.merges.size()));
  std::vector<std::string> specials;
  for (const SpecialToken& special : SpecialTokens(vocab)) {
    if (!special.id.has_value()) continue;
    const size_t id = static_cast<size_t>(*special.id);
    specials.push_back(
        fmt::format("{} {} '{}'", special.name, id,
                    id < vocab.tokens.size() ? Plain(vocab.tokens[id]) : ""));
  }
  if (vocab.add_bos) specials.emplace_back("bos is added");
  if (vocab.add_eos) specials.emplace_back("eos is added");
  if (!specials.empty()) {
    text.Line("  specials", fmt::format("{}", fmt::join(specials, ", ")));
  }
  if (!report.tokenizer_problem.empty()) {
    text.Line("  problem", Plain(report.tokenizer_problem));
  }
}

void AddQuantisation(const InspectReport& report, JsonWriter& json) {
  json.BeginObject();
  for (int i = 0; i < kNumTensorClasses; ++i) {
    const auto tensor_class = static_cast<TensorClass>(i);
    json.Key(NameOf(tensor_class));
    json.BeginArray();
    if (const auto types = report.quantisation.find(tensor_class);
        types != report.quantisation.end()) {
      for (const auto& [dtype, use] : types->second) {
        json.BeginObject();
        json.Key("type");
        json.String(NameOf(dtype));
        json.Key("tensors");
        json.Int(use.num_tensors);
        json.Key("bytes");
        json.Uint(use.num_bytes);
        json.EndObject();
      }
    }
    json.EndArray();
  }
  json.EndObject();
}

void AddConfig(const model::Config& config, JsonWriter& json) {
  json.Key("rope");
  json.BeginObject();
  json.Key("kind");
  json.String(NameOf(config.rope.kind));
  json.Key("width");
  json.Int(config.rope.width);
  json.Key("freq_base");
  json.Float(config.rope.freq_base);
  json.Key("scaling");
  json.String(NameOf(config.rope.scaling));
  json.Key("factor");
  json.Float(config.rope.factor);
  json.EndObject();
  json.Key("ffn");
  json.BeginObject();
  json.Key("activation");
  json.String(NameOf(config.ffn.activation));
  json.Key("threshold");
  json.Float(config.ffn.threshold);
  json.Key("gated");
  json.Bool(config.ffn.gated);
  json.EndObject();
}

void AddShape(const InspectReport& report, JsonWriter& json) {
  const ModelShape& shape = report.shape;
  const std::pair<const char*, std::optional<int64_t>> numbers[] = {
      {"context_length", shape.context_length},
      {"layers", shape.num_layers},
      {"width", shape.width},
      {"ffn_width", shape.ffn_width},
      {"heads", shape.num_heads},
      {"kv_heads", shape.num_kv_heads}};
  for (const auto& [key, value] : numbers) {
    json.Key(key);
    json.OptionalInt(value);
  }
  if (report.config.has_value()) {
    AddConfig(*report.config, json);
  } else {
    json.Key("rope");
    json.Null();
    json.Key("ffn");
    json.Null();
  }
}

void AddTokenizer(const InspectReport& report, JsonWriter& json) {
  json.Key("tokenizer");
  if (report.vocab.has_value()) {
    const text::Vocab& vocab = *report.vocab;
    json.BeginObject();
    json.Key("model");
    json.OptionalString(report.tokenizer_model);
    json.Key("pre");
    json.String(vocab.pre);
    json.Key("tokens");
    json.Uint(vocab.tokens.size());
    json.Key("merges");
    json.Uint(vocab.merges.size());
    for (const SpecialToken& special : SpecialTokens(vocab)) {
      json.Key(special.name);
      json.OptionalInt(special.id.has_value()
                           ? std::optional<int64_t>(*special.id)
                           : std::nullopt);
    }
    json.Key("add_bos");
    json.Bool(vocab.add_bos);
    json.Key("add_eos");
    json.Bool(vocab.add_eos);
    json.EndObject();
  } else {
    json.Null();
  }
  json.Key("tokenizer_problem");
  json.OptionalString(report.tokenizer_problem.empty()
                          ? std::nullopt
                          : std::optional(report.tokenizer_problem));
}

void AddRunning(const InspectReport& report, JsonWriter& json) {
  json.Key("memory");
  if (report.memory.has_value()) {
    json.BeginObject();
    json.Key("context");
    json.Int(report.memory_context);
    json.Key("kv_bytes");
    json.Uint(report.memory->kv_bytes);
    json.Key("scratch_bytes");
    json.Uint(report.memory->scratch_bytes);
    json.Key("mapped_bytes");
    json.Uint(report.num_file_bytes);
    json.EndObject();
  } else {
    json.Null();
  }
  const bool runs = report.cannot_run.empty();
  json.Key("runs");
  json.Bool(runs);
  json.Key("executor");
  json.OptionalString(runs ? std::optional<std::string>("dense")
                           : std::nullopt);
  json.Key("isa");
  json.OptionalString(runs ? std::optional(report.isa) : std::nullopt);
  json.Key("reason");
  json.OptionalString(runs ? std::nullopt : std::optional(report.cannot_run));
}

}  // namespace

std::string FormatInspect(const InspectReport& report) {
  TextReport text;
  text.Line("file", fmt::format("{} (GGUF v{}, {} file{}, {})", report.path,
                                report.gguf_version, report.num_shards,
                                report.num_shards == 1 ? "" : "s",
                                FormatBytes(report.num_file_bytes)));
  text.Line("architecture", Plain(report.architecture.value_or("not given")));
  if (report.name.has_value()) text.Line("name", Plain(*report.name));
  text.Line("parameters", FormatCount(report.num_params));
  AddShape(report, text);
  AddTensors(report, text);
  AddTokenizer(report, text);
  if (report.memory.has_value()) {
    text.Line(
        "memory",
        fmt::format("{} for the KV cache (f16, context {}), {} for "
                    "activations, {} mapped",
                    FormatBytes(report.memory->kv_bytes), report.memory_context,
                    FormatBytes(report.memory->scratch_bytes),
                    FormatBytes(report.num_file_bytes)));
  }
  if (report.cannot_run.empty()) {
    text.Line("runs", fmt::format("dense, {}", report.isa));
  } else {
    text.Line("cannot run", Plain(report.cannot_run));
  }
  return std::move(text).text();
}

std::string FormatInspectJson(const InspectReport& report) {
  JsonWriter json;
  json.BeginObject();
  json.Key("file");
  json.String(report.path);
  json.Key("gguf_version");
  json.Uint(report.gguf_version);
  json.Key("shards");
  json.Int(report.num_shards);
  json.Key("file_bytes");
  json.Uint(report.num_file_bytes);
  json.Key("architecture");
  json.OptionalString(report.architecture);
  json.Key("name");
  json.OptionalString(report.name);
  json.Key("parameters");
  json.Uint(report.num_params);
  json.Key("tensors");
  json.Uint(report.num_tensors);
  json.Key("weight_bytes");
  json.Uint(report.num_weight_bytes);
  AddShape(report, json);
  json.Key("quantisation");
  AddQuantisation(report, json);
  AddTokenizer(report, json);
  AddRunning(report, json);
  json.EndObject();
  return json.text();
}

}  // namespace thermocline::cli
