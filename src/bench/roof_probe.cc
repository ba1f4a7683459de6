#include "bench/roof_probe.h"

#include <algorithm>

#include "engine/session.h"
#include "os/memory.h"

namespace thermocline::bench {
namespace {

constexpr uint64_t kCacheProbeBytesMin = uint64_t{16} << 20;

}  // namespace

bool IsInCache(const model::Model& model) {
  return engine::WeightBytesPerToken(model) < 2 * probe::LastLevelCacheBytes();
}

Result<probe::ReadProbe> CreateRoofProbe(const model::Model& model,
                                         int num_threads,
                                         uint64_t token_bytes) {
  const uint64_t num_bytes =
      IsInCache(model)
          ? std::max(engine::WeightBytesPerToken(model), kCacheProbeBytesMin)
          : probe::ProbeSizeFor(probe::LastLevelCacheBytes(),
                                os::ReadMemoryInfo().available_bytes,
                                model.is_partly_left() ? 0 : token_bytes)
                .num_bytes;
  return probe::ReadProbe::Create(num_threads, num_bytes);
}

}  // namespace thermocline::bench
