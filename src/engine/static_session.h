// A session whose passes a device with static shapes carries out as a whole,
// prompts and what is generated: NITRO's way (NITRO 3.6). For comparison, and
// for devices that are faster at it than the host.
#ifndef THERMOCLINE_ENGINE_STATIC_SESSION_H_
#define THERMOCLINE_ENGINE_STATIC_SESSION_H_

#include <atomic>
#include <memory>

#include "base/status.h"
#include "engine/memory_plan.h"
#include "engine/session.h"
#include "model/model.h"
#include "npu/static_device.h"
#include "npu/static_model.h"

namespace thermocline::engine {

struct StaticSessionOptions {
  // has_head is set. The forms of keys and values that roll cannot forget a
  // part: after Truncate the rest is computed anew.
  npu::StaticOptions graphs;
  Budget budget;
  const std::atomic<bool>* cancel = nullptr;  // looked at between calls
};

// Embeds on the host; every neuron counts. Nothing is compiled yet.
// kResourceExhausted: more than the budget, or than the machine has;
// kInvalidArgument: a context of more positions than the model learned; errors
// of npu::StaticModel::Create.
Result<std::unique_ptr<Session>> MakeStaticSession(
    std::shared_ptr<const model::Model> model,
    std::shared_ptr<npu::StaticDevice> device,
    const StaticSessionOptions& options);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STATIC_SESSION_H_
