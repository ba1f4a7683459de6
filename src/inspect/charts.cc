#include "inspect/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/units.h"
#include "inspect/html.h"
#include "inspect/treemap.h"

namespace thermocline::inspect {
namespace {

// In percent of the drawing; its shape on a wide screen decides which labels
// have room.
constexpr Rect kTreemapArea = {
    .x = 0.0, .y = 0.0, .width = 100.0, .height = 34.0};
constexpr double kLabelWidth = 5.5;
constexpr double kLabelHeight = 2.4;

struct Piece {
  TensorRole role;
  uint64_t num_bytes;
};
struct ClassPieces {
  TensorClass tensor_class = TensorClass::kOther;
  uint64_t num_bytes = 0;
  std::vector<Piece> pieces;
};

// A strict order: equal sizes go by their kind.
template <typename T, auto kKind>
bool LargerFirst(const T& a, const T& b) {
  return std::pair(b.num_bytes, a.*kKind) < std::pair(a.num_bytes, b.*kKind);
}

// Largest first, on both levels; empty tensors are left out.
std::vector<ClassPieces> PiecesBySize(const InspectReport& report) {
  std::map<TensorClass, ClassPieces> by_class;
  for (const auto& [role, use] :
       SumBy(report.tensors, [](const TensorRow& row) { return row.role; })) {
    if (use.num_bytes == 0) continue;
    ClassPieces& entry = by_class[ClassOf(role)];
    entry.tensor_class = ClassOf(role);
    entry.num_bytes += use.num_bytes;
    entry.pieces.push_back({role, use.num_bytes});
  }
  std::vector<ClassPieces> classes;
  for (auto& [tensor_class, entry] : by_class) {
    std::ranges::sort(entry.pieces, LargerFirst<Piece, &Piece::role>);
    classes.push_back(std::move(entry));
  }
  std::ranges::sort(classes,
                    LargerFirst<ClassPieces, &ClassPieces::tensor_class>);
  return classes;
}

template <typename T>
std::vector<Rect> TreemapOf(const std::vector<T>& items, const Rect& area) {
  std::vector<double> weights;
  for (const T& item : items) {
    weights.push_back(static_cast<double>(item.num_bytes));
  }
  return Treemap(weights, area);
}

std::string DrawPiece(const Piece& piece, const Rect& rect, uint64_t total) {
  const double scale = 100.0 / kTreemapArea.height;
  const std::string share = Percent(piece.num_bytes, total);
  std::string svg = fmt::format(
      "<svg x=\"{:.3f}%\" y=\"{:.3f}%\" width=\"{:.3f}%\" height=\"{:.3f}%\">"
      "<title>{}: {} ({} bytes), {}</title>"
      "<rect class=\"c-{}\" width=\"100%\" height=\"100%\"/>",
      rect.x, rect.y * scale, rect.width, rect.height * scale,
      NameOf(piece.role), FormatBytes(piece.num_bytes),
      Grouped(piece.num_bytes), share, NameOf(ClassOf(piece.role)));
  if (rect.width >= kLabelWidth && rect.height >= kLabelHeight) {
    svg += fmt::format("<text x=\"6\" y=\"17\">{}</text>", NameOf(piece.role));
    if (rect.height >= 2.0 * kLabelHeight) {
      svg += fmt::format("<text class=\"small\" x=\"6\" y=\"33\">{}</text>",
                         share);
    }
  }
  return svg + "</svg>\n";
}

using ClassBytes = std::map<TensorClass, uint64_t>;

uint64_t Total(const ClassBytes& bytes) {
  uint64_t total = 0;
  for (const auto& [tensor_class, num_bytes] : bytes) total += num_bytes;
  return total;
}

std::string DrawLayer(int layer, const ClassBytes& bytes, uint64_t most) {
  const uint64_t total = Total(bytes);
  std::string parts;
  std::string rects;
  double at = 0.0;
  for (const auto& [tensor_class, num_bytes] : bytes) {
    const double width =
        100.0 * static_cast<double>(num_bytes) / static_cast<double>(most);
    rects += fmt::format(
        "<rect class=\"c-{0}\" x=\"{1:.3f}%\" width=\"{2:.3f}%\" "
        "height=\"100%\"><title>layer {3}, {0}: {4} ({5} bytes), "
        "{6}</title></rect>",
        NameOf(tensor_class), at, width, layer, FormatBytes(num_bytes),
        Grouped(num_bytes), Percent(num_bytes, total));
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ",
                         NameOf(tensor_class), FormatBytes(num_bytes));
    at += width;
  }
  return fmt::format(
      "<div class=\"layer\"><span>{0}</span><svg role=\"img\" "
      "aria-label=\"layer {0}: {1}\">{2}</svg><span>{3}</span></div>\n",
      layer, parts, rects, FormatBytes(total));
}

using TypeBytes = std::map<DType, uint64_t>;

DType MainType(const TypeBytes& bytes) {
  return std::ranges::max_element(bytes, std::ranges::less(),
                                  [](const auto& e) { return e.second; })
      ->first;
}

std::string TypeCell(int layer, TensorRole role, const TypeBytes& bytes) {
  std::string title;
  for (const auto& [dtype, num_bytes] : bytes) {
    title += fmt::format("{}{} {}", title.empty() ? "" : ", ", NameOf(dtype),
                         FormatBytes(num_bytes));
  }
  const DType main = MainType(bytes);
  return fmt::format("<td class=\"{}\" title=\"layer {}, {}: {}\">{}</td>",
                     TypeClass(main), layer, NameOf(role), title, NameOf(main));
}

double BitsOf(DType dtype) {
  return 8.0 * InfoOf(dtype).block_bytes / InfoOf(dtype).block_elems;
}

std::set<DType> TypesOf(std::span<const TensorRow> rows) {
  std::set<DType> types;
  for (const TensorRow& row : rows) types.insert(row.dtype);
  return types;
}

std::string Legend(const std::string& items) {
  if (items.empty()) return "";
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

// From cold, few bits, to warm, many.
int HueOf(DType dtype) {
  static constexpr std::pair<double, int> kHues[] = {
      {2.0, 290}, {3.0, 265}, {4.0, 235}, {5.0, 200},
      {6.0, 165}, {8.0, 110}, {9.0, 60},  {17.0, 30}};
  for (const auto& [bits, hue] : kHues) {
    if (BitsOf(dtype) < bits) return hue;
  }
  return 0;
}

}  // namespace

std::string DrawTreemap(const InspectReport& report) {
  const std::vector<ClassPieces> classes = PiecesBySize(report);
  if (classes.empty()) return "";
  std::string svg =
      "<svg class=\"treemap\" role=\"group\" aria-label=\"bytes by class and "
      "role; the same numbers are in the table below\">\n";
  const std::vector<Rect> areas = TreemapOf(classes, kTreemapArea);
  for (size_t i = 0; i < classes.size(); ++i) {
    const std::vector<Rect> rects = TreemapOf(classes[i].pieces, areas[i]);
    for (size_t j = 0; j < rects.size(); ++j) {
      svg += DrawPiece(classes[i].pieces[j], rects[j], report.total.num_bytes);
    }
  }
  return svg + "</svg>\n";
}

std::string DrawClassLegend(std::span<const TensorRow> rows) {
  std::set<TensorClass> classes;
  for (const TensorRow& row : rows) classes.insert(ClassOf(row.role));
  std::string items;
  for (const TensorClass tensor_class : classes) {
    items += fmt::format("<li><i class=\"c-{0}\"></i>{0}</li>",
                         NameOf(tensor_class));
  }
  return Legend(items);
}

std::string DrawTypeLegend(std::span<const TensorRow> rows) {
  std::string items;
  for (const DType dtype : TypesOf(rows)) {
    items += fmt::format("<li><i class=\"{}\"></i>{}, {:.3g} bits</li>",
                         TypeClass(dtype), NameOf(dtype), BitsOf(dtype));
  }
  return Legend(items);
}

std::string DrawLayers(const InspectReport& report) {
  const std::map<int, ClassBytes> layers = BytesByLayer(report.tensors);
  uint64_t most = 1;
  for (const auto& [layer, bytes] : layers) most = std::max(most, Total(bytes));
  std::string html;
  for (const auto& [layer, bytes] : layers) {
    html += DrawLayer(layer, bytes, most);
  }
  return html.empty() ? "" : "<div class=\"layers\">\n" + html + "</div>\n";
}

std::string DrawTypes(const InspectReport& report) {
  std::map<int, std::map<TensorRole, TypeBytes>> layers;
  std::set<TensorRole> roles;
  for (const TensorRow& row : report.tensors) {
    if (!row.layer.has_value()) continue;
    layers[*row.layer][row.role][row.dtype] += row.num_bytes;
    roles.insert(row.role);
  }
  if (layers.empty()) return "";
  std::string html = "<table class=\"types\"><thead><tr><th><span>layer</span>";
  for (const TensorRole role : roles) {
    html += fmt::format("</th><th scope=\"col\"><span>{}</span>", NameOf(role));
  }
  html += "</th></tr></thead><tbody>\n";
  for (const auto& [layer, cells] : layers) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", layer);
    for (const TensorRole role : roles) {
      const auto cell = cells.find(role);
      html += cell == cells.end() ? "<td></td>"
                                  : TypeCell(layer, role, cell->second);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string TypeClass(DType dtype) {
  return fmt::format("t-{}", NameOf(dtype));
}

std::string TypeColours(std::span<const TensorRow> rows) {
  std::string css;
  for (const DType dtype : TypesOf(rows)) {
    css += fmt::format(".{}{{--hue:{};--sat:{}%}}\n", TypeClass(dtype),
                       HueOf(dtype), BitsOf(dtype) > 17.0 ? 0 : 60);
  }
  return css;
}

std::string DrawBar(double share) {
  return fmt::format(
      "<svg class=\"bar\" aria-hidden=\"true\"><rect width=\"{:.3f}%\" "
      "height=\"100%\"/></svg>",
      100.0 * std::clamp(share, 0.0, 1.0));
}

}  // namespace thermocline::inspect
