#include "engine/stream/streamed_store.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace thermocline::engine {
namespace {

neuron::RecordLayout WithStride(neuron::RecordLayout layout, size_t stride) {
  layout.stride = stride;
  return layout;
}

}  // namespace

StreamShared::StreamShared(SlotArena slots,
                           std::unique_ptr<storage::BlockReader> reader,
                           std::unique_ptr<residency::Policy> chosen,
                           std::vector<residency::LayerExtent> extents,
                           size_t most_neurons, StorageMode how, ReadPlan reads,
                           const LiveOptions& live_options)
    : arena(std::move(slots)),
      queue(std::move(reader)),
      live(std::move(chosen), std::move(extents), live_options, &counts),
      mode(how),
      plan(reads),
      room_owners(arena.plan().num_rooms),
      ranges(arena.plan().num_rooms),
      waiting(most_neurons),
      rest_waiting(most_neurons),
      used_words(neuron::WordsOf(most_neurons)),
      hint_words(neuron::WordsOf(most_neurons)) {
  missing.reserve(most_neurons);
  absent.reserve(most_neurons);
  rests.reserve(most_neurons);
  // A read for each part of each record at most, and one that failed before
  // anybody waited for it.
  for (std::vector<ReadRange>& list : ranges) list.reserve(3 * most_neurons);
}

std::unique_ptr<StreamedStore> StreamedStore::Make(StreamedLayer layer,
                                                   StreamShared* shared) {
  std::vector<uint32_t> places(layer.num_neurons, kAbsent);
  return std::unique_ptr<StreamedStore>(
      new StreamedStore(std::move(layer), shared, std::move(places)));
}

// Moving a vector keeps its elements where they are.
StreamedStore::StreamedStore(StreamedLayer layer, StreamShared* shared,
                             std::vector<uint32_t> places)
    : RecordStore(neuron::ViewRecords(
                      WithStride(layer.layout, shared->arena.plan().slot_bytes),
                      shared->arena.base(), shared->arena.plan().num_slots()),
                  places.data()),
      layer_(std::move(layer)),
      slot_layout_(WithStride(layer_.layout, shared->arena.plan().slot_bytes)),
      shared_(*shared),
      layer_homes_(HomesOf(layer_, *shared)),
      first_unit_(
          static_cast<uint32_t>(layer_.expert_idx * layer_.num_neurons)),
      places_(std::move(places)),
      states_(layer_.num_neurons),
      owner_idx_(shared->queue.Add(this)),
      first_bytes_(FirstBytes(layer_.layout, shared->plan.part_bytes)) {
  TC_CHECK(layer_homes_.stores.size() == layer_.expert_idx);
  layer_homes_.stores.push_back(this);
}

// Whether the first parts are read first. The matrix-level pipeline is made of
// them, whatever is faster.
bool StreamedStore::TestsGates(double open_share, size_t num_missing) const {
  if (first_bytes_ == 0 || open_share >= 1.0) return false;
  switch (shared_.mode) {
    case StorageMode::kMatrix:
      return true;
    case StorageMode::kCluster:
      return open_share <
             GateFirstBelow(shared_.plan, SingleShare(num_missing));
    case StorageMode::kWindow:
    case StorageMode::kMmap:
      return false;
  }
  return false;
}

// Of the missing records, those with nobody else so near that one read would
// bring both, if they lie at random.
double StreamedStore::SingleShare(size_t num_missing) const {
  const double missing = static_cast<double>(num_missing) /
                         static_cast<double>(layer_.num_neurons);
  const size_t num_near = 1 + shared_.plan.gap_bytes / layer_.layout.stride;
  return std::pow(1.0 - missing, static_cast<double>(num_near));
}

void StreamedStore::BeginTimes(StreamShared& shared) {
  shared.live.BeginRun();
  shared.times = {};
  shared.begun_at = shared.live.Now();
}

void StreamedStore::BeginTogether(StreamShared& shared, size_t layer_idx) {
  shared.layers[layer_idx]->is_together = true;
  BeginTimes(shared);
}

