#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/units.h"
#include "inspect/charts.h"
#include "inspect/facts.h"
#include "inspect/html.h"
#include "inspect/page_style.h"
#include "inspect/report.h"

namespace thermocline::inspect {
namespace {

std::string Section(std::string_view title, std::string_view html) {
  if (html.empty()) return "";
  return fmt::format("<section><h2>{}</h2>\n{}</section>\n", title, html);
}

std::string Title(const InspectReport& report) {
  return HtmlName(report.name.has_value() && !report.name->empty()
                      ? *report.name
                      : FileName(report));
}

std::string Header(const InspectReport& report) {
  std::string html = fmt::format("<header><h1>{}</h1>\n", Title(report));
  if (!report.tensors.empty() && !report.split.has_value()) {
    html += fmt::format(
        "<p>{}{} parameters in {}, {:.2f} bits each</p>\n",
        report.architecture.has_value() ? HtmlName(*report.architecture) + ", "
                                        : "",
        FormatCount(report.total.num_params),
        FormatBytes(report.num_file_bytes), BitsPerWeight(report.total));
  }
  html += report.cannot_run.empty()
              ? fmt::format("<p class=\"runs\">runs: {}</p>\n",
                            report.executor == "fast"
                                ? "fast, the neurons that its predictors choose"
                                : report.executor)
              : fmt::format("<p class=\"stops\">cannot run: {}</p>\n",
                            HtmlMessage(report, report.cannot_run));
  return html + "</header>\n";
}

std::string RoleTable(const InspectReport& report) {
  std::map<TensorRole, std::set<std::string_view>> types;
  for (const TensorRow& row : report.tensors) {
    types[row.role].insert(NameOf(row.dtype));
  }
  std::string html =
      "<table id=\"roles\"><thead><tr><th>tensors</th><th>types</th>"
      "<th class=\"n\">bytes</th><th class=\"n\">share</th></tr></thead>"
      "<tbody>\n";
  for (const auto& [role, use] :
       SumBy(report.tensors, [](const TensorRow& row) { return row.role; })) {
    html += fmt::format(
        "<tr><td><i class=\"c-{}\"></i>{} <small>&times; {}</small></td>"
        "<td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        NameOf(ClassOf(role)), NameOf(role), use.num_tensors,
        fmt::join(types[role], " "), HtmlBytes(use.num_bytes),
        Percent(use.num_bytes, report.total.num_bytes));
  }
  return html + "</tbody></table>\n";
}

std::string TypeTable(const InspectReport& report) {
  std::string html =
      "<table id=\"types\"><thead><tr><th>type</th><th class=\"n\">tensors</th>"
      "<th class=\"n\">bytes</th><th class=\"n\">share</th>"
      "<th class=\"n\">bits each</th></tr></thead><tbody>\n";
  for (const auto& [dtype, use] :
       SumBy(report.tensors, [](const TensorRow& row) { return row.dtype; })) {
    html += fmt::format(
        "<tr><td><i class=\"{}\"></i>{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{:.2f}</td></tr>\n",
        TypeClass(dtype), NameOf(dtype), use.num_tensors,
        HtmlBytes(use.num_bytes),
        Percent(use.num_bytes, report.total.num_bytes), BitsPerWeight(use));
  }
  return html + "</tbody></table>\n";
}

std::string BytesSection(const InspectReport& report) {
  if (report.tensors.empty()) return "";
  return Section("Where the bytes are",
                 DrawClassLegend(report.tensors) + DrawTreemap(report) +
                     "<div class=\"halves\"><div>" + RoleTable(report) +
                     "</div><div>" + TypeTable(report) + "</div></div>\n");
}

std::string LayerTable(const InspectReport& report) {
  const auto layers = BytesByLayer(report.tensors);
  std::set<TensorClass> classes;
  for (const auto& [layer, bytes] : layers) {
    for (const auto& [tensor_class, num_bytes] : bytes) {
      classes.insert(tensor_class);
    }
  }
  std::string html =
      "<details><summary>the same as numbers</summary><table id=\"layers\">"
      "<thead><tr><th>layer</th>";
  for (const TensorClass tensor_class : classes) {
    html += fmt::format("<th class=\"n\">{}</th>", NameOf(tensor_class));
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& [layer, bytes] : layers) {
    html += fmt::format("<tr><td>{}</td>", layer);
    for (const TensorClass tensor_class : classes) {
      const auto entry = bytes.find(tensor_class);
      html += fmt::format("<td class=\"n\">{}</td>",
                          entry == bytes.end() ? "" : HtmlBytes(entry->second));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></details>\n";
}

std::string LayersSection(const InspectReport& report) {
  std::vector<TensorRow> rows;  // of layers
  std::ranges::copy_if(
      report.tensors, std::back_inserter(rows),
      [](const TensorRow& row) { return row.layer.has_value(); });
  if (rows.empty()) return "";
  return Section("Layers",
                 "<div class=\"halves ends\"><div><p>Bytes by class.</p>\n" +
                     DrawClassLegend(rows) + DrawLayers(report) +
                     "</div><div><p>Types, by the bytes that most of a cell "
                     "has; fewer bits are colder.</p>\n" +
                     DrawTypeLegend(rows) + DrawTypes(report) +
                     "</div></div>\n" + LayerTable(report));
}

// Contexts worth a line: powers of four, and the model's own.
std::vector<int64_t> Contexts(const InspectReport& report,
                              uint64_t bytes_per_position) {
  constexpr int64_t kFirst = 512;
  // Hostile sizes: 64 bits have to count the bytes.
  const auto limit = static_cast<int64_t>(
      std::min(uint64_t{1} << 40,
               UINT64_MAX / std::max(bytes_per_position, uint64_t{1})));
  const int64_t most =
      std::clamp(report.shape.context_length.value_or(8192), int64_t{1}, limit);
  std::vector<int64_t> contexts;
  for (int64_t n = kFirst; n < most; n *= 4) contexts.push_back(n);
  contexts.push_back(most);
  return contexts;
}

std::string KvTable(const InspectReport& report) {
  if (!report.kv_bytes.has_value()) return "";
  const KvBytes& kv = *report.kv_bytes;
  std::string html = fmt::format(
      "<p>Each position adds {} of keys and values in F16{}, if all layers "
      "attend to all positions.</p>\n<table id=\"kv\"><thead><tr>"
      "<th class=\"n\">positions</th><th class=\"n\">F16</th>{}"
      "<th class=\"bars\"></th></tr></thead><tbody>\n",
      HtmlBytes(kv.f16),
      kv.q8_0.has_value() ? ", " + HtmlBytes(*kv.q8_0) + " in Q8_0" : "",
      kv.q8_0.has_value() ? "<th class=\"n\">Q8_0</th>" : "");
  const std::vector<int64_t> contexts = Contexts(report, kv.f16);
  for (const int64_t context : contexts) {
    const auto positions = static_cast<uint64_t>(context);
    html += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td>{}<td "
        "class=\"bars\">{}</td></tr>\n",
        Grouped(positions), HtmlBytes(kv.f16 * positions),
        kv.q8_0.has_value() ? fmt::format("<td class=\"n\">{}</td>",
                                          HtmlBytes(*kv.q8_0 * positions))
                            : "",
        DrawBar(static_cast<double>(context) /
                static_cast<double>(contexts.back())));
  }
  return html + "</tbody></table>\n";
}

// At most so many tokens per second when all bytes come at `gb_per_s`.
std::string Speed(uint64_t num_bytes, double gb_per_s) {
  const double speed = gb_per_s * 1e9 / static_cast<double>(num_bytes);
  if (speed < 1.0) return fmt::format("{:.3f}", speed);
  if (speed < 100.0) return fmt::format("{:.1f}", speed);
  return Grouped(static_cast<uint64_t>(std::lround(speed)));
}

std::string SpeedTable(const InspectReport& report) {
  if (!report.cannot_run.empty() || !report.kv_bytes.has_value()) return "";
  const auto context = static_cast<uint64_t>(
      report.config.value_or(model::Config()).context_length);
  const uint64_t weights = report.weight_bytes_per_token;
  const uint64_t full = weights + report.kv_bytes->f16 * context;
  std::string html = fmt::format(
      "<p>A generated token reads {} of weights when every neuron is computed, "
      "and the keys and values of all positions before it. It cannot come "
      "faster than these bytes do: {} tokens a second for each GB/s, while the "
      "context is short.{}</p>\n"
      "<table id=\"speed\"><thead><tr><th class=\"n\">GB/s</th>"
      "<th class=\"n\">tokens/s at most</th>"
      "<th class=\"n\">with {} positions</th></tr></thead><tbody>\n",
      HtmlBytes(weights), Speed(weights, 1.0),
      report.sparsity.predictor_ranks.empty()
          ? ""
          : " Where the predictors leave neurons out it reads less.",
      Grouped(context));
  for (const int gb_per_s : {1, 10, 25, 50, 100, 400, 1000, 3000}) {
    html += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td></tr>\n",
        gb_per_s, Speed(weights, gb_per_s), Speed(full, gb_per_s));
  }
  return html + "</tbody></table>\n";
}

std::string CostSection(const InspectReport& report) {
  const std::string speed = SpeedTable(report);
  const std::string kv = KvTable(report);
  if (speed.empty() && kv.empty()) return "";
  return Section("What a token costs", "<div class=\"halves\"><div>" + speed +
                                           "</div><div>" + kv +
                                           "</div></div>\n");
}

std::string TensorTable(const InspectReport& report) {
  if (report.tensors.empty()) return "";
  std::string html = fmt::format(
      "<details><summary>tensors, {}</summary><table id=\"tensors\"><thead><tr>"
      "<th>name</th><th>type</th><th>shape</th><th class=\"n\">bytes</th></tr>"
      "</thead><tbody>\n",
      report.total.num_tensors);
  for (const TensorRow& row : report.tensors) {
    html += fmt::format(
        "<tr><td><code>{}</code>{}</td><td>{}</td><td>{}</td>"
        "<td class=\"n\">{}</td></tr>\n",
        HtmlName(row.name),
        row.num_tensors > 1 ? fmt::format(" &times; {}", row.num_tensors) : "",
        NameOf(row.dtype), ToString(row.shape), HtmlBytes(row.num_bytes));
  }
  return html + "</tbody></table></details>\n";
}

std::string MetadataTable(const InspectReport& report) {
  std::string html = fmt::format(
      "<details><summary>metadata, {}</summary><table "
      "id=\"metadata\"><thead><tr>"
      "<th>key</th><th>type</th><th>value</th></tr></thead><tbody>\n",
      report.metadata.size());
  for (const MetadataRow& row : report.metadata) {
    html +=
        fmt::format("<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n",
                    HtmlText(row.key), row.type, HtmlText(row.value));
  }
  return html + "</tbody></table></details>\n";
}

}  // namespace

std::string FormatInspectHtml(const InspectReport& report) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
             "charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, "
             "initial-scale=1\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" "
             "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
             "<title>{}</title>\n<style>\n{}{}</style></head>\n<body>\n",
             Title(report), kInspectStyle, TypeColours(report.tensors)) +
         Header(report) + "<main>\n" +
         Section("What it is", ListFacts(report)) + BytesSection(report) +
         LayersSection(report) + CostSection(report) +
         Section("Everything in it",
                 TensorTable(report) + MetadataTable(report)) +
         "</main>\n<footer>Drawn by thermocline " TC_VERSION
         ".</footer>\n</body></html>\n";
}

}  // namespace thermocline::inspect
