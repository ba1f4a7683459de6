// Session options, checked against a model and made definite.
#ifndef THERMOCLINE_ENGINE_SESSION_PLAN_H_
#define THERMOCLINE_ENGINE_SESSION_PLAN_H_

#include <cstdint>

#include "base/status.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/kv/kv_cache.h"
#include "engine/scratch.h"
#include "engine/session.h"
#include "model/config.h"

namespace thermocline::engine {

struct SessionPlan {
  FfnChoice ffn;
  KvLayout kv;
  ScratchShape scratch;
  MemoryNeed need;
};

// Same errors as PlanMemory.
Result<SessionPlan> PlanSession(const model::Config& config,
                                const SessionOptions& options);

// kResourceExhausted, with both numbers, when the need is more than the RAM.
Status CheckFits(const SessionPlan& plan, uint64_t ram_bytes);

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_SESSION_PLAN_H_
