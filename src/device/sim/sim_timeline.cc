#include "device/sim/sim_timeline.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace thermocline::device {

SimTimeline::SimTimeline(Timeline* timeline, std::string process,
                         double origin_s)
    : timeline_(timeline),
      process_(std::move(process)),
      origin_s_(origin_s),
      links_{timeline->AddRow(process_, "link up"),
             timeline->AddRow(process_, "link down")} {}

Timeline::Row SimTimeline::StreamRow(size_t stream_idx) {
  while (streams_.size() <= stream_idx) {
    streams_.push_back(
        timeline_->AddRow(process_, fmt::format("stream {}", streams_.size())));
  }
  return streams_[stream_idx];
}

void SimTimeline::AddWork(size_t stream_idx, double begin, double end,
                          const SimAccounts& before, const SimAccounts& after) {
  if (name_.empty()) return;
  const uint64_t up = after.up_bytes - before.up_bytes;
  const uint64_t down = after.down_bytes - before.down_bytes;
  const uint64_t num_bytes =
      after.device_bytes - before.device_bytes + up + down;
  Timeline::Span span = {
      .name = name_, .begin_s = origin_s_ + begin, .end_s = origin_s_ + end};
  if (name_ == kCopy && up > 0) span.name = "copy up";
  if (name_ == kCopy && down > 0) span.name = "copy down";
  if (num_bytes > 0) span.num_bytes = num_bytes;
  timeline_->Add(StreamRow(stream_idx), span);
}

void SimTimeline::AddCopy(SimLink link, std::span<const PlacedPiece> pieces,
                          uint64_t num_bytes) {
  double amount = 0.0;  // up to the piece at hand
  uint64_t told = 0;
  for (size_t i = 0; i < pieces.size();) {
    const double begin = pieces[i].begin;
    double end = begin;
    for (; i < pieces.size() && pieces[i].begin <= end; ++i) {
      end = pieces[i].end;
      amount += pieces[i].amount;
    }
    // Whole bytes, which add up to those of the copy.
    const bool is_last = i == pieces.size();
    const uint64_t until =
        is_last ? num_bytes : static_cast<uint64_t>(std::floor(amount));
    timeline_->Add(links_[static_cast<size_t>(link)],
                   {.name = name_,
                    .begin_s = origin_s_ + begin,
                    .end_s = origin_s_ + end,
                    .num_bytes = until - told});
    told = until;
  }
}

}  // namespace thermocline::device
