#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <span>

namespace thermocline {
namespace {

std::string Scale(uint64_t n, double step, std::span<const char* const> units) {
  if (static_cast<double>(n) < step) return fmt::format("{}{}", n, units[0]);
  double value = static_cast<double>(n);
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.2f}{}", value, units[unit]);
}

}  // namespace

std::string FormatBytes(uint64_t num_bytes) {
  static constexpr std::array<const char*, 7> kUnits = {
      " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  return Scale(num_bytes, 1024.0, kUnits);
}

std::string FormatCount(uint64_t count) {
  static constexpr std::array<const char*, 5> kUnits = {"", " K", " M", " B",
                                                        " T"};
  return Scale(count, 1000.0, kUnits);
}

}  // namespace thermocline
