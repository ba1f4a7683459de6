// Whether numbers that somebody else wrote are a permutation.
#ifndef THERMOCLINE_BASE_PERMUTATION_H_
#define THERMOCLINE_BASE_PERMUTATION_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace thermocline {

// The first of `count` places whose number, at(place), of any integer type, is
// not in [0, size) or stood at an earlier place. None, and count == size: a
// permutation.
template <typename At>
std::optional<size_t> FindMisplaced(size_t count, size_t size, At at) {
  std::vector<bool> is_placed(size);
  for (size_t place = 0; place < count; ++place) {
    const auto number = at(place);
    if (std::cmp_less(number, 0) || std::cmp_greater_equal(number, size) ||
        is_placed[static_cast<size_t>(number)]) {
      return place;
    }
    is_placed[static_cast<size_t>(number)] = true;
  }
  return std::nullopt;
}

}  // namespace thermocline

#endif  // THERMOCLINE_BASE_PERMUTATION_H_
