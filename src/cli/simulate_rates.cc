#include "cli/simulate_rates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quote.h"
#include "device/sim/machine.h"
#include "os/file.h"
#include "planner/storage_files.h"

namespace thermocline::cli {
namespace {

using residency::Misses;

constexpr double kGb = 1e9;

TierRates StatedRates(Misses misses) {
  if (misses == Misses::kRead) {
    return {.misses = misses,
            .fast = 25.0 * kGb,
            .slow = 2.0 * kGb,
            .link = 2.0 * kGb,
            .name = "stated: RAM 25 GB/s, storage 2 GB/s"};
  }
  return {.misses = misses,
          .fast = 554.0 * kGb,
          .slow = 35.0 * kGb,
          .link = 12.0 * kGb,
          .sync = 20e-6,
          .name = "stated: VRAM 554 GB/s, RAM 35 GB/s, link 12 GB/s"};
}

TierRates RatesOfDevice(const device::Machine& machine) {
  return {.misses = Misses::kComputed,
          .fast = machine.device_rate,
          .slow = std::min(machine.pool_rate, machine.bus_rate),
          .link = machine.up_rate,
          .sync = machine.sync_latency,
          .name = Escape(machine.name)};
}

// Reads of 16 KiB, as many at a time as it takes.
TierRates RatesOfStorage(const planner::StorageMachine& machine) {
  constexpr double kBlock = 16 << 10;
  const double reads =
      planner::ReadsPerSecond(machine, true, kBlock, machine.most_under_way);
  return {.misses = Misses::kRead,
          .fast = planner::MemoryBytesPerSecond(
              machine, static_cast<uint32_t>(machine.cores.size())),
          .slow = reads * kBlock,
          .link = reads * kBlock,
          .name = Escape(machine.name)};
}

}  // namespace

residency::MoveRates TierRates::Of(double member_bytes, double dense_bytes,
                                   size_t num_layers) const {
  return {.per_hit = member_bytes / fast,
          .per_miss = member_bytes / slow,
          .per_layer_with_misses = sync,
          .per_move = member_bytes / link,
          .other = dense_bytes / fast / static_cast<double>(num_layers)};
}

Result<TierRates> RatesOf(const std::optional<std::string>& machine_path,
                          std::optional<Misses> misses) {
  if (!machine_path.has_value()) {
    return StatedRates(misses.value_or(Misses::kRead));
  }
  TC_ASSIGN_OR_RETURN(const std::string text, os::ReadFile(*machine_path));
  TierRates rates;
  if (planner::IsStorageMachine(text)) {
    TC_ASSIGN_OR_RETURN(const auto machine,
                        planner::ParseStorageMachine(text, *machine_path));
    rates = RatesOfStorage(machine);
  } else {
    TC_ASSIGN_OR_RETURN(const auto machine,
                        device::ParseMachine(text, *machine_path));
    rates = RatesOfDevice(machine);
  }
  if (misses.value_or(rates.misses) == rates.misses) return rates;
  return Fail(ErrorCode::kInvalidArgument,
              "{}: is a machine with {}, where who misses is {}", *machine_path,
              rates.misses == Misses::kRead ? "storage" : "a device",
              rates.misses == Misses::kRead ? "read" : "computed");
}

}  // namespace thermocline::cli
