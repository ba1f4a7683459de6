#include "cli/figure_page.h"

#include <fmt/format.h>

#include "inspect/page_style.h"

namespace thermocline::cli {
namespace {

// What inspect's style lacks. Layers go from one hue to another; shares from
// opaque to faint, so that both themes read alike.
constexpr char kFigureStyle[] = R"(
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
)";

}  // namespace

std::string FormatPage(const FigurePage& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'\">\n"
      "<title>{0}: {1}</title>\n<style>\n{2}{3}{4}</style>"
      "</head>\n<body>\n<header><h1>{0}</h1>\n<p>{5}</p></header>\n<main>\n"
      "{6}</main>\n<footer>Drawn by thermocline " TC_VERSION
      ".</footer>\n</body></html>\n",
      page.title, page.about, inspect::kInspectStyle, kFigureStyle, page.style,
      page.subtitle, page.body);
}

std::string ShareText(std::optional<double> share) {
  return share ? fmt::format("{:.2f} %", 100.0 * *share) : "-";
}

std::string PageSection(std::string_view title, std::string_view text,
                        std::string_view html) {
  return fmt::format("<section><h2>{}</h2>\n<p>{}</p>\n{}</section>\n", title,
                     text, html);
}

std::string PageFact(std::string_view name, const std::string& html) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html);
}

std::string PageRow(std::string_view name, std::string_view label,
                    std::string_view drawing, std::string_view figure) {
  return fmt::format(
      "<span>{}</span><svg role=\"img\" aria-label=\"{}\">{}</svg>"
      "<span>{}</span>\n",
      name, label, drawing, figure);
}

int HueOf(size_t layer_idx, size_t num_layers) {
  if (num_layers < 2) return 220;
  return 220 - static_cast<int>(220 * layer_idx / (num_layers - 1));
}

std::string NumberCell(std::string_view text) {
  return fmt::format("<td class=\"n\">{}</td>", text);
}

}  // namespace thermocline::cli
