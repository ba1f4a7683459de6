#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "cli/inspect_report.h"

namespace thermocline::cli {
namespace {

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
                        rope.scaling == model::RopeScaling::kNone
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
  if (report.tied_head) text.Line("  head", "tied to the embedding");
}

void AddTokenizer(const InspectReport& report, TextReport& text) {
  if (!report.vocab.has_value()) {
    text.Line("tokenizer", report.tokenizer_problem.empty()
                               ? "none"
                               : WithoutControls(report.tokenizer_problem));
    return;
  }
  const text::Vocab& vocab = *report.vocab;
  text.Line("tokenizer",
            fmt::format("{}{}, {} tokens, {} merges",
                        Escape(report.tokenizer_model.value_or("")),
                        vocab.pre.empty() ? "" : " (" + Escape(vocab.pre) + ")",
                        vocab.tokens.size(), vocab.merges.size()));
  std::vector<std::string> specials;
  for (const SpecialToken& special : SpecialTokens(vocab)) {
    if (!special.id.has_value()) continue;
    const size_t id = static_cast<size_t>(*special.id);
    specials.push_back(
        fmt::format("{} {} '{}'", special.name, id,
                    id < vocab.tokens.size() ? Escape(vocab.tokens[id]) : ""));
  }
  if (vocab.add_bos) specials.emplace_back("bos is added");
  if (vocab.add_eos) specials.emplace_back("eos is added");
  if (!specials.empty()) {
    text.Line("  specials", fmt::format("{}", fmt::join(specials, ", ")));
  }
  if (!report.tokenizer_problem.empty()) {
    text.Line("  problem", WithoutControls(report.tokenizer_problem));
  }
}

}  // namespace

std::string FormatInspect(const InspectReport& report) {
  TextReport text;
  text.Line("file", fmt::format("{} (GGUF v{}, {} file{}, {})", report.path,
                                report.gguf_version, report.num_shards,
                                report.num_shards == 1 ? "" : "s",
                                FormatBytes(report.num_file_bytes)));
  text.Line("architecture", Escape(report.architecture.value_or("not given")));
  if (report.name.has_value()) text.Line("name", Escape(*report.name));
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
    text.Line("cannot run", WithoutControls(report.cannot_run));
  }
  return std::move(text).text();
}

}  // namespace thermocline::cli
