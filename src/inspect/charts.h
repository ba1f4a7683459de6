// The drawings of inspect's page, as HTML with inline SVG. Lengths are shares
// of the page's width and colours are classes, so that drawings follow the
// screen and the theme (inspect_html_style.h). What a colour says is written
// as well: in cells, in titles that a pointer shows, and in tables.
#ifndef THERMOCLINE_INSPECT_CHARTS_H_
#define THERMOCLINE_INSPECT_CHARTS_H_

#include <span>
#include <string>

#include "inspect/report.h"

namespace thermocline::inspect {

// All give "" where there is nothing to draw.

// Areas in proportion to bytes: classes, cut into roles.
std::string DrawTreemap(const InspectReport& report);

// The names and colours of the classes that the rows have.
std::string DrawClassLegend(std::span<const TensorRow> rows);

// The same for types, with their bits per weight.
std::string DrawTypeLegend(std::span<const TensorRow> rows);

// A bar for each layer, cut into classes; the longest layer fills the width.
std::string DrawLayers(const InspectReport& report);

// A table of layers and roles; a cell names the type of most of its bytes and
// is coloured by bits per weight.
std::string DrawTypes(const InspectReport& report);

// "t-Q4_K": the class that colours a type's cells and legend.
std::string TypeClass(DType dtype);

// One line of CSS for each type that the rows have.
std::string TypeColours(std::span<const TensorRow> rows);

// A horizontal bar that fills `share`, 0 to 1, of its column.
std::string DrawBar(double share);

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_CHARTS_H_
