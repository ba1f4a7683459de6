#include "device/sim/virtual_time.h"

#include <algorithm>

#include "device/sim/sim_timeline.h"

namespace thermocline::device {

VirtualTime::VirtualTime(const Machine& machine)
    : machine_(machine),
      device_(machine.device_rate),
      up_(machine.up_rate),
      down_(machine.down_rate),
      bus_(machine.bus_rate) {}

double VirtualTime::CopyOver(SimLink link, RateLedger& lane, double rate,
                             double from, uint64_t num_bytes, double& seconds) {
  pieces_.clear();
  std::vector<PlacedPiece>* const pieces =
      timeline_ != nullptr ? &pieces_ : nullptr;
  // The latency holds the lane: small copies are slow one after another.
  const Placed latency = Place(std::max(from, now_), machine_.copy_latency, 1.0,
                               &lane, nullptr, pieces);
  for (PlacedPiece& piece : pieces_) piece.amount = 0.0;  // no bytes yet
  const Placed bytes = Place(latency.end, static_cast<double>(num_bytes), rate,
                             &lane, &bus_, pieces);
  seconds += latency.busy + bytes.busy;
  if (timeline_ != nullptr) timeline_->AddCopy(link, pieces_, num_bytes);
  return bytes.end;
}

double VirtualTime::CopyUp(double from, uint64_t num_bytes) {
  accounts_.up_bytes += num_bytes;
  return CopyOver(SimLink::kUp, up_, machine_.up_rate, from, num_bytes,
                  accounts_.up_seconds);
}

double VirtualTime::CopyDown(double from, uint64_t num_bytes) {
  accounts_.down_bytes += num_bytes;
  return CopyOver(SimLink::kDown, down_, machine_.down_rate, from, num_bytes,
                  accounts_.down_seconds);
}

double VirtualTime::CopyOnHost(double from, uint64_t num_bytes) {
  return Place(std::max(from, now_), 2.0 * static_cast<double>(num_bytes),
               machine_.pool_rate, nullptr, &bus_)
      .end;
}

double VirtualTime::Operate(double from, double latency,
                            const SimTraffic& traffic) {
  const double begin = std::max(from, now_) + latency;
  double end = begin;
  if (traffic.device_bytes > 0) {
    const Placed placed =
        Place(begin, static_cast<double>(traffic.device_bytes),
              machine_.device_rate, &device_, nullptr);
    end = placed.end;
    accounts_.device_seconds += placed.busy;
    accounts_.device_bytes += traffic.device_bytes;
  }
  if (traffic.up_bytes > 0)
    end = std::max(end, CopyUp(begin, traffic.up_bytes));
  if (traffic.down_bytes > 0) {
    end = std::max(end, CopyDown(begin, traffic.down_bytes));
  }
  return end;
}

void VirtualTime::HostWork(uint64_t num_bytes) {
  const double end = Place(now_, static_cast<double>(num_bytes),
                           machine_.pool_rate, nullptr, &bus_)
                         .end;
  accounts_.host_seconds += end - now_;
  accounts_.host_bytes += num_bytes;
  MoveTo(end);
}

void VirtualTime::HostSeconds(double seconds) {
  accounts_.host_seconds += seconds;
  MoveTo(now_ + seconds);
}

void VirtualTime::Synchronize(double time) {
  WaitUntil(std::max(time, now_) + machine_.sync_latency);
}

void VirtualTime::WaitUntil(double time) {
  if (time <= now_) return;
  accounts_.waiting_seconds += time - now_;
  MoveTo(time);
}

void VirtualTime::MoveTo(double time) {
  now_ = time;
  // Work begins at the host's clock or later.
  for (RateLedger* ledger : {&device_, &up_, &down_, &bus_}) {
    ledger->ForgetBefore(now_);
  }
}

}  // namespace thermocline::device
