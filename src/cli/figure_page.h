// Pages of figures for browsers: what those of `profile` and `trace --stats`
// are made of. They need nothing else, and the same figures give the same
// bytes.
#ifndef THERMOCLINE_CLI_FIGURE_PAGE_H_
#define THERMOCLINE_CLI_FIGURE_PAGE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace thermocline::cli {

// HTML that is given is taken as it is.
struct FigurePage {
  std::string title;     // HTML; the heading, and what the page is called
  std::string about;     // HTML; follows the title: "which neurons fire"
  std::string subtitle;  // HTML; the line below the heading
  std::string style;     // CSS beside that of all such pages
  std::string body;      // HTML; sections
};
std::string FormatPage(const FigurePage& page);

// "12.34 %"; "-" of nothing.
std::string ShareText(std::optional<double> share);

std::string PageSection(std::string_view title, std::string_view text,
                        std::string_view html);

// A line of a <dl>.
std::string PageFact(std::string_view name, const std::string& html);

// A row of three cells in <div class="rows">: what it is of, a drawing as wide
// as there is room, and a figure. `label` says all of it to who cannot see it.
std::string PageRow(std::string_view name, std::string_view label,
                    std::string_view drawing, std::string_view figure);

// The hue of a layer's curve: from blue, the first, to red.
int HueOf(size_t layer_idx, size_t num_layers);

// A cell of a table that holds a number.
std::string NumberCell(std::string_view text);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_FIGURE_PAGE_H_
