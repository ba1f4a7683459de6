#include "engine/ffn/ffn_mode.h"

#include <array>

#include "base/check.h"

namespace thermocline::engine {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 3> kNames = {"auto", "dense", "fast"};

}  // namespace

std::string_view NameOf(FfnMode mode) {
  const auto index = static_cast<size_t>(mode);
  TC_CHECK(index < kNames.size());
  return kNames[index];
}

std::optional<FfnMode> ParseFfnMode(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<FfnMode>(i);
  }
  return std::nullopt;
}

}  // namespace thermocline::engine
