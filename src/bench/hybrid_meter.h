// What generated tokens cost the two processors.
#ifndef THERMOCLINE_BENCH_HYBRID_METER_H_
#define THERMOCLINE_BENCH_HYBRID_METER_H_

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "bench/hybrid_bench.h"
#include "compute/stage_times.h"
#include "device/sim/sim_device.h"
#include "engine/device/placement.h"
#include "engine/ffn/ffn_mode.h"
#include "engine/ffn/ffn_observer.h"
#include "engine/memory_plan.h"
#include "model/config.h"

namespace thermocline::bench {

// A session's `work`, which moves the clock of a simulated machine, and its
// account of stages.
class HybridMeter final : public compute::HostWork {
 public:
  // The device outlives it.
  explicit HybridMeter(device::Device* device)
      : device_(device), sim_(device::AsSim(device)) {}

  void Read(compute::Stage stage, uint64_t num_bytes) override;
  compute::StageTimes* times() { return &times_; }

  // What lies between the two counts. `now`: the session's totals.
  void Begin(const engine::SparseTotals& now) { before_ = Now(now); }
  void End(const engine::SparseTotals& now, uint64_t num_tokens);

  // Of all that has counted. rates: of a device that is not simulated.
  HybridRow Row(const model::Config& config, engine::FfnMode mode,
                const engine::Placement& placement,
                const engine::MemoryPlan& memory,
                const std::optional<HybridRates>& rates) const;

 private:
  // Everything that is counted, since it was made.
  struct Counts {
    double seconds = 0.0;
    uint64_t waiting_ns = 0;
    uint64_t host_bytes = 0, host_neuron_bytes = 0;
    engine::SparseTotals totals;
    device::SimAccounts accounts;
  };
  Counts Now(const engine::SparseTotals& totals) const;
  void AddAccounts(const device::SimAccounts& before,
                   const device::SimAccounts& after);

  device::Device* device_;
  device::SimDevice* sim_;  // null: another kind
  compute::StageTimes times_;
  Stopwatch watch_;
  uint64_t host_bytes_ = 0, host_neuron_bytes_ = 0;
  Counts before_;
  HybridCosts costs_;
};

}  // namespace thermocline::bench

#endif  // THERMOCLINE_BENCH_HYBRID_METER_H_
