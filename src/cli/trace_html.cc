#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/figure_page.h"
#include "cli/trace_report.h"
#include "inspect/html.h"

namespace thermocline::cli {
namespace {

using neuron::kHeatTenths;
using neuron::kMaxOffset;

constexpr char kTraceStyle[] = R"(
.curves.low{height:clamp(140px,18vw,200px);margin-bottom:12px}
.grid{display:block;width:100%;height:clamp(160px,26vw,300px);
margin-bottom:12px;background:var(--bg)}
.grid rect{fill:var(--accent)}
.grid.texts{max-width:480px;height:auto;aspect-ratio:1}
)";

// More would be pixels too narrow to see.
constexpr size_t kMaxDrawnExperts = 256;

std::string TraceFacts(const TraceReport& report) {
  const neuron::TraceHeader& header = report.header;
  std::string html = "<dl>\n";
  html += PageFact("layers", fmt::format("{}", header.num_layers));
  html += PageFact("neurons per layer", inspect::Grouped(header.num_neurons));
  if (header.num_experts > 0) {
    html +=
        PageFact("experts per layer", fmt::format("{}", header.num_experts));
  }
  html += PageFact("tokens", inspect::Grouped(report.totals.num_tokens));
  html += PageFact("generated", inspect::Grouped(report.num_generated));
  html += PageFact("texts", inspect::Grouped(report.totals.num_sequences));
  html += PageFact("density", ShareText(report.neurons.profile.density()));
  html += PageFact("locality", ShareText(report.neurons.profile.locality()));
  return html + "</dl>\n";
}

// One curve of `of` each token, up to `most`.
template <typename Of>
std::string TokenCurve(const ActivitySeries& series, uint32_t most, int hue,
                       std::string_view title, Of of) {
  std::string points;
  for (size_t t = 0; t < series.tokens.size(); ++t) {
    points += fmt::format("{}{},{:.1f}", t == 0 ? "" : " ", t,
                          100.0 - 100.0 * of(series.tokens[t]) / most);
  }
  return fmt::format(
      "<polyline style=\"--hue:{}\" points=\"{}\"><title>{}</title>"
      "</polyline>\n",
      hue, points, title);
}

constexpr int kHotHue = 10;
constexpr int kColdHue = 210;

// Hot and cold activity of a layer, token by token; a line where a text begins.
std::string SeriesDrawing(const TraceReport& report,
                          const ActivitySeries& series) {
  uint32_t most = 1;
  for (const neuron::ActiveCounts& token : series.tokens) {
    most = std::max({most, token.hot, token.cold});
  }
  const size_t width = std::max<size_t>(series.tokens.size(), 2) - 1;
  std::string html = fmt::format(
      "<h3>layer {0}, up to {1}</h3>\n<svg class=\"curves low\" viewBox=\"0 0 "
      "{2} 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"hot "
      "and cold neurons of layer {0} that are active, token by token; the "
      "table below has the means\">\n",
      series.layer_idx, Plural(most, "neuron"), width);
  for (const size_t at : report.series_begins) {
    html +=
        fmt::format("<line x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"100\"/>", at);
  }
  html += "\n" +
          TokenCurve(series, most, kHotHue, "hot",
                     [](const neuron::ActiveCounts& at) { return at.hot; }) +
          TokenCurve(series, most, kColdHue, "cold",
                     [](const neuron::ActiveCounts& at) { return at.cold; });
  return html + "</svg>\n";
}

std::string HotAndCold(const TraceReport& report) {
  std::string html = fmt::format(
      "<ul class=\"legend\"><li><i class=\"hue\" style=\"--hue:{}\"></i>hot"
      "</li><li><i class=\"hue\" style=\"--hue:{}\"></i>cold</li></ul>\n",
      kHotHue, kColdHue);
  for (const ActivitySeries& series : report.series) {
    html += SeriesDrawing(report, series);
  }
  return html;
}

// A square of a grid of unit cells, as opaque as the share is large.
std::string GridCell(size_t column, size_t row, std::optional<double> share,
                     std::string_view title) {
  if (!share) return "";
  return fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" "
      "fill-opacity=\"{:.3f}\"><title>{}: {}</title></rect>\n",
      column, row, std::clamp(*share, 0.0, 1.0), title, ShareText(share));
}

std::string Grid(size_t num_columns, size_t num_rows, std::string_view style,
                 std::string_view label, std::string_view cells) {
  return fmt::format(
      "<svg class=\"grid{}\" viewBox=\"0 0 {} {}\" "
      "preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">\n{}</svg>\n",
      style, num_columns, num_rows, label, cells);
}

