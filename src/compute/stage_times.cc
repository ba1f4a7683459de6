#include "compute/stage_times.h"

#include <cmath>

namespace thermocline::compute {

std::string_view NameOf(Stage stage) {
  constexpr std::array<std::string_view, kNumStages> kNames = {
      "embed",   "norm", "qkv",     "attend", "out",      "select", "route",
      "up+gate", "down", "neurons", "device", "residual", "head"};
  return kNames[static_cast<size_t>(stage)];
}

StageTotals& StageTotals::operator+=(const StageTotals& other) {
  num_calls += other.num_calls;
  ns += other.ns;
  num_bytes += other.num_bytes;
  num_joins += other.num_joins;
  wait_ns += other.wait_ns;
  return *this;
}

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  for (size_t i = 0; i < kNumStages; ++i) stages[i] += other.stages[i];
  whole += other.whole;
  return *this;
}

void ScopedStage::Begin() {
  before_ = pool_->counters();
  watch_.emplace();
}

void ScopedStage::End() {
  totals_->ns += static_cast<uint64_t>(std::llround(watch_->Seconds() * 1e9));
  const os::PoolCounters now = pool_->counters();
  totals_->num_joins += now.num_joins - before_.num_joins;
  totals_->wait_ns += now.wait_ns - before_.wait_ns;
  totals_->num_bytes += num_bytes_;
  ++totals_->num_calls;
}

}  // namespace thermocline::compute
