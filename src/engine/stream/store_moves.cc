// The part of a StreamedStore that reads in the background whom the policy
// proposes.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "engine/stream/streamed_store.h"

namespace thermocline::engine {
namespace {

// Reads that are submitted together.
constexpr size_t kMoveBatch = 64;

}  // namespace

void StreamedStore::StartMoves(StreamShared& shared, size_t layer_idx) {
  LayerHomes& layer = *shared.layers[layer_idx];
  const auto width =
      static_cast<uint32_t>(layer.stores.front()->layer_.num_neurons);
  std::array<storage::Read, kMoveBatch> batch;
  size_t num_batched = 0;
  for (const LivePolicy::Move& move :
       shared.live.Propose(layer_idx, layer.num_moving > 0)) {
    StreamedStore& store = *layer.stores[move.unit / width];
    store.TakeHome(move.unit % width, move.leaves);
    const std::optional<storage::Read> read =
        store.BeginMove(move.unit % width);
    if (!read) continue;
    batch[num_batched++] = *read;
    if (num_batched < kMoveBatch) continue;
    shared.queue.Submit(batch);
    num_batched = 0;
  }
  if (num_batched > 0) shared.queue.Submit(std::span(batch).first(num_batched));
}

std::optional<storage::Read> StreamedStore::BeginMove(uint32_t neuron) {
  if (Has(neuron, kBothParts)) {  // in the room, not admitted
    MoveHome(neuron);
    return std::nullopt;
  }
  if ((states_[neuron] & kBothParts << kReadsShift) != 0) return std::nullopt;
  places_[neuron] = home(neuron);
  states_[neuron] = kIsMoving;
  ++layer_homes_.num_moving;
  const size_t stride = layer_.layout.stride;
  ++shared_.counts.num_reads;
  shared_.counts.num_bytes += stride;
  shared_.counts.num_move_bytes += stride;
  return storage::Read{.file_idx = layer_.span.shard_idx,
                       .offset = layer_.span.offset + uint64_t{neuron} * stride,
                       .num_bytes = stride,
                       .to = shared_.arena.slot(home(neuron)),
                       .tag = ReadQueue::TagOf(owner_idx_, neuron | kMoveBit)};
}

void StreamedStore::OnMoved(uint32_t neuron, const Status& status) {
  --layer_homes_.num_moving;
  states_[neuron] &= static_cast<uint8_t>(~kIsMoving);
  if (status.has_value()) {
    OnPart(neuron, kBothParts);
    return;
  }
  places_[neuron] = kAbsent;
  layer_homes_.lost.push_back(UnitOf(neuron));
  if (!reads_whole_ && !IsAwaited(neuron)) return;
  // Somebody needs it by now: as if nobody had moved it.
  const storage::Read read = BeginRead({neuron, neuron, kBothParts});
  shared_.queue.Submit({&read, 1});
}

// Of moves that failed: unless they have come by another way.
void StreamedStore::DropLost(StreamShared& shared, size_t layer_idx) {
  LayerHomes& layer = *shared.layers[layer_idx];
  const auto width =
      static_cast<uint32_t>(layer.stores.front()->layer_.num_neurons);
  std::ranges::sort(layer.lost);
  for (const uint32_t unit : layer.lost) {
    const StreamedStore& store = *layer.stores[unit / width];
    const uint32_t neuron = unit % width;
    if (layer.homes[unit] == kAbsent || store.IsAtHome(neuron)) continue;
    shared.live.Drop(layer_idx, unit);
    layer.free.push_back(std::exchange(layer.homes[unit], kAbsent));
  }
  layer.lost.clear();
}

void StreamedStore::AwaitMoves() {
  if (layer_homes_.num_moving == 0) return;
  shared_.queue.WaitUntil([&] { return layer_homes_.num_moving == 0; });
}

void StreamedStore::CommitMoves(StreamShared& shared) {
  if (shared.live.is_deterministic()) {
    for (size_t i = 0; i < shared.layers.size(); ++i) {
      shared.layers[i]->stores.front()->AwaitMoves();
      DropLost(shared, i);
    }
  }
  shared.live.EndPass();
}

}  // namespace thermocline::engine
