#include "inspect/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/quote.h"
#include "base/units.h"
#include "inspect/html.h"

namespace thermocline::inspect {
namespace {

// Facts as a list of terms; what a file does not say is left out.
class Facts {
 public:
  // `html` is markup.
  void Add(std::string_view term, std::string_view html, bool wide = false) {
    if (html.empty()) return;
    html_ += fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>\n",
                         wide ? " class=\"wide\"" : "", term, html);
  }
  void Add(std::string_view term, std::optional<int64_t> number) {
    if (number.has_value()) Add(term, fmt::format("{}", *number));
  }
  std::string html() && { return "<dl>\n" + html_ + "</dl>\n"; }

 private:
  std::string html_;
};

void AddShapeFacts(const InspectReport& report, Facts& facts) {
  const ModelShape& shape = report.shape;
  facts.Add("context", shape.context_length);
  facts.Add("layers", shape.num_layers);
  facts.Add("width", shape.width);
  const std::string ffn_width =
      DescribeNumber(shape.ffn_width, shape.ffn_widths);
  facts.Add("FFN width", ffn_width);
  const std::string heads =
      DescribeNumber(shape.num_heads, shape.heads_of_layers);
  if (!heads.empty()) {
    const std::string kv_heads =
        DescribeNumber(shape.num_kv_heads, shape.kv_heads_of_layers);
    facts.Add("heads", fmt::format("{} query, {} key-value", heads,
                                   kv_heads.empty() ? "0" : kv_heads));
  }
  if (shape.key_width.has_value() && shape.value_width.has_value()) {
    facts.Add("head width",
              *shape.key_width == *shape.value_width
                  ? fmt::format("{}", *shape.key_width)
                  : fmt::format("{} key, {} value", *shape.key_width,
                                *shape.value_width));
  }
  if (shape.num_experts.value_or(0) > 0) {
    facts.Add("experts",
              fmt::format("{}, {} for each token", *shape.num_experts,
                          shape.num_experts_used.value_or(0)));
  }
  if (!report.config.has_value()) return;
  facts.Add("activation",
            DescribeActivation(report.config->layers.front().ffn));
  facts.Add("rotary positions", DescribeRope(*report.config));
}

std::string DescribeTokenizer(const InspectReport& report) {
  if (!report.vocab.has_value()) {
    return report.tokenizer_problem.empty()
               ? "none"
               : HtmlMessage(report, report.tokenizer_problem);
  }
  const text::Vocab& vocab = *report.vocab;
  std::string html = HtmlName(report.tokenizer_model.value_or(""));
  if (!vocab.pre.empty()) html += " (" + HtmlName(vocab.pre) + ")";
  html += ", " + Plural(vocab.tokens.size(), "token");
  if (!vocab.merges.empty()) {
    html += ", " + Plural(vocab.merges.size(), "merge");
  }
  return html;
}

std::string DescribeSpecials(const InspectReport& report) {
  if (!report.vocab.has_value()) return "";
  const text::Vocab& vocab = *report.vocab;
  std::string html;
  for (const SpecialToken& special : SpecialTokens(vocab)) {
    if (!special.id.has_value()) continue;
    const auto id = static_cast<size_t>(*special.id);
    html += fmt::format(
        "{}{} {} <code>{}</code>", html.empty() ? "" : ", ", special.name, id,
        id < vocab.tokens.size() ? HtmlName(vocab.tokens[id]) : "");
  }
  return html;
}

bool HasRole(const InspectReport& report, TensorRole role) {
  return std::ranges::any_of(report.tensors, [role](const TensorRow& row) {
    return row.role == role;
  });
}

// The keys of this project, which say how a file was prepared.
std::string OwnKeys(const InspectReport& report) {
  std::string html;
  for (const MetadataRow& row : report.metadata) {
    if (!row.key.starts_with("thermocline.")) continue;
    html += fmt::format("{}<code>{} = {}</code>", html.empty() ? "" : "<br>",
                        HtmlText(row.key), HtmlText(row.value));
  }
  return html;
}

void AddSparsityFacts(const InspectReport& report, Facts& facts) {
  const Sparsity& sparsity = report.sparsity;
  if (!sparsity.predictor_ranks.empty()) {
    facts.Add("predictors",
              fmt::format("rank by layer {}{}", ListRanks(sparsity),
                          sparsity.predictor_bias ? ", with bias" : ""),
              /*wide=*/true);
  }
  if (sparsity.score_threshold.has_value()) {
    facts.Add("score threshold", fmt::format("{}", *sparsity.score_threshold));
  }
  if (HasRole(report, TensorRole::kFfnDownT)) {
    facts.Add("down matrix", HasRole(report, TensorRole::kFfnDown)
                                 ? "both ways, a row per neuron too"
                                 : "transposed: a row per neuron");
  }
  if (report.prepared.has_value()) {
    facts.Add("records", DescribeRecords(report.prepared->records),
              /*wide=*/true);
    for (const PreparedFact& fact : DescribeFindings(*report.prepared)) {
      facts.Add(fact.label, fact.value);
    }
  }
  if (report.split.has_value()) {
    const SplitFile& split = *report.split;
    facts.Add("kind", split.kind);
    facts.Add("layers", split.num_layers);
    facts.Add("neurons", split.num_neurons);
    facts.Add("of them on the GPU", split.num_gpu_neurons);
    facts.Add("neurons per group", split.neurons_per_group);
    if (split.vram_bytes.value_or(-1) >= 0) {
      facts.Add("made for GPU memory of",
                HtmlBytes(static_cast<uint64_t>(*split.vram_bytes)));
    }
  }
  facts.Add("thermocline keys", OwnKeys(report), /*wide=*/true);
}

}  // namespace

std::string FileName(const InspectReport& report) {
  return std::filesystem::path(report.path).filename().string();
}

std::string HtmlMessage(const InspectReport& report, std::string_view message) {
  const std::string prefix = report.path + ": ";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  return HtmlText(WithoutControls(message));
}

std::string ListFacts(const InspectReport& report) {
  Facts facts;
  facts.Add("file",
            fmt::format("{}, {} v{}{}", HtmlName(FileName(report)),
                        NameOf(report.container), report.gguf_version,
                        report.num_shards > 1
                            ? fmt::format(", {} files", report.num_shards)
                            : ""));
  facts.Add("size", HtmlBytes(report.num_file_bytes));
  if (report.architecture.has_value()) {
    facts.Add("architecture", HtmlName(*report.architecture));
  }
  AddShapeFacts(report, facts);
  for (const TensorRow& row : report.tensors) {
    if (row.role == TensorRole::kPositionEmbedding) {
      facts.Add("learned positions", fmt::format("{}", row.shape.ne[1]));
    }
  }
  if (report.tied_head) facts.Add("head", "tied to the embedding");
  if (!report.split.has_value()) {
    facts.Add("tokenizer", DescribeTokenizer(report),
              /*wide=*/!report.tokenizer_problem.empty());
  }
  facts.Add("special tokens", DescribeSpecials(report), /*wide=*/true);
  AddSparsityFacts(report, facts);
  return std::move(facts).html();
}

}  // namespace thermocline::inspect
