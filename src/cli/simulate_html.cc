// The page of `simulate --html`: hits and moves of each policy by the room.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/figure_page.h"
#include "cli/simulate_report.h"
#include "inspect/html.h"

namespace thermocline::cli {
namespace {

constexpr char kStyle[] = R"(
.plot{display:block;width:100%;height:clamp(220px,34vw,360px);
background:var(--bg);overflow:visible}
.plot polyline{fill:none;stroke:hsl(var(--hue) 65% 50%);stroke-width:1.6;
vector-effect:non-scaling-stroke}
.plot line{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
.hue{background:hsl(var(--hue) 65% 50%)}
)";

// A line of a plot: what all cases of a policy with these units come to.
struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending share, value
};

template <typename Value>
std::vector<Line> LinesOf(const SimulateReport& report, Value value) {
  std::vector<Line> lines;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const SimulatedCase& one = report.cases[i];
    const std::string& units = report.units[one.units_idx].name;
    const std::string name = report.units.size() == 1
                                 ? one.policy
                                 : fmt::format("{}, {}", one.policy, units);
    auto line = std::ranges::find(lines, name, &Line::name);
    if (line == lines.end()) line = lines.insert(lines.end(), {name, {}});
    line->points.emplace_back(one.share, value(i));
  }
  for (Line& line : lines) std::ranges::sort(line.points);
  return lines;
}

std::string Legend(const std::vector<Line>& lines) {
  std::string items;
  for (size_t i = 0; i < lines.size(); ++i) {
    items +=
        fmt::format("<li><i class=\"hue\" style=\"--hue:{}\"></i>{}</li>",
                    HueOf(i, lines.size()), inspect::HtmlName(lines[i].name));
  }
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

// Across from no room to all of it, upwards from 0 to `most`.
std::string Plot(const std::vector<Line>& lines, double most,
                 std::string_view label) {
  std::string html = Legend(lines);
  html += fmt::format(
      "<svg class=\"plot\" viewBox=\"0 0 100 100\" "
      "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}; the table "
      "below has the numbers\">\n",
      label);
  for (const int at : {0, 25, 50, 75, 100}) {
    html += fmt::format(
        "<line x1=\"0\" x2=\"100\" y1=\"{0}\" y2=\"{0}\"/>"
        "<line y1=\"0\" y2=\"100\" x1=\"{0}\" x2=\"{0}\"/>",
        at);
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string points;
    for (const auto& [share, value] : lines[i].points) {
      points += fmt::format("{}{:.2f},{:.2f}", points.empty() ? "" : " ",
                            100.0 * share,
                            100.0 - 100.0 * value / std::max(most, 1e-12));
    }
    html += fmt::format(
        "<polyline style=\"--hue:{}\" points=\"{}\"><title>{}</title>"
        "</polyline>\n",
        HueOf(i, lines.size()), points, inspect::HtmlName(lines[i].name));
  }
  return html + "</svg>\n";
}

double MostOf(const std::vector<Line>& lines) {
  double most = 0.0;
  for (const Line& line : lines) {
    for (const auto& [share, value] : line.points) most = std::max(most, value);
  }
  return most;
}

std::string Table(const SimulateReport& report) {
  std::string html =
      "<table><tr><th>room</th><th>units</th><th>policy</th><th>hits</th>"
      "<th>of Belady</th><th>moved a token</th><th>wasted</th><th>idle</th>"
      "<th>token, ms</th></tr>\n";
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const SimulatedCase& one = report.cases[i];
    const CaseFigures figures = FiguresOf(report, i);
    const bool knows = figures.moved_bytes.has_value();
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td>{}{}{}{}{}{}</tr>\n",
        ShareText(one.share),
        inspect::HtmlName(report.units[one.units_idx].name),
        inspect::HtmlName(one.policy), NumberCell(ShareText(figures.hit_share)),
        NumberCell(ShareText(figures.of_belady)),
        NumberCell(knows ? BytesText(PerToken(*figures.moved_bytes, one))
                         : "-"),
        NumberCell(knows && *figures.moved_bytes > 0.0
                       ? ShareText(*figures.wasted_bytes / *figures.moved_bytes)
                       : "-"),
        NumberCell(ShareText(figures.idle_share)),
        NumberCell(figures.token_seconds
                       ? fmt::format("{:.3f}", 1e3 * *figures.token_seconds)
                       : "-"));
  }
  return html + "</table>\n";
}

// What the trace knows bytes for.
std::string PlotsOfBytes(const SimulateReport& report) {
  const std::vector<Line> moved = LinesOf(report, [&](size_t i) {
    return FiguresOf(report, i).moved_bytes.value_or(0.0);
  });
  const std::vector<Line> seconds = LinesOf(report, [&](size_t i) {
    return FiguresOf(report, i).token_seconds.value_or(0.0);
  });
  return PageSection(
             "Bytes moved by room",
             fmt::format("Upwards to {} of all tokens, admissions of what was "
                         "read too.",
                         BytesText(MostOf(moved))),
             Plot(moved, MostOf(moved), "bytes moved by room")) +
         PageSection(
             "Predicted token time by room",
             fmt::format("Upwards to {:.3f} ms, from these rates: {}.",
                         1e3 * MostOf(seconds),
                         inspect::HtmlName(report.rates.name)),
             Plot(seconds, MostOf(seconds), "predicted token time by room"));
}

}  // namespace

std::string FormatSimulationPage(const SimulateReport& report) {
  const std::vector<Line> hits =
      LinesOf(report, [&](size_t i) { return FiguresOf(report, i).hit_share; });
  std::string body = PageSection(
      "Hits by room",
      "Of the bytes that fired, how many were resident before the token's own "
      "moves; across, the share of all units that there is room for.",
      Plot(hits, 1.0, "hits by room"));
  const bool knows_bytes =
      !report.units.empty() && !report.units.front().member_bytes.empty();
  if (knows_bytes) body += PlotsOfBytes(report);
  body += PageSection("All figures",
                      "Wasted left before it fired again; idle moved with a "
                      "group, and did not fire.",
                      Table(report));
  return FormatPage({.title = inspect::HtmlName(report.header.model_name.empty()
                                                    ? report.options.trace_path
                                                    : report.header.model_name),
                     .about = "who stays in fast memory",
                     .subtitle = fmt::format(
                         "{} of {}", Plural(report.totals.num_tokens, "token"),
                         Plural(report.totals.num_sequences, "prompt")),
                     .style = kStyle,
                     .body = body});
}

}  // namespace thermocline::cli
