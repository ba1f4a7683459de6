#include "engine/stream/move_budget.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace thermocline::engine {
namespace {

// Of a new time, in the mean of all.
constexpr double kNewShare = 0.125;
// Behind the last layer somebody may think about what to ask next.
constexpr double kLongestWindow = 0.02;
// Of a window: times vary, and what comes too late makes the next layer wait.
constexpr double kUsedShare = 0.5;

void Mix(double value, double& mean) { mean += kNewShare * (value - mean); }

}  // namespace

void MoveBudget::BeginRun(double now) {
  if (!last_) return;
  const double window = std::min(now - last_->at, kLongestWindow);
  Mix(last_->is_idle ? window : 0.0, windows_[last_->layer_idx]);
  last_.reset();
}

void MoveBudget::EndRun(size_t layer_idx, double now, uint64_t read_bytes,
                        double read_seconds, bool is_idle) {
  TC_CHECK(layer_idx < windows_.size());
  if (read_bytes > 0 && read_seconds > 0.0) {
    const double rate = static_cast<double>(read_bytes) / read_seconds;
    if (bytes_per_s_ == 0.0) bytes_per_s_ = rate;
    Mix(rate, bytes_per_s_);
  }
  last_ = End{layer_idx, now, is_idle};
}

uint64_t MoveBudget::Take(size_t layer_idx, size_t unit_bytes) {
  TC_CHECK(layer_idx < windows_.size() && unit_bytes > 0);
  const double rate = kUsedShare * bytes_per_s_;
  // A pass's at most, but always enough for one unit in the end.
  const double most =
      rate * std::accumulate(windows_.begin(), windows_.end(), 0.0) +
      static_cast<double>(unit_bytes);
  credit_ = std::min(credit_ + rate * windows_[layer_idx], most);
  const auto count =
      static_cast<uint64_t>(credit_ / static_cast<double>(unit_bytes));
  credit_ -= static_cast<double>(count * unit_bytes);
  return count;
}

}  // namespace thermocline::engine
