#include "tensor/op_kinds.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/ranges.h>

#include "base/check.h"

namespace thermocline {
namespace {

// In the order of the enumeration.
constexpr ActivationInfo kActivations[] = {
    {Activation::kSilu, "silu", /*has_zeros=*/false, /*needs_gate=*/false},
    {Activation::kGelu, "gelu", /*has_zeros=*/false, /*needs_gate=*/false},
    {Activation::kRelu, "relu", /*has_zeros=*/true, /*needs_gate=*/false},
    {Activation::kFatRelu, "fatrelu", /*has_zeros=*/true, /*needs_gate=*/false},
    {Activation::kDRelu, "drelu", /*has_zeros=*/true, /*needs_gate=*/true},
    {Activation::kRelu2, "relu2", /*has_zeros=*/true, /*needs_gate=*/false},
};
constexpr std::array<std::string_view, 3> kRopeNames = {"none", "norm", "neox"};

}  // namespace

std::span<const ActivationInfo> Activations() { return kActivations; }

const ActivationInfo& InfoOf(Activation activation) {
  const auto index = static_cast<size_t>(activation);
  TC_CHECK(index < std::size(kActivations));
  return kActivations[index];
}

std::string_view NameOf(Activation activation) {
  return InfoOf(activation).name;
}

bool HasZeros(Activation activation) { return InfoOf(activation).has_zeros; }

std::optional<Activation> ParseActivation(std::string_view name) {
  for (const ActivationInfo& info : kActivations) {
    if (info.name == name) return info.activation;
  }
  return std::nullopt;
}

std::string ListActivations(std::optional<bool> has_zeros) {
  std::vector<std::string_view> names;
  for (const ActivationInfo& info : kActivations) {
    if (info.has_zeros == has_zeros.value_or(info.has_zeros)) {
      names.push_back(info.name);
    }
  }
  const std::string_view last = names.back();
  names.pop_back();
  if (names.empty()) return std::string(last);
  return fmt::format("{} and {}", fmt::join(names, ", "), last);
}

std::string_view NameOf(RopeKind kind) {
  const auto index = static_cast<size_t>(kind);
  TC_CHECK(index < kRopeNames.size());
  return kRopeNames[index];
}

}  // namespace thermocline
