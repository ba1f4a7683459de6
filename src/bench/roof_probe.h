// The read probe of a measurement of a model.
#ifndef THERMOCLINE_BENCH_ROOF_PROBE_H_
#define THERMOCLINE_BENCH_ROOF_PROBE_H_

#include <cstdint>

#include "base/status.h"
#include "model/model.h"
#include "probe/memory.h"

namespace thermocline::bench {

// Passes before every repetition.
inline constexpr int kProbeRounds = 2;

// Whether the weights that a token reads are fewer than twice the last-level
// cache: then they come from there, in part.
bool IsInCache(const model::Model& model);

// Of as much memory as a token needs (`token_bytes`, of the most expensive
// one), or of the cache where the model is, or of little more than the cache
// where a budget leaves a part of it in its file. ReadProbe::Create's errors.
Result<probe::ReadProbe> CreateRoofProbe(const model::Model& model,
                                         int num_threads, uint64_t token_bytes);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_ROOF_PROBE_H_
