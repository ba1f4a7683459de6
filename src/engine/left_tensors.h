// What of a model stays in its file when memory does not hold all of it.
#ifndef THERMOCLINE_ENGINE_LEFT_TENSORS_H_
#define THERMOCLINE_ENGINE_LEFT_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/runtime.h"
#include "engine/stream/stream_options.h"
#include "gguf/gguf.h"
#include "model/config.h"

namespace thermocline::engine {

// The tensors that stay, for model::OpenOptions::leaves: none where all fits
// options.budget.ram, or where a device computes too (it takes weights from
// memory). Else the records of a prepared model, all experts of a mixture, or
// the matrices of as many layers as have to. Errors of PlanMemory.
Result<std::vector<std::string>> TensorsToLeave(const gguf::File& file,
                                                const model::Config& config,
                                                const SessionOptions& options);

// Of tensors that stay (gguf::WeightResidency::left_out); nothing of none.
std::optional<LeftWeights> LeftOf(const gguf::File& file,
                                  const model::Config& config,
                                  std::span<const std::string> names);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_LEFT_TENSORS_H_
