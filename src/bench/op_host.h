// The host as one who computes a layer's neurons: the engine's own FFNs.
#ifndef THERMOCLINE_BENCH_OP_HOST_H_
#define THERMOCLINE_BENCH_OP_HOST_H_

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "bench/op_layer.h"
#include "bench/op_subject.h"
#include "kernels/isa.h"

namespace thermocline::bench {

struct OpHostOptions {
  int num_threads = 0;  // 0: one per physical core
  kernels::Isa isa = kernels::BestIsa();
  uint64_t most_bytes = 0;  // that the weights may take
  bool measures_roof = true;
};

// Measures the roof, where the cache does not hide it, then fills the copies.
// kResourceExhausted: most_bytes do not hold the layer as records and as
// matrices, or the machine lacks the memory. Errors of ReadProbe and
// ThreadPool. The layer outlives it.
Result<std::unique_ptr<OpSubject>> MakeHostSubject(
    const OpLayer& layer, const OpHostOptions& options);

// kResourceExhausted, as above.
Status CheckOpRoom(uint64_t layer_bytes, uint64_t most_bytes);

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_OP_HOST_H_
