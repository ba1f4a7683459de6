#include "device/sim/rate_ledger.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/check.h"

namespace thermocline::device {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of the capacity, of what is to be done: less is rounding.
constexpr double kRoundingShare = 1e-12;

}  // namespace

double RateLedger::FreeAt(double time) const {
  auto next = used_.upper_bound(time);
  const double used = next == used_.begin() ? 0.0 : std::prev(next)->second;
  const double left = capacity_ - used;
  return left <= capacity_ * kRoundingShare ? 0.0 : left;
}

double RateLedger::NextChange(double time) const {
  const auto next = used_.upper_bound(time);
  return next == used_.end() ? kNever : next->first;
}

void RateLedger::Split(double time) {
  const auto next = used_.upper_bound(time);
  const double used = next == used_.begin() ? 0.0 : std::prev(next)->second;
  used_.try_emplace(time, used);
}

void RateLedger::MergeAt(double time) {
  const auto at = used_.find(time);
  const double before = at == used_.begin() ? 0.0 : std::prev(at)->second;
  if (at->second == before) used_.erase(at);
}

void RateLedger::Take(double begin, double end, double rate) {
  if (!(begin < end)) return;
  Split(begin);
  Split(end);
  const auto last = used_.find(end);
  for (auto it = used_.find(begin); it != last; ++it) it->second += rate;
  MergeAt(end);
  MergeAt(begin);
}

void RateLedger::ForgetBefore(double time) {
  if (used_.empty() || used_.begin()->first >= time) return;
  Split(time);
  used_.erase(used_.begin(), used_.find(time));
}

Placed Place(double begin, double amount, double rate, RateLedger* lane,
             RateLedger* bus, std::vector<PlacedPiece>* pieces) {
  TC_CHECK(rate > 0.0);
  double time = begin, busy = 0.0;
  double left = amount;
  while (left > amount * kRoundingShare) {
    double free = rate;
    double next = kNever;
    if (lane != nullptr) {
      if (lane->FreeAt(time) == 0.0) free = 0.0;
      next = std::min(next, lane->NextChange(time));
    }
    if (bus != nullptr) {
      free = std::min(free, bus->FreeAt(time));
      next = std::min(next, bus->NextChange(time));
    }
    if (free == 0.0) {
      TC_CHECK(next < kNever);  // all that was taken ends
      time = next;
      continue;
    }
    const double done = time + left / free;
    const double end = std::min(done, next);
    if (lane != nullptr) lane->Take(time, end, lane->capacity());
    if (bus != nullptr) bus->Take(time, end, free);
    if (pieces != nullptr) {
      pieces->push_back({time, end, (end - time) * free});
    }
    left = done <= next ? 0.0 : left - (end - time) * free;
    busy += end - time;
    time = end;
  }
  return {.end = time, .busy = busy};
}

}  // namespace thermocline::device
