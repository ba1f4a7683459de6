// Rectangles whose areas are proportional to numbers.
#ifndef THERMOCLINE_INSPECT_TREEMAP_H_
#define THERMOCLINE_INSPECT_TREEMAP_H_

#include <span>
#include <vector>

namespace thermocline::inspect {

struct Rect {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;
};

// Cuts `area` into one rectangle per weight, by the squarified algorithm
// (Bruls, Huizing, van Wijk 2000), which keeps them close to squares. The
// weights are positive, largest first. (CHECKed)
std::vector<Rect> Treemap(std::span<const double> weights, const Rect& area);

}  // namespace thermocline::inspect

#endif  // THERMOCLINE_INSPECT_TREEMAP_H_
