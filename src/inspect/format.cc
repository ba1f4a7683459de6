#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/units.h"
#include "inspect/report.h"

namespace thermocline::inspect {
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
  for (const auto& [label, value] :
       {std::pair("ffn width",
                  DescribeNumber(shape.ffn_width, shape.ffn_widths)),
        std::pair("heads",
                  DescribeNumber(shape.num_heads, shape.heads_of_layers)),
        std::pair("kv heads", DescribeNumber(shape.num_kv_heads,
                                             shape.kv_heads_of_layers))}) {
    if (!value.empty()) text.Line(label, value);
  }
  if (shape.num_experts.value_or(0) > 0) {
    text.Line("experts", fmt::format("{}{}", *shape.num_experts,
                                     shape.num_experts_used.has_value()
                                         ? fmt::format(", {} for each token",
                                                       *shape.num_experts_used)
                                         : ""));
  }
  for (const TensorRow& row : report.tensors) {
    if (row.role == TensorRole::kPositionEmbedding) {
      text.Line("positions", "learned, " + Plural(row.shape.ne[1], "row"));
    }
  }
  if (!report.config.has_value()) return;
  text.Line("rope", DescribeRope(*report.config));
  text.Line("activation",
            DescribeActivation(report.config->layers.front().ffn));
}

void AddPrepared(const InspectReport& report, TextReport& text) {
  if (!report.prepared.has_value()) return;
  const PreparedFacts& prepared = *report.prepared;
  text.Line("prepared", fmt::format("format {}", prepared.version));
  if (!prepared.records.empty()) {
    text.Line("  records", DescribeRecords(prepared.records));
  }
  for (const PreparedFact& fact : DescribeFindings(prepared)) {
    text.Line(fmt::format("  {}", fact.label), fact.value);
  }
}

void AddSparsity(const InspectReport& report, TextReport& text) {
  const Sparsity& sparsity = report.sparsity;
  if (!sparsity.predictor_ranks.empty()) {
    const auto num_layers = std::ranges::count_if(
        sparsity.predictor_ranks, [](int64_t rank) { return rank > 0; });
    text.Line("predictors",
              fmt::format("{}, rank {}{}", Plural(num_layers, "layer"),
                          DescribeRanks(sparsity),
                          sparsity.predictor_bias ? ", with bias" : ""));
    text.Line("  ranks", ListRanks(sparsity));
  }
  if (sparsity.score_threshold.has_value()) {
    text.Line("  threshold", fmt::format("{}", *sparsity.score_threshold));
  }
  AddPrepared(report, text);
  if (!report.split.has_value()) return;
  const SplitFile& split = *report.split;
  text.Line("split file", fmt::format("{}: {}, {}", split.kind,
                                      Plural(split.num_layers, "layer"),
                                      Plural(split.num_neurons, "neuron")));
  text.Number("  on the GPU", split.num_gpu_neurons);
  if (split.vram_bytes.has_value() && *split.vram_bytes >= 0) {
    text.Line("  made for",
              FormatBytes(static_cast<uint64_t>(*split.vram_bytes)) +
                  " of GPU memory");
  }
  text.Number("  group size", split.neurons_per_group);
}

void AddTensors(const InspectReport& report, TextReport& text) {
  text.Line("tensors", fmt::format("{}, {}, {:.2f} bits per weight",
                                   report.total.num_tensors,
                                   FormatBytes(report.total.num_bytes),
                                   BitsPerWeight(report.total)));
  std::map<TensorClass, std::vector<std::string>> uses;
  for (const auto& [key, use] : SumBy(report.tensors, [](const TensorRow& row) {
         return std::pair(ClassOf(row.role), row.dtype);
       })) {
    uses[key.first].push_back(fmt::format("{} x {} ({})", use.num_tensors,
                                          NameOf(key.second),
                                          FormatBytes(use.num_bytes)));
  }
  for (const auto& [tensor_class, texts] : uses) {
    text.Line(fmt::format("  {}", NameOf(tensor_class)),
              fmt::format("{}", fmt::join(texts, ", ")));
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
  text.Line(
      "tokenizer",
      fmt::format("{}{}, {}, {}", Escape(report.tokenizer_model.value_or("")),
                  vocab.pre.empty() ? "" : " (" + Escape(vocab.pre) + ")",
                  Plural(vocab.tokens.size(), "token"),
                  Plural(vocab.merges.size(), "merge")));
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
  text.Line("file", fmt::format("{} ({} v{}, {}, {})", Escape(report.path),
                                NameOf(report.container), report.gguf_version,
                                Plural(report.num_shards, "file"),
                                FormatBytes(report.num_file_bytes)));
  text.Line("architecture", Escape(report.architecture.value_or("not given")));
  if (report.name.has_value()) text.Line("name", Escape(*report.name));
  text.Line("parameters", FormatCount(report.total.num_params));
  AddShape(report, text);
  AddSparsity(report, text);
  AddTensors(report, text);
  AddTokenizer(report, text);
  if (report.kv_bytes.has_value()) {
    text.Line(
        "kv cache",
        fmt::format("{} a position in f16{}", FormatBytes(report.kv_bytes->f16),
                    report.kv_bytes->q8_0.has_value()
                        ? fmt::format(", {} in q8_0",
                                      FormatBytes(*report.kv_bytes->q8_0))
                        : ""));
  }
  if (report.memory.has_value()) {
    text.Line("a token reads", FormatBytes(report.weight_bytes_per_token) +
                                   " of weights, every neuron computed");
    text.Line(
        "memory",
        fmt::format("{} for the KV cache (f16, context {}), {} for "
                    "activations, {} mapped",
                    FormatBytes(report.memory->host.kv), report.memory_context,
                    FormatBytes(report.memory->host.scratch),
                    FormatBytes(report.num_file_bytes)));
  }
  if (report.cannot_run.empty()) {
    text.Line("runs", fmt::format("{}, {}", report.executor, report.isa));
  } else {
    text.Line("cannot run", WithoutControls(report.cannot_run));
  }
  return std::move(text).text();
}

}  // namespace thermocline::inspect
