#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace thermocline {
namespace {

constexpr std::array<const char*, 7> kByteUnits = {
    " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};

std::string Scale(uint64_t n, double step, std::span<const char* const> units,
                  bool rounds_up = false) {
  if (static_cast<double>(n) < step) return fmt::format("{}{}", n, units[0]);
  double value = static_cast<double>(n);
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  if (rounds_up) value = std::ceil(value * 100.0) / 100.0;
  return fmt::format("{:.2f}{}", value, units[unit]);
}

}  // namespace

std::string FormatBytes(uint64_t num_bytes) {
  return Scale(num_bytes, 1024.0, kByteUnits);
}

std::string FormatLeastBytes(uint64_t num_bytes) {
  return Scale(num_bytes, 1024.0, kByteUnits, /*rounds_up=*/true);
}

std::string FormatCount(uint64_t count) {
  static constexpr std::array<const char*, 5> kUnits = {"", " K", " M", " B",
                                                        " T"};
  return Scale(count, 1000.0, kUnits);
}

}  // namespace thermocline
