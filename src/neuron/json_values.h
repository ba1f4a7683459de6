// Values of JSON reports.
#ifndef THERMOCLINE_NEURON_JSON_VALUES_H_
#define THERMOCLINE_NEURON_JSON_VALUES_H_

#include <nlohmann/json.hpp>
#include <optional>

namespace thermocline {

template <typename T>
nlohmann::ordered_json OrNull(const std::optional<T>& value) {
  return value.has_value() ? nlohmann::ordered_json(*value)
                           : nlohmann::ordered_json(nullptr);
}

}  // namespace thermocline

#endif  // THERMOCLINE_NEURON_JSON_VALUES_H_
