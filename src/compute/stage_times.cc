#include "compute/stage_times.h"

#include <algorithm>
#include <cmath>

namespace thermocline::compute {

std::string_view NameOf(Stage stage) {
  constexpr std::array<std::string_view, kNumStages> kNames = {
      "embed", "read",    "norm", "qkv",     "attend", "out",      "select",
      "route", "up+gate", "down", "neurons", "device", "residual", "head"};
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

StageTimeline::StageTimeline(Timeline* timeline)
    : timeline_(timeline),
      passes_(timeline->AddRow("host", "passes")),
      stages_(timeline->AddRow("host", "main")) {}

void StageTimeline::AddStage(Stage stage, double begin_s, uint64_t num_bytes,
                             uint64_t wait_ns) {
  const bool is_of_layer = stage != Stage::kEmbed && stage != Stage::kHead;
  Timeline::Span span = {
      .name = stage == Stage::kDevice ? "waiting" : NameOf(stage),
      .begin_s = begin_s,
      .end_s = Now(),
      .layer = is_of_layer ? layer_idx_ : -1};
  if (num_bytes > 0) span.num_bytes = num_bytes;
  // What threads wait is the wall's time.
  const double seconds = span.end_s - begin_s;
  if (!timeline_->is_virtual() && wait_ns > 0 && seconds > 0.0) {
    span.wait_share =
        std::min(static_cast<double>(wait_ns) / 1e9 / seconds, 1.0);
  }
  timeline_->Add(stages_, span);
}

void StageTimeline::AddPass(std::string_view name, int64_t number,
                            double begin_s) {
  timeline_->Add(
      passes_,
      {.name = name, .begin_s = begin_s, .end_s = Now(), .number = number});
  layer_idx_ = -1;
}

void ScopedStage::Begin() {
  // Where times are computed nobody works.
  if (pool_ != nullptr) before_ = pool_->counters();
  if (totals_ != nullptr) watch_.emplace();
  if (timeline_ != nullptr) begin_s_ = timeline_->Now();
}

void ScopedStage::AddSpan() {
  const uint64_t wait_ns =
      pool_ != nullptr ? pool_->counters().wait_ns - before_.wait_ns : 0;
  timeline_->AddStage(stage_, begin_s_, num_bytes_ + num_drawn_bytes_, wait_ns);
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
