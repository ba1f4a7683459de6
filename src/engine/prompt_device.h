// Who computes prompts in the host's place: devices for static graphs.
#ifndef THERMOCLINE_ENGINE_PROMPT_DEVICE_H_
#define THERMOCLINE_ENGINE_PROMPT_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "npu/static_device.h"
#include "npu/static_model.h"

namespace thermocline::engine {

// What becomes of a device whose prompts are not like the host's.
enum class PromptCheck : uint8_t {
  kFail,  // it is not used
  kWarn,
  kOff,  // nobody compares
};

struct PromptDeviceOptions {
  // Memory is planned for one; what reads `devices` needs them too.
  bool is_wanted = false;
  // Tried in turn, when the engine is made: the first that takes the model and
  // passes the check computes prompts of at least `least_rows` tokens.
  std::vector<std::shared_ptr<npu::StaticDevice>> devices;
  // The host computes prompts where none of them can, and from a failure on.
  bool host_takes_over = true;
  // Its context, weights_are_inputs and threads are the engine's to set.
  npu::StaticOptions graphs;
  // Absent: where memory is bounded or layers stay in the file.
  std::optional<bool> weights_are_inputs;
  // 0: a quarter of the fewest rows of a graph; shorter prompts are padded so
  // much that the host is faster.
  int64_t least_rows = 0;
  PromptCheck check = PromptCheck::kWarn;
};

// The bound of the check: normalised squared error of logits. 8-bit activations
// and bf16 give up to 2e-4, another model or a wrong graph around 1.
inline constexpr double kMostPromptNmse = 1e-2;

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_PROMPT_DEVICE_H_
