// Draws what a simulated device does: a row for each stream, and one for each
// direction of the link.
#ifndef THERMOCLINE_DEVICE_SIM_SIM_TIMELINE_H_
#define THERMOCLINE_DEVICE_SIM_SIM_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/timeline.h"
#include "device/sim/rate_ledger.h"
#include "device/sim/virtual_time.h"

namespace thermocline::device {

// Times are the device's; it draws them behind what the timeline has already.
class SimTimeline {
 public:
  // Outlived by `timeline`. process: "sim0".
  SimTimeline(Timeline* timeline, std::string process, double origin_s);

  // What is done next: kCopy, "Gemv"; empty: nothing that takes time.
  void SetName(std::string_view name) { name_ = name; }
  // It was done in a stream, from when it could begin, so with its latency, and
  // the accounts went from `before` to `after`.
  void AddWork(size_t stream_idx, double begin, double end,
               const SimAccounts& before, const SimAccounts& after);
  // What it had of the link: pieces without others' between them are one.
  void AddCopy(SimLink link, std::span<const PlacedPiece> pieces,
               uint64_t num_bytes);

  static constexpr std::string_view kCopy = "copy";

 private:
  Timeline::Row StreamRow(size_t stream_idx);

  Timeline* timeline_;
  std::string process_;
  double origin_s_;
  std::string_view name_ = kCopy;
  Timeline::Row links_[2];
  std::vector<Timeline::Row> streams_;
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_SIM_TIMELINE_H_
