#include "cuda_on_host/block.h"

#include <cstring>

namespace thermocline::cuda_on_host {
namespace {

// The meeting of `mask`; a fault where lanes wait under a mask that overlaps.
Meeting& FindMeeting(Warp& warp, unsigned mask) {
  Meeting* found = nullptr;
  for (auto& meeting : warp.meetings) {
    if (meeting->mask == mask) {
      found = meeting.get();
    } else if (meeting->here != 0 && (meeting->mask & mask & warp.live) != 0) {
      Fault(
          "lanes of a warp meet with masks that overlap but differ: %08x "
          "and %08x",
          mask, meeting->mask);
    }
  }
  if (found == nullptr) {
    warp.meetings.push_back(std::make_unique<Meeting>());
    found = warp.meetings.back().get();
    found->mask = mask;
  }
  return *found;
}

// Everyone is here. Only __syncwarp orders memory: shuffles and ballots hand
// over values and promise nothing else.
void Close(Warp& warp, unsigned warp_index, Meeting& meeting) {
  const unsigned here = meeting.here;
  meeting.exchanged[meeting.phase].present = here;
  meeting.here = 0;
  meeting.phase ^= 1;
  const bool orders = meeting.function == WarpFunction::kSync;
  if (orders) warp.epoch = NextEpoch(warp.epoch);
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((here >> lane & 1) == 0) continue;
    Thread& thread = *run_state.threads[warp_index * 32 + lane];
    if (orders) thread.warp_epoch = warp.epoch;
    if (thread.state == ThreadState::kInWarpFunction) Wake(thread);
  }
}

}  // namespace

bool SamePlace(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::strcmp(a.file_name(), b.file_name()) == 0;
}

void LeaveWarp(const Thread& thread) {
  const unsigned index = thread.lane.warp;
  Warp& warp = run_state.block.warps[index];
  warp.live &= ~(1u << thread.lane.lane);
  for (auto& meeting : warp.meetings) {
    if (meeting->here != 0 && meeting->here == (meeting->mask & warp.live)) {
      Close(warp, index, *meeting);
    }
  }
}

void Exchange(unsigned mask, WarpFunction function, const void* value,
              size_t bytes, Exchanged* out, const Place& place) {
  const unsigned lane = self->lane.lane, index = self->lane.warp;
  Warp& warp = run_state.block.warps[index];
  if ((mask >> lane & 1) == 0) {
    Fault("lane %u calls a warp function under a mask without it, %08x", lane,
          mask);
  }
  Meeting& meeting = FindMeeting(warp, mask);
  if (meeting.here == 0) {
    meeting.function = function;
    meeting.place = place;
  } else if (meeting.function != function || !SamePlace(meeting.place, place)) {
    Fault(
        "lanes of a warp meet in different warp functions, of lines %u and "
        "%u",
        unsigned{meeting.place.line()}, unsigned{place.line()});
  }
  Exchanged& exchanged = meeting.exchanged[meeting.phase];
  meeting.here |= 1u << lane;
  if (bytes != 0) std::memcpy(exchanged.values[lane], value, bytes);
  if (meeting.here == (mask & warp.live)) {
    Close(warp, index, meeting);
  } else {
    self->state = ThreadState::kInWarpFunction;
    self->place = place;
    LeaveThread();
  }
  if (out != nullptr) *out = exchanged;
}

void SyncWarp(unsigned mask, const Place& place) {
  if (IsDropped(place)) return;
  Exchange(mask, WarpFunction::kSync, nullptr, 0, nullptr, place);
}

}  // namespace thermocline::cuda_on_host
