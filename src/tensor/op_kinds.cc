#include "tensor/op_kinds.h"

#include <array>

#include "base/check.h"

namespace thermocline {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 5> kActivationNames = {
    "silu", "gelu", "relu", "fatrelu", "drelu"};
constexpr std::array<std::string_view, 3> kRopeNames = {"none", "norm", "neox"};

}  // namespace

std::string_view NameOf(Activation activation) {
  const auto index = static_cast<size_t>(activation);
  TC_CHECK(index < kActivationNames.size());
  return kActivationNames[index];
}

std::optional<Activation> ParseActivation(std::string_view name) {
  for (size_t i = 0; i < kActivationNames.size(); ++i) {
    if (kActivationNames[i] == name) return static_cast<Activation>(i);
  }
  return std::nullopt;
}

std::string_view NameOf(RopeKind kind) {
  const auto index = static_cast<size_t>(kind);
  TC_CHECK(index < kRopeNames.size());
  return kRopeNames[index];
}

}  // namespace thermocline
