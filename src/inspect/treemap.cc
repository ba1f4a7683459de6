#include "inspect/treemap.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace thermocline::inspect {
namespace {

double Sum(std::span<const double> areas) {
  return std::accumulate(areas.begin(), areas.end(), 0.0);
}

// The longest of a strip's rectangles, as long side / short side. The strip
// takes the whole of `side`; its areas fall from the first to the last.
double WorstRatio(std::span<const double> strip, double side) {
  const double thickness = Sum(strip) / side;
  const double longest = strip.front() / thickness;
  const double shortest = strip.back() / thickness;
  return std::max({longest / thickness, thickness / longest,
                   thickness / shortest, shortest / thickness});
}

// How many of the areas make the best strip along `side`.
size_t StripLength(std::span<const double> areas, double side) {
  size_t count = 1;
  while (count < areas.size() && WorstRatio(areas.first(count + 1), side) <=
                                     WorstRatio(areas.first(count), side)) {
    ++count;
  }
  return count;
}

}  // namespace

std::vector<Rect> Treemap(std::span<const double> weights, const Rect& area) {
  TC_CHECK(std::ranges::is_sorted(weights, std::greater<>()));
  TC_CHECK(weights.empty() || weights.back() > 0.0);
  const double scale = area.width * area.height / Sum(weights);
  std::vector<double> areas;
  for (const double weight : weights) areas.push_back(weight * scale);
  std::vector<Rect> rects;
  Rect rest = area;
  for (std::span<const double> left = areas; !left.empty();) {
    const bool is_column = rest.width >= rest.height;
    const double side = is_column ? rest.height : rest.width;
    const std::span<const double> strip = left.first(StripLength(left, side));
    // By shares of what is left: rounding never leads out of the area.
    const double strip_area = Sum(strip);
    const double thickness =
        std::min(strip_area / side, is_column ? rest.width : rest.height);
    double at = is_column ? rest.y : rest.x;
    for (const double piece : strip) {
      const double length = piece / strip_area * side;
      rects.push_back(is_column ? Rect{rest.x, at, thickness, length}
                                : Rect{at, rest.y, length, thickness});
      at += length;
    }
    if (is_column) {
      rest.x += thickness;
      rest.width -= thickness;
    } else {
      rest.y += thickness;
      rest.height -= thickness;
    }
    left = left.subspan(strip.size());
  }
  return rects;
}

}  // namespace thermocline::inspect