// Tenths from hot to cold, and how many tokens later.
std::string RecurrenceGrid(const UnitFigures& figures, std::string_view units) {
  std::string cells;
  std::string table = "<table><thead><tr><th>tenth</th>";
  for (size_t d = 1; d <= kMaxOffset; ++d) {
    table += fmt::format("<th class=\"n\">{}</th>", d);
  }
  table += "<th class=\"n\">by chance</th></tr></thead><tbody>\n";
  for (size_t k = 0; k < kHeatTenths; ++k) {
    const neuron::Recurrence tenth = figures.TenthOfAll(k);
    table += fmt::format("<tr><td>{}</td>", k + 1);
    for (size_t d = 1; d <= kMaxOffset; ++d) {
      cells += GridCell(
          d - 1, k, tenth.at(d),
          fmt::format("tenth {}, {} later", k + 1, Plural(d, "token")));
      table += NumberCell(ShareText(tenth.at(d)));
    }
    cells += GridCell(kMaxOffset, k, tenth.by_chance(),
                      fmt::format("tenth {}, by chance", k + 1));
    table += NumberCell(ShareText(tenth.by_chance())) + "</tr>\n";
  }
  return Grid(kMaxOffset + 1, kHeatTenths, "",
              fmt::format("how often {} fire again, by tenths and distance; "
                          "the table below has the numbers",
                          units),
              cells) +
         table + "</tbody></table>\n";
}

std::string JaccardRows(const UnitFigures& figures) {
  std::string html = "<div class=\"rows\">\n";
  for (size_t l = 0; l < figures.layers.size(); ++l) {
    const auto near = figures.layers[l].jaccard.value();
    const auto texts = figures.texts[l].value();
    const std::string label = fmt::format("layer {}: {}, of texts {}", l,
                                          ShareText(near), ShareText(texts));
    std::string drawing = fmt::format(
        "<title>{}</title><rect class=\"fill\" width=\"{:.3f}%\" "
        "height=\"100%\"/>",
        label, 100.0 * near.value_or(0.0));
    if (texts) {
      drawing += fmt::format(
          "<rect class=\"spread\" width=\"{:.3f}%\" y=\"6\" height=\"4\"/>",
          100.0 * *texts);
    }
    html += PageRow(fmt::format("{}", l), label, drawing, ShareText(near));
  }
  return html + "</div>\n";
}

std::string TextGrid(const TextOverlap& texts) {
  std::string cells;
  std::string list = "<ol>\n";
  for (size_t i = 0; i < texts.names.size(); ++i) {
    list += fmt::format("<li>{}</li>\n", inspect::HtmlName(texts.names[i]));
    for (size_t j = 0; j < texts.names.size(); ++j) {
      cells +=
          GridCell(j, i, texts.jaccard[i][j],
                   fmt::format("{} and {}", inspect::HtmlName(texts.names[i]),
                               inspect::HtmlName(texts.names[j])));
    }
  }
  return Grid(texts.names.size(), texts.names.size(), " texts",
              "how many hot neurons texts share", cells) +
         list + "</ol>\n";
}

std::string NamedRows(const TraceReport& report) {
  std::string table =
      "<table><thead><tr><th>named</th><th class=\"n\">recall</th>"
      "<th class=\"n\">precision</th></tr></thead><tbody>\n";
  std::string rows = "<div class=\"rows\">\n";
  for (const NamingFigures& figures : report.named) {
    const neuron::Naming total = figures.total();
    const std::string name =
        figures.lookahead
            ? fmt::format("{} early", Plural(*figures.lookahead, "layer"))
            : "candidates";
    table += fmt::format("<tr><td>{}</td>{}{}</tr>\n", name,
                         NumberCell(ShareText(total.recall())),
                         NumberCell(ShareText(total.precision())));
    rows += PageRow(
        figures.lookahead ? fmt::format("{}", *figures.lookahead) : "own",
        fmt::format("{}: recall {}", name, ShareText(total.recall())),
        fmt::format("<rect class=\"fill\" width=\"{:.3f}%\" height=\"100%\"/>",
                    100.0 * total.recall().value_or(0.0)),
        ShareText(total.recall()));
  }
  return rows + "</div>\n" + table + "</tbody></table>\n";
}

// A row for each layer, a column for each expert, opaque if every token has it.
std::string ExpertGrid(const TraceReport& report) {
  const auto& layers = report.experts->profile.layers;
  const size_t num_experts =
      std::min<size_t>(report.header.num_experts, kMaxDrawnExperts);
  std::string cells;
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto num_tokens =
        static_cast<double>(std::max<uint64_t>(layers[l].num_tokens, 1));
    for (size_t e = 0; e < num_experts; ++e) {
      cells += GridCell(e, l, layers[l].counts[e] / num_tokens,
                        fmt::format("layer {}, expert {}", l, e));
    }
  }
  return Grid(num_experts, layers.size(), "", "how often experts are used",
              cells);
}

