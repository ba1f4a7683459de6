// How fast the tiers of a simulation are.
#ifndef THERMOCLINE_CLI_SIMULATE_RATES_H_
#define THERMOCLINE_CLI_SIMULATE_RATES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "residency/move_cost.h"

namespace thermocline::cli {

// Bytes a second.
struct TierRates {
  // Who misses: read from storage, or computed by the host where it lies.
  residency::Misses misses = residency::Misses::kRead;
  double fast = 0.0;  // of what is resident
  double slow = 0.0;  // of what is not
  double link = 0.0;  // of moves
  double sync = 0.0;  // seconds, of a layer with misses
  std::string name;   // for people

  // Of members of so many bytes; attention and what else a token computes
  // reads `dense_bytes` of the faster tier, in so many layers.
  residency::MoveRates Of(double member_bytes, double dense_bytes,
                          size_t num_layers) const;
};

// Of a machine's file: of docs/formats/machine.md with a device, whose memory
// is the faster tier, or one that `plan --save-machine` wrote, whose RAM is.
// Without a file stated rates: a drive of 2 GB/s below RAM of 25 GB/s, or RAM
// of 35 GB/s below a card's 554 GB/s over 12 GB/s (machines/rtx2080ti-ddr4).
// kInvalidArgument: a machine of the other kind; errors of reading it.
Result<TierRates> RatesOf(const std::optional<std::string>& machine_path,
                          std::optional<residency::Misses> misses);

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_SIMULATE_RATES_H_