void StreamedStore::Request(const CutLists& cut, size_t num_shares) {
  TC_CHECK(!reads_whole_ && !any_missed_);
  if (shared_.hinted == this) shared_.hinted = nullptr;
  // Read early, or moved.
  if (num_reading_ > 0 || layer_homes_.num_moving > 0) shared_.queue.Poll();
  if (shared_.live.is_deterministic()) AwaitMoves();
  if (!layer_homes_.is_together) BeginTimes(shared_);
  const uint64_t bytes_before = shared_.counts.num_bytes;
  cut_ = cut;
  num_shares_ = num_shares;
  failed_.reset();
  ListMissing();
  tests_gates_ = TestsGates(cut.open_share, shared_.missing.size());
  any_missed_ = !shared_.missing.empty();
  is_held_ = layer_homes_.is_together;
  if (any_missed_) {
    TakeRoom();
    StartPieces();
    SubmitAbsent(tests_gates_ ? kFirstPart : kBothParts,
                 shared_.plan.longest_bytes, SIZE_MAX);
    SubmitRests();
    shared_.times.read_bytes += shared_.counts.num_bytes - bytes_before;
  } else {
    shares_.Start(cut.max_pieces, num_shares);
  }
  if (shared_.hinted == nullptr) return;
  // Behind what this layer needs.
  shared_.hinted->ReadEarly();
  shared_.hinted = nullptr;
}

void StreamedStore::ListMissing() {
  shared_.missing.clear();
  used().Clear();
  for (size_t t = 0; t < cut_.lists.size(); ++t) {
    if (t > 0 && cut_.lists[t] == cut_.lists[t - 1]) continue;
    for (size_t piece = 0; piece < cut_.num_pieces[t]; ++piece) {
      ListPiece(t, piece);
    }
  }
  shared_.counts.num_wanted += used().Count();
}

void StreamedStore::ListPiece(size_t token_idx, size_t piece) {
  for (const uint32_t neuron : cut_.PieceOf(token_idx, piece)) {
    used().Add(neuron);
    if (states_[neuron] == kBothParts) continue;
    if (shared_.waiting[neuron] == 0) CountMissing(neuron);
    if (Has(neuron, kBothParts)) continue;
    shared_.waiting[neuron] |= uint32_t{1} << piece;
  }
}

// Of those that are not there, or were read early.
void StreamedStore::CountMissing(uint32_t neuron) {
  ++shared_.counts.num_missed;
  if ((states_[neuron] & kWasEarly) != 0) {
    ++shared_.counts.num_early_used;
  }
  states_[neuron] &= static_cast<uint8_t>(~(kWasEarly | kWasAsked));
  if (!Has(neuron, kBothParts)) shared_.missing.push_back(neuron);
}

// Counts what pieces wait for, and lists what is to be read.
void StreamedStore::StartPieces() {
  const uint8_t parts = tests_gates_ ? kFirstPart : kBothParts;
  num_pending_.fill(0);
  untested_ = tests_ = ready_ = 0;
  shared_.absent.clear();
  shared_.rests.clear();
  for (const uint32_t neuron : shared_.missing) {
    const uint32_t pieces = shared_.waiting[neuron];
    if (tests_gates_) untested_ |= pieces;
    if (Has(neuron, parts)) continue;
    for (uint32_t bits = pieces; bits != 0; bits &= bits - 1) {
      ++num_pending_[static_cast<size_t>(std::countr_zero(bits))];
    }
    if (IsMoving(neuron)) continue;
    const int asked = states_[neuron] | states_[neuron] >> kReadsShift;
    if ((asked & kFirstPart) == 0) {
      shared_.absent.push_back(neuron);
    } else if ((asked & parts) != parts) {
      shared_.rests.push_back(neuron);
    }
  }
  std::ranges::sort(shared_.absent);
  num_untested_ = static_cast<size_t>(std::popcount(untested_));
  num_left_ = cut_.max_pieces;
  for (size_t piece = 0; piece < cut_.max_pieces; ++piece) {
    if (num_pending_[piece] == 0) OnPieceCame(piece);
  }
}

Status StreamedStore::Release() {
  if (any_missed_ || num_reading_ > 0) {
    shared_.queue.WaitUntil([&] { return num_reading_ == 0; });
    for (const uint32_t neuron : shared_.missing) {
      shared_.waiting[neuron] = shared_.rest_waiting[neuron] = 0;
    }
    // A read in vain may fail.
    const bool has_failed = any_missed_ && failed_.has_value();
    any_missed_ = false;
    if (has_failed) return tl::unexpected(*failed_);
  }
  // Of the next layer's more go to the device, for as long as nobody waits.
  shared_.queue.Poll();
  Learn();
  return {};
}

}  // namespace thermocline::engine
