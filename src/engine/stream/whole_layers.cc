// The part of a StreamedStore that reads a whole layer.
#include <cstring>

#include "base/check.h"
#include "engine/stream/streamed_store.h"

namespace thermocline::engine {
namespace {

constexpr size_t kWholeReadBytes = 1 << 20;

}  // namespace

void StreamedStore::EndPass() {
  if (shared_.hinted == this) shared_.hinted = nullptr;
  if (is_held_) {  // by a pass that failed
    is_held_ = layer_homes_.is_together = false;
    layer_homes_.used().Clear();
  }
  if (reads_whole_) {
    (void)SettleWhole();
  } else if (num_reading_ > 0) {
    shared_.queue.WaitUntil([&] { return num_reading_ == 0; });
  }
}

void StreamedStore::BeginWhole() {
  if (reads_whole_) return;
  TC_CHECK(!any_missed_);
  TakeRoom();
  failed_.reset();
  shared_.absent.clear();
  shared_.rests.clear();
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (Has(i, kBothParts) || IsMoving(i)) continue;
    const int asked = states_[i] | states_[i] >> kReadsShift;
    if ((asked & kFirstPart) == 0) {
      shared_.absent.push_back(i);
    } else if ((asked & kRestPart) == 0) {
      shared_.rests.push_back(i);
    }
  }
  shared_.counts.num_wanted += layer_.num_neurons;
  shared_.counts.num_missed += shared_.absent.size() + shared_.rests.size();
  reads_whole_ = true;
  SubmitAbsent(kBothParts, kWholeReadBytes, SIZE_MAX);
  SubmitRests();
}

// Waits for all reads, also for those that had begun early, and for moves.
Status StreamedStore::SettleWhole() {
  shared_.queue.WaitUntil(
      [&] { return num_reading_ == 0 && layer_homes_.num_moving == 0; });
  reads_whole_ = false;
  if (failed_) return tl::unexpected(*failed_);
  return {};
}

Status StreamedStore::FinishWhole(os::ThreadPool& pool) {
  TC_CHECK(reads_whole_);
  TC_RETURN_IF_ERROR(SettleWhole());
  if (has_home_for_all()) return {};
  CopyFromHomes(pool);
  room_has_all_ = true;
  FillHomes(/*of_used=*/false);
  return {};
}

const std::byte* StreamedStore::whole_base() const {
  return shared_.arena.slot(TargetOf(0));
}

void StreamedStore::CopyFromHomes(os::ThreadPool& pool) const {
  constexpr size_t kNeuronsPerPiece = 64;
  pool.ParallelFor(layer_.num_neurons, kNeuronsPerPiece,
                   [&](size_t begin, size_t end, int /*worker_idx*/) {
                     for (size_t i = begin; i < end; ++i) {
                       const auto neuron = static_cast<uint32_t>(i);
                       if (!IsAtHome(neuron)) continue;
                       std::memcpy(shared_.arena.slot(TargetOf(neuron)),
                                   shared_.arena.slot(places_[neuron]),
                                   layer_.layout.stride);
                     }
                   });
}

}  // namespace thermocline::engine
