// What a placement is predicted to cost: seconds per token, bytes of each tier.
#ifndef THERMOCLINE_PLANNER_COST_H_
#define THERMOCLINE_PLANNER_COST_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/problem.h"

namespace thermocline::planner {

// Bytes per token that are to be expected.
struct Traffic {
  double device = 0.0;  // of the device's memory
  double host = 0.0;    // read by the host's threads
  double up = 0.0;      // weights over the link

  Traffic& operator+=(const Traffic& other);
};

// A part, or an FFN, of a generated token.
struct StepCost {
  double seconds = 0.0;  // all of it
  // What each spends on its bytes; the FFN's run beside each other.
  double device_seconds = 0.0;
  double host_seconds = 0.0;
  double link_seconds = 0.0;
  Traffic traffic;
};

struct LayerCost {
  StepCost attention, predictor, ffn;
  uint64_t device_bytes = 0;  // taken there
  // Of the bytes that the FFN's neurons or experts are expected to read on the
  // host, were all there, those whose neurons lie on the device; 0 to 1.
  double share_there = 0.0;

  double seconds() const {
    return attention.seconds + predictor.seconds + ffn.seconds;
  }
};

struct Cost {
  std::vector<LayerCost> layers;  // [L]
  StepCost head;
  double seconds = 0.0;       // per token
  uint64_t device_bytes = 0;  // taken there, in whole pieces
  Traffic traffic;

  double tokens_per_s() const { return seconds > 0.0 ? 1.0 / seconds : 0.0; }
};

// What an FFN takes of which anything lies on the device, or nothing, with the
// bytes that each reads.
inline double FfnSeconds(const Hardware& hardware, bool is_there,
                         double device_read, double host_read,
                         double host_lead_seconds) {
  const double host = host_read / hardware.host_rate;
  if (!is_there) return host;
  const double device =
      device_read / hardware.device_rate + hardware.launch_seconds;
  return std::max(device, host + host_lead_seconds) + hardware.sync_seconds;
}

// What a part takes that lies on the device, or does not.
inline double PartSeconds(const Hardware& hardware, bool is_there,
                          const Part& part) {
  if (!part.exists()) return 0.0;
  if (!is_there) return part.host_read / hardware.host_rate;
  return part.device_read / hardware.device_rate + hardware.launch_seconds +
         hardware.sync_seconds - part.hidden_seconds;
}

// Of the stepped schemes: a part on the host takes its bytes / host_rate; on
// the device bytes / device_rate + launch_seconds + sync_seconds -
// hidden_seconds; an FFN of which anything is there the slower of the two, each
// with the bytes to be expected, the device's with launch_seconds, the host's
// with host_lead_seconds, + sync_seconds. Expectations are taken before the
// slower is: what varies from token to token costs more than this says, most of
// all with few experts. Of kStream and kFetch also what does not lie on the
// device is computed there, unless its rule is kHost: it takes what a part
// there takes, but that its weights' bytes come at the rate of the link, which
// has no more than the bus, with copy_seconds. Nothing crosses ahead of its
// turn. Requires a placement of this problem (CheckPlacement); the budget is
// not asked.
Cost PredictCost(const Problem& problem, const Placement& placement);

// Bytes that the placement takes on the device: of kStream and kFetch with the
// keys and values of what crosses the link. The same requirement.
uint64_t DeviceBytes(const Problem& problem, const Placement& placement);

// A placement of nothing: all on the host.
Placement AllOnHost(const Problem& problem);

}  // namespace thermocline::planner

#endif  // THERMOCLINE_PLANNER_COST_H_
