// The clocks of a simulated machine. Nothing sleeps.
#ifndef THERMOCLINE_DEVICE_SIM_VIRTUAL_TIME_H_
#define THERMOCLINE_DEVICE_SIM_VIRTUAL_TIME_H_

#include <cstdint>
#include <vector>

#include "device/sim/machine.h"
#include "device/sim/rate_ledger.h"

namespace thermocline::device {

class SimTimeline;

enum class SimLink : uint8_t { kUp, kDown };

// Bytes that an operation moves, by where they lie.
struct SimTraffic {
  uint64_t device_bytes = 0;  // of the device's own memory, read and written
  uint64_t up_bytes = 0;      // of pinned memory, read
  uint64_t down_bytes = 0;    // of pinned memory, written

  friend bool operator==(const SimTraffic&, const SimTraffic&) = default;
};

// Sums since the device was made, of all that was enqueued, done or not yet.
struct SimAccounts {
  double device_seconds = 0.0;  // its memory was busy; launches are not
  double up_seconds = 0.0;      // the link was held, latencies too
  double down_seconds = 0.0;
  double host_seconds = 0.0;     // HostWork and HostSeconds
  double waiting_seconds = 0.0;  // the host stood in Synchronize and IsReached
  uint64_t device_bytes = 0;
  uint64_t up_bytes = 0;
  uint64_t down_bytes = 0;
  uint64_t host_bytes = 0;  // of HostWork, and of staging copies

  friend bool operator==(const SimAccounts&, const SimAccounts&) = default;
};

// The host's clock, and what it shares with the streams: the device's memory
// and each direction of the link serve one at a time, in gaps as they come; the
// host's DRAM bus is shared by the host's reads and the link. Who comes first
// has what it can take. The host's work is always last, since it ends before
// anything later is enqueued: it gets what copies leave of the bus.
class VirtualTime {
 public:
  explicit VirtualTime(const Machine& machine);

  // Told of what goes over the link; null: nobody. Outlives this.
  void set_timeline(SimTimeline* timeline) { timeline_ = timeline; }

  double now() const { return now_; }  // the host's clock
  const SimAccounts& accounts() const { return accounts_; }

  // Each places work that begins at `from` or now and returns when it ends.
  // An operation's latency keeps nobody else waiting; its parts of the device's
  // memory and of the link run side by side.
  double Operate(double from, double latency, const SimTraffic& traffic);
  double CopyUp(double from, uint64_t num_bytes);
  double CopyDown(double from, uint64_t num_bytes);
  // Within the host's memory, by nobody of the pool.
  double CopyOnHost(double from, uint64_t num_bytes);

  // Each moves the host's clock.
  void HostWork(uint64_t num_bytes);
  void HostSeconds(double seconds);
  // To `time` if that is later, and by what waiting costs.
  void Synchronize(double time);
  // To `time` if that is later.
  void WaitUntil(double time);

 private:
  double CopyOver(SimLink link, RateLedger& lane, double rate, double from,
                  uint64_t num_bytes, double& seconds);
  void MoveTo(double time);

  Machine machine_;
  double now_ = 0.0;
  RateLedger device_, up_, down_, bus_;
  SimAccounts accounts_;
  SimTimeline* timeline_ = nullptr;
  std::vector<PlacedPiece> pieces_;  // of the copy at hand
};

}  // namespace thermocline::device

#endif  // THERMOCLINE_DEVICE_SIM_VIRTUAL_TIME_H_
