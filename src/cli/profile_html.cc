#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cli/profile_report.h"
#include "inspect/html.h"
#include "inspect/page_style.h"

namespace thermocline::cli {
namespace {

using neuron::LayerProfile;
using neuron::Profile;

// What inspect's style lacks. Layers go from one hue to another; rates from
// opaque to faint, so that both themes read alike.
constexpr char kStyle[] = R"(
.rows{display:grid;grid-template-columns:34px 1fr 64px;gap:3px 8px;
font-size:12px;line-height:16px;color:var(--muted)}
.rows span{text-align:right;white-space:nowrap}
.rows svg{width:100%;height:16px;background:var(--bg)}
.rows .fill{fill:var(--accent)}
.rows .spread{fill:var(--fg);fill-opacity:.35}
.curves{display:block;width:100%;height:clamp(220px,34vw,360px);
background:var(--bg);overflow:visible}
.curves polyline{fill:none;stroke:hsl(var(--hue) 65% 50%);stroke-width:1.6;
vector-effect:non-scaling-stroke}
.curves polyline:hover{stroke-width:4}
.curves line{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
.axis{display:grid;grid-template-columns:repeat(5,1fr);font-size:12px;
color:var(--muted)}
.hue{background:hsl(var(--hue) 65% 50%)}
.r{fill:var(--accent);background:var(--accent)}
.never{fill:var(--line);background:var(--line)}
)";

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

std::string Share(double share) {
  return fmt::format("{:.2f} %", 100.0 * share);
}

std::string ShareOrNone(const std::optional<double>& share) {
  return share ? Share(*share) : "-";
}

std::string Section(std::string_view title, std::string_view text,
                    std::string_view html) {
  return fmt::format("<section><h2>{}</h2>\n<p>{}</p>\n{}</section>\n", title,
                     text, html);
}

std::string Fact(std::string_view name, const std::string& html) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html);
}

std::string Facts(const model::ProfileFile& file) {
  const model::ModelFingerprint& model = file.model;
  const Profile& profile = file.profile;
  std::string html = "<dl>\n";
  html += Fact("architecture", inspect::HtmlName(model.architecture));
  html += Fact("layers", fmt::format("{}", model.num_layers));
  html +=
      Fact("neurons per layer",
           model.num_experts > 0
               ? fmt::format("{} of {}", Plural(model.num_experts, "expert"),
                             inspect::Grouped(model.ffn_width))
               : inspect::Grouped(model.ffn_width));
  html += Fact("tokens", inspect::Grouped(profile.num_tokens()));
  html += Fact("seen together", fmt::format("{}", file.context));
  html += Fact("text", inspect::HtmlName(file.corpus));
  html += Fact("density", Share(profile.density()));
  html += Fact("make 80 % of activations",
               Share(profile.skew()) + " of the neurons");
  html += Fact("locality", ShareOrNone(profile.locality()));
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
    html += fmt::format(
        "<span>{0}</span><svg role=\"img\" aria-label=\"layer {0}: {1}\">"
        "<title>layer {0}: {1}, from token to token +/- {2}</title>"
        "<rect class=\"fill\" width=\"{3:.3f}%\" height=\"100%\"/>"
        "<rect class=\"spread\" x=\"{4:.3f}%\" y=\"6\" width=\"{5:.3f}%\" "
        "height=\"4\"/></svg><span>{1}</span>\n",
        l, Share(density), Share(deviation), 100.0 * density / most,
        100.0 * low / most, 100.0 * (density + deviation - low) / most);
  }
  return html + "</div>\n";
}

// From blue, the first layer, to red.
int HueOf(size_t layer_idx, size_t num_layers) {
  if (num_layers < 2) return 220;
  return 220 - static_cast<int>(220 * layer_idx / (num_layers - 1));
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
      hue, points, layer_idx, Share(layer.skew()));
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
    html += fmt::format(
        "<span>{0}</span><svg role=\"img\" aria-label=\"layer {0}, hot to "
        "cold\">{1}</svg><span>{2}</span>\n",
        l, rects, Share(layer.never_fired()));
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
      html += fmt::format("<td class=\"n\">{}</td>", ShareOrNone(share));
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
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'\">\n"
      "<title>{0}: which neurons fire</title>\n<style>\n{1}{2}{3}</style>"
      "</head>\n<body>\n<header><h1>{0}</h1>\n<p>Which neurons fire, over {4} "
      "tokens.</p></header>\n<main>\n",
      title, inspect::kInspectStyle, kStyle, ShadeStyle(),
      inspect::Grouped(profile.num_tokens()));
  html += "<section><h2>What it is</h2>\n" + Facts(file) + "</section>\n";
  html += Section("Density by layer",
                  "Share of a layer's neurons that fire for a token: the mean, "
                  "and how far tokens are from it.",
                  DensityBars(profile));
  html += Section("How few do most",
                  "Share of a layer's activations, from 0 at the bottom to "
                  "100 % at the top, that its hottest neurons make. The closer "
                  "to the upper left corner, the more a small hot set is "
                  "worth.",
                  Curves(profile));
  html +=
      Section("Hot and cold",
              "All neurons of each layer, those that fire most often to the "
              "left, coloured by the share of tokens that fire them; at the "
              "right how many never fired.",
              HeatMap(profile));
  html += Section("The same as numbers",
                  "Locality: of the neurons that fire, how many have fired for "
                  "the token before too; by chance: how many would, if tokens "
                  "had nothing to do with each other.",
                  Table(profile));
  return html + "</main>\n<footer>Drawn by thermocline " TC_VERSION
                ".</footer>\n</body></html>\n";
}

}  // namespace thermocline::cli
