#include "engine/ffn/ffn_mode.h"

#include <array>
#include <cstddef>

#include "base/check.h"

namespace thermocline::engine {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, 5> kModeNames = {
    "auto", "dense", "exact", "fast", "threshold"};
constexpr std::array<std::string_view, 4> kChoiceNames = {
    "auto", "trained", "training-free", "none"};
// What scripts of before say, and what papers call it.
constexpr std::string_view kTrainingFreeAliases[] = {"free", "signs"};

template <typename Enum, size_t kCount>
std::string_view NameIn(const std::array<std::string_view, kCount>& names,
                        Enum value) {
  const auto index = static_cast<size_t>(value);
  TC_CHECK(index < names.size());
  return names[index];
}

template <typename Enum, size_t kCount>
std::optional<Enum> FindIn(const std::array<std::string_view, kCount>& names,
                           std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view NameOf(FfnMode mode) { return NameIn(kModeNames, mode); }

std::optional<FfnMode> ParseFfnMode(std::string_view name) {
  return FindIn<FfnMode>(kModeNames, name);
}

std::string_view NameOf(PredictorChoice choice) {
  return NameIn(kChoiceNames, choice);
}

std::optional<PredictorChoice> ParsePredictorChoice(std::string_view name) {
  for (const std::string_view alias : kTrainingFreeAliases) {
    if (name == alias) return PredictorChoice::kTrainingFree;
  }
  return FindIn<PredictorChoice>(kChoiceNames, name);
}

}  // namespace thermocline::engine
