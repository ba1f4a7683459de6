#include "bench/hybrid_meter.h"

#include <algorithm>

namespace thermocline::bench {
namespace {

using compute::Stage;

uint64_t NumResident(const engine::Placement& placement,
                     const model::Config& config) {
  uint64_t count = 0;
  for (size_t i = 0; i < placement.layers.size(); ++i) {
    const engine::LayerPlacement& layer = placement.layers[i];
    const size_t width = config.layers[i].ffn.width;
    count += layer.resident.size() + layer.experts.size() * width;
    if (layer.matrices) count += width;
  }
  return count;
}

uint64_t NumNeurons(const model::Config& config) {
  uint64_t count = 0;
  for (const model::LayerSpec& layer : config.layers) {
    count += model::NumNeurons(layer.ffn);
  }
  return count;
}

// Bytes of records, all of whose neurons are computed: a token reads those of
// the experts in use, whichever they are.
uint64_t ReadOfRecords(const engine::Placement& placement,
                       const model::Config& config) {
  double all = 0.0, read = 0.0;
  for (size_t i = 0; i < placement.layers.size(); ++i) {
    const engine::LayerPlacement& layer = placement.layers[i];
    const model::FfnSpec& ffn = config.layers[i].ffn;
    const auto count = static_cast<double>(layer.resident.size() +
                                           layer.experts.size() * ffn.width);
    all += count;
    read += ffn.num_experts == 0
                ? count
                : count * static_cast<double>(ffn.num_experts_used) /
                      static_cast<double>(ffn.num_experts);
  }
  if (all == 0.0) return placement.record_bytes;
  return static_cast<uint64_t>(static_cast<double>(placement.record_bytes) *
                               read / all);
}

HybridRates StatedRates(const device::Machine& machine, bool is_linked) {
  HybridRates rates = {.device = machine.device_rate,
                       .host = std::min(machine.pool_rate, machine.bus_rate)};
  if (is_linked) rates.link = std::min(machine.up_rate, machine.bus_rate);
  return rates;
}

template <typename T>
void AddTo(std::optional<T>& sum, T value) {
  sum = sum.value_or(T()) + value;
}

}  // namespace

void HybridMeter::Read(Stage stage, uint64_t num_bytes) {
  host_bytes_ += num_bytes;
  if (stage == Stage::kNeurons) host_neuron_bytes_ += num_bytes;
  if (sim_ != nullptr) sim_->HostWork(num_bytes);
}

HybridMeter::Counts HybridMeter::Now(const engine::SparseTotals& totals) const {
  Counts counts = {.seconds = sim_ != nullptr ? sim_->now() : watch_.Seconds(),
                   .waiting_ns = times_.of(Stage::kDevice).ns,
                   .host_bytes = host_bytes_,
                   .host_neuron_bytes = host_neuron_bytes_,
                   .totals = totals};
  if (sim_ != nullptr) counts.accounts = sim_->accounts();
  return counts;
}

void HybridMeter::End(const engine::SparseTotals& now, uint64_t num_tokens) {
  const Counts after = Now(now);
  const engine::SparseTotals totals = after.totals - before_.totals;
  costs_.num_tokens += num_tokens;
  costs_.seconds += after.seconds - before_.seconds;
  costs_.host_bytes += after.host_bytes - before_.host_bytes;
  costs_.host_neuron_bytes +=
      after.host_neuron_bytes - before_.host_neuron_bytes;
  costs_.device_neuron_bytes += totals.num_device_bytes;
  costs_.num_candidates += totals.num_candidates;
  costs_.num_device_candidates += totals.num_device_candidates;
  if (sim_ != nullptr) {
    AddAccounts(before_.accounts, after.accounts);
  } else {
    costs_.waiting_seconds +=
        static_cast<double>(after.waiting_ns - before_.waiting_ns) / 1e9;
  }
}

void HybridMeter::AddAccounts(const device::SimAccounts& before,
                              const device::SimAccounts& after) {
  costs_.waiting_seconds += after.waiting_seconds - before.waiting_seconds;
  costs_.device_bytes += after.device_bytes - before.device_bytes;
  AddTo(costs_.device_seconds, after.device_seconds - before.device_seconds);
  AddTo(costs_.link_seconds, after.up_seconds + after.down_seconds -
                                 before.up_seconds - before.down_seconds);
  AddTo(costs_.up_bytes, after.up_bytes - before.up_bytes);
  AddTo(costs_.down_bytes, after.down_bytes - before.down_bytes);
}

HybridRow HybridMeter::Row(const model::Config& config, engine::FfnMode mode,
                           const engine::Placement& placement,
                           const engine::MemoryPlan& memory,
                           const std::optional<HybridRates>& rates) const {
  HybridRow row = {
      .num_layers = config.num_layers,
      .num_device_layers = static_cast<uint64_t>(
          std::ranges::count_if(placement.layers, engine::HasAnything)),
      .num_resident = NumResident(placement, config),
      .planned_bytes = memory.device.total(),
      .peak_device_bytes = device_->peak_bytes(device::MemoryKind::kDevice),
      .host_bytes = memory.host.total(),
      .costs = costs_,
      .rates = rates};
  HybridCosts& costs = row.costs;
  // Then all listed neurons are all there are, and are not counted.
  if (mode == engine::FfnMode::kDense) {
    costs.device_neuron_bytes =
        ReadOfRecords(placement, config) * costs.num_tokens;
    costs.num_candidates = NumNeurons(config) * costs.num_tokens;
    costs.num_device_candidates = row.num_resident * costs.num_tokens;
  }
  if (sim_ != nullptr) {
    row.rates = StatedRates(sim_->machine(), placement.linked_bytes > 0);
    // Experts in use may have been others.
    costs.device_neuron_bytes =
        std::min(costs.device_neuron_bytes, costs.device_bytes);
  } else {
    // What else is there is read once a token.
    costs.device_bytes =
        costs.device_neuron_bytes + placement.weight_bytes * costs.num_tokens;
    // What of its neurons crossed the link is not told apart.
    if (placement.linked_bytes > 0) row.rates.reset();
  }
  return row;
}

}  // namespace thermocline::bench
