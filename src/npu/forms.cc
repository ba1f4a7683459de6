#include "npu/forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace thermocline::npu {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, 7> kWeightForms = {
    "exact", "f16", "i8-cw", "i4-cw", "i4-g128", "i8-asym", "i4-asym"};
constexpr std::array<std::string_view, 4> kKvForms = {"append", "scatter",
                                                      "roll", "stateful"};

template <typename Form, size_t kCount>
std::optional<Form> ParseForm(const std::array<std::string_view, kCount>& names,
                              std::string_view name) {
  const auto* found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Form>(found - names.begin());
}

}  // namespace

std::string_view NameOf(WeightForm form) {
  return kWeightForms[static_cast<size_t>(form)];
}

std::optional<WeightForm> ParseWeightForm(std::string_view name) {
  return ParseForm<WeightForm>(kWeightForms, name);
}

std::string ListWeightForms() {
  return fmt::format(
      "{} and {}",
      fmt::join(kWeightForms.begin(), kWeightForms.end() - 1, ", "),
      kWeightForms.back());
}

std::string_view NameOf(KvForm form) {
  return kKvForms[static_cast<size_t>(form)];
}

std::optional<KvForm> ParseKvForm(std::string_view name) {
  return ParseForm<KvForm>(kKvForms, name);
}

}  // namespace thermocline::npu
