#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/figure_page.h"
#include "cli/profile_report.h"
#include "inspect/html.h"

namespace thermocline::cli {
namespace {

using neuron::LayerProfile;
using neuron::Profile;

constexpr char kNeverStyle[] =
    ".never{fill:var(--line);background:var(--line)}\n";

constexpr size_t kCurvePoints = 101;

// Rates from which a neuron has a shade, hottest first, and how opaque it is.
struct Shade {
  double rate;
  std::string_view name;
  double opacity;
};
constexpr std::array<Shade, 9> kShades = {{{.5, "50 % and more", 1.0},
                                           {.25, "25 %", .86},
                                           {.1, "10 %", .72},
                                           {.05, "5 %", .58},
                                           {.02, "2 %", .46},
                                           {.01, "1 %", .35},
                                           {.005, "0.5 %", .25},
                                           {.001, "0.1 %", .16},
                                           {0.0, "less", .08}}};

std::string Facts(const model::ProfileFile& file) {
  const model::ModelFingerprint& model = file.model;
  const Profile& profile = file.profile;
  std::string html = "<dl>\n";
  html += PageFact("architecture", inspect::HtmlName(model.architecture));
  html += PageFact("layers", fmt::format("{}", model.num_layers));
  html += PageFact(
      "neurons per layer",
      model.num_experts > 0
          ? fmt::format("{} of {}", Plural(model.num_experts, "expert"),
                        inspect::Grouped(model.ffn_width))
          : inspect::Grouped(model.ffn_width));
  html += PageFact("tokens", inspect::Grouped(profile.num_tokens()));
  html += PageFact("seen together", fmt::format("{}", file.context));
  html += PageFact("text", inspect::HtmlName(file.corpus));
  html += PageFact("density", ShareText(profile.density()));
  html += PageFact("make 80 % of activations",
                   ShareText(profile.skew()) + " of the neurons");
  html += PageFact("locality", ShareText(profile.locality()));
  return html + "</dl>\n";
}

// A bar per layer, with the token to token deviation around its end; the
// longest of all fills most of the width.
std::string DensityBars(const Profile& profile) {
  double most = 1e-9;
  for (const LayerProfile& layer : profile.layers) {
    most = std::max(most, layer.density() + layer.density_deviation());
  }
  std::string html = "<div class=\"rows\">\n";
  for (size_t l = 0; l < profile.layers.size(); ++l) {
    const LayerProfile& layer = profile.layers[l];
    const double density = layer.density();
    const double deviation = layer.density_deviation();
    const double low = std::max(density - deviation, 0.0);
    const std::string drawing = fmt::format(
        "<title>layer {}: {}, from token to token +/- {}</title>"
        "<rect class=\"fill\" width=\"{:.3f}%\" height=\"100%\"/>"
        "<rect class=\"spread\" x=\"{:.3f}%\" y=\"6\" width=\"{:.3f}%\" "
        "height=\"4\"/>",
        l, ShareText(density), ShareText(deviation), 100.0 * density / most,
        100.0 * low / most, 100.0 * (density + deviation - low) / most);
    html += PageRow(fmt::format("{}", l),
                    fmt::format("layer {}: {}", l, ShareText(density)), drawing,
                    ShareText(density));
  }
  return html + "</div>\n";
}

std::string Curve(const LayerProfile& layer, size_t layer_idx, int hue) {
  std::string points;
  const std::vector<double> cdf = layer.Cdf(kCurvePoints);
  for (size_t i = 0; i < cdf.size(); ++i) {
    points += fmt::format("{}{},{:.1f}", i == 0 ? "" : " ", i,
                          100.0 - 100.0 * cdf[i]);
  }
  return fmt::format(
      "<polyline style=\"--hue:{}\" points=\"{}\"><title>layer {}: {} of the "
      "neurons make 80 %</title></polyline>\n",
      hue, points, layer_idx, ShareText(layer.skew()));
}

std::string CurveLegend(size_t num_layers) {
  std::string items;
  const size_t step = std::max<size_t>(1, (num_layers + 11) / 12);
  for (size_t l = 0; l < num_layers; l += step) {
    items +=
        fmt::format("<li><i class=\"hue\" style=\"--hue:{}\"></i>layer {}</li>",
                    HueOf(l, num_layers), l);
  }
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

std::string Curves(const Profile& profile) {
  const size_t num_layers = profile.layers.size();
  std::string html =
      CurveLegend(num_layers) +
      "<svg class=\"curves\" viewBox=\"0 0 100 100\" "
      "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"share of "
      "activations by share of neurons; the table below has the numbers\">\n";
  for (const int at : {0, 20, 40, 60, 80, 100}) {
    html += fmt::format(
        "<line x1=\"0\" x2=\"100\" y1=\"{0}\" y2=\"{0}\"/>"
        "<line y1=\"0\" y2=\"100\" x1=\"{0}\" x2=\"{0}\"/>",
        at);
  }
  html += "\n";
  for (size_t l = 0; l < num_layers; ++l) {
    html += Curve(profile.layers[l], l, HueOf(l, num_layers));
  }
  return html +
         "</svg><div class=\"axis\"><span>0 %</span><span>20 %</span>"
         "<span>40 %</span><span>60 %</span><span>80 % of the neurons</span>"
         "</div>\n";
}

// Neurons of each shade, then those that never fired.
std::array<uint64_t, kShades.size() + 1> CountShades(
    const LayerProfile& layer) {
  std::array<uint64_t, kShades.size() + 1> counts = {};
  for (const uint32_t count : layer.counts) {
    if (count == 0) {
      ++counts.back();
      continue;
    }
    const double rate =
        static_cast<double>(count) / static_cast<double>(layer.num_tokens);
    const auto shade = std::ranges::find_if(
        kShades, [&](const Shade& s) { return rate >= s.rate; });
    ++counts[static_cast<size_t>(shade - kShades.begin())];
  }
  return counts;
}

std::string ShadeClass(size_t shade) {
  return shade == kShades.size() ? "never" : fmt::format("r r{}", shade);
}

std::string_view ShadeName(size_t shade) {
  return shade == kShades.size() ? "never" : kShades[shade].name;
}

std::string ShadeStyle() {
  std::string css;
  for (size_t i = 0; i < kShades.size(); ++i) {
    css += fmt::format(".r{}{{opacity:{:.2f}}}\n", i, kShades[i].opacity);
  }
  return css;
}

// A row per layer: its neurons from hot to cold, by how many tokens fire them.
std::string HeatMap(const Profile& profile) {
  std::string legend;
  for (size_t i = 0; i <= kShades.size(); ++i) {
    legend += fmt::format("<li><i class=\"{}\"></i>{}</li>", ShadeClass(i),
                          ShadeName(i));
  }
  std::string html =
      "<ul class=\"legend\">" + legend + "</ul>\n<div class=\"rows heat\">\n";
  for (size_t l = 0; l < profile.layers.size(); ++l) {
    const LayerProfile& layer = profile.layers[l];
    const auto counts = CountShades(layer);
    const double whole =
        std::max(1.0, static_cast<double>(layer.num_neurons()));
    std::string rects;
    double at = 0.0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      const double width = 100.0 * static_cast<double>(counts[i]) / whole;
      rects += fmt::format(
          "<rect class=\"{}\" x=\"{:.3f}%\" width=\"{:.3f}%\" height=\"100%\">"
          "<title>layer {}, {}: {} of {} neurons</title></rect>",
          ShadeClass(i), at, width, l, ShadeName(i),
          inspect::Grouped(counts[i]), inspect::Grouped(layer.num_neurons()));
      at += width;
    }
    html +=
        PageRow(fmt::format("{}", l), fmt::format("layer {}, hot to cold", l),
                rects, ShareText(layer.never_fired()));
  }
  return html + "</div>\n";
}

std::string Table(const Profile& profile) {
  std::string html =
      "<table id=\"layers\"><thead><tr><th>layer</th>"
      "<th class=\"n\">density</th><th class=\"n\">+/-</th>"
      "<th class=\"n\">80 % by</th><th class=\"n\">never</th>"
      "<th class=\"n\">locality</th><th class=\"n\">by chance</th></tr></thead>"
      "<tbody>\n";
  for (size_t l = 0; l < profile.layers.size(); ++l) {
    const LayerProfile& layer = profile.layers[l];
    html += fmt::format("<tr><td>{}</td>", l);
    for (const std::optional<double> share :
         std::initializer_list<std::optional<double>>{
             layer.density(), layer.density_deviation(), layer.skew(),
             layer.never_fired(), layer.locality(), layer.chance_locality()}) {
      html += NumberCell(ShareText(share));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace

std::string FormatProfileHtml(const model::ProfileFile& file) {
  const Profile& profile = file.profile;
  const std::string title =
      file.model.name.empty() ? "a model" : inspect::HtmlName(file.model.name);
  std::string html;
  html += "<section><h2>What it is</h2>\n" + Facts(file) + "</section>\n";
  html +=
      PageSection("Density by layer",
                  "Share of a layer's neurons that fire for a token: the mean, "
                  "and how far tokens are from it.",
                  DensityBars(profile));
  html +=
      PageSection("How few do most",
                  "Share of a layer's activations, from 0 at the bottom to "
                  "100 % at the top, that its hottest neurons make. The closer "
                  "to the upper left corner, the more a small hot set is "
                  "worth.",
                  Curves(profile));
  html += PageSection(
      "Hot and cold",
      "All neurons of each layer, those that fire most often to the "
      "left, coloured by the share of tokens that fire them; at the "
      "right how many never fired.",
      HeatMap(profile));
  html +=
      PageSection("The same as numbers",
                  "Locality: of the neurons that fire, how many have fired for "
                  "the token before too; by chance: how many would, if tokens "
                  "had nothing to do with each other.",
                  Table(profile));
  return FormatPage(
      {.title = title,
       .about = "which neurons fire",
       .subtitle = fmt::format("Which neurons fire, over {} tokens.",
                               inspect::Grouped(profile.num_tokens())),
       .style = kNeverStyle + ShadeStyle(),
       .body = std::move(html)});
}

}  // namespace thermocline::cli