std::string DynamicsPageTable(const UnitFigures& figures) {
  std::string html =
      "<table id=\"layers\"><thead><tr><th>layer</th>"
      "<th class=\"n\">density</th><th class=\"n\">jaccard</th>"
      "<th class=\"n\">with hot</th><th class=\"n\">texts</th>"
      "<th class=\"n\">hot</th><th class=\"n\">+/-</th>"
      "<th class=\"n\">cold</th><th class=\"n\">+/-</th>"
      "<th class=\"n\">most cold</th></tr></thead><tbody>\n";
  for (size_t l = 0; l < figures.layers.size(); ++l) {
    const neuron::LayerDynamics& layer = figures.layers[l];
    html += fmt::format("<tr><td>{}</td>", l);
    html += NumberCell(ShareText(figures.profile.layers[l].density()));
    html += NumberCell(ShareText(layer.jaccard.value()));
    html += NumberCell(ShareText(layer.jaccard_with_hot.value()));
    html += NumberCell(ShareText(figures.texts[l].value()));
    for (const neuron::ActiveMoments* moments : {&layer.hot, &layer.cold}) {
      html += NumberCell(fmt::format("{:.1f}", moments->mean()));
      html += NumberCell(fmt::format("{:.1f}", moments->deviation()));
    }
    html += NumberCell(fmt::format("{}", layer.cold.most)) + "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string ExpertSections(const TraceReport& report) {
  if (!report.experts) return "";
  return PageSection(
             "Experts",
             fmt::format(
                 "How often each expert is used, layer by layer: "
                 "{:.2f} of {} per token.",
                 report.experts->profile.density() * report.header.num_experts,
                 report.header.num_experts),
             ExpertGrid(report)) +
         PageSection("Experts that are used again",
                     "As above, of experts instead of neurons.",
                     RecurrenceGrid(*report.experts, "experts")) +
         PageSection("Experts as numbers", "As below, of experts.",
                     DynamicsPageTable(*report.experts));
}

// kHotShare.
constexpr std::string_view kHotText = "20 %";
static_assert(neuron::kHotShare == 0.2);

std::string TokenSections(const TraceReport& report) {
  const std::string tokens = Plural(
      std::min<uint64_t>(report.totals.num_tokens, ActivitySeries::kMaxTokens),
      "token");
  return PageSection(
             "Hot and cold, token by token",
             fmt::format("Neurons that are active, of the hot {} and of the "
                         "others, for the first {} of the trace. A line: a "
                         "text begins. Hot are those that fire most often in "
                         "this trace.",
                         kHotText, tokens),
             HotAndCold(report)) +
         PageSection(
             "Active again",
             "How likely a neuron that is active is so 1 to 8 tokens later, to "
             "the right; by tenths of each layer's neurons, the most frequent "
             "at the top; all layers together. The last column: what it would "
             "be if tokens had nothing to do with each other.",
             RecurrenceGrid(report.neurons, "neurons"));
}

std::string TextSections(const TraceReport& report) {
  std::string html = PageSection(
      "What stays from token to token, and from text to text",
      fmt::format("Jaccard index (neurons in both sets, of those in either) of "
                  "a token and the one before it; the thin bar: of the hot {} "
                  "of two texts.",
                  kHotText),
      JaccardRows(report.neurons));
  if (report.texts.names.size() < 2) return html;
  return html +
         PageSection("Texts against each other",
                     fmt::format("Jaccard index of the hot {} of each two "
                                 "texts, by each text's own counts, mean of "
                                 "the layers. The darker, the more they share.",
                                 kHotText),
                     TextGrid(report.texts));
}

std::string NamedSection(const TraceReport& report) {
  if (report.named.empty()) return "";
  return PageSection(
      "Named ahead",
      "Whom a layer's predictor names from the input so many layers before: "
      "the share of those that fire that it names (recall), and of those named "
      "that fire (precision).",
      NamedRows(report));
}

std::string TraceSections(const TraceReport& report) {
  return "<section><h2>What it is</h2>\n" + TraceFacts(report) +
         "</section>\n" + TokenSections(report) + TextSections(report) +
         NamedSection(report) + ExpertSections(report) +
         PageSection("The same as numbers",
                     "Hot and cold: neurons that are active per token, mean "
                     "and deviation from token to token.",
                     DynamicsPageTable(report.neurons));
}

}  // namespace

std::string FormatTraceHtml(const TraceReport& report) {
  const std::string& name = report.header.model_name;
  const bool is_empty = report.totals.num_tokens == 0;
  return FormatPage(
      {.title = name.empty() ? "a model" : inspect::HtmlName(name),
       .about = "how what fires changes",
       .subtitle = fmt::format("How what fires changes, over {} tokens of {}.",
                               inspect::Grouped(report.totals.num_tokens),
                               Plural(report.totals.num_sequences, "text")),
       .style = kTraceStyle,
       .body = is_empty ? "<section><h2>Nothing was recorded</h2></section>\n"
                        : TraceSections(report)});
}

}  // namespace thermocline::cli
