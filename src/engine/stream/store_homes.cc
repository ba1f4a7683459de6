// Which room of the pass area a StreamedStore has, and who of its neurons
// stays.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "engine/stream/streamed_store.h"

namespace thermocline::engine {
namespace {

// Who is to be resident before anything was used has a home at once, and comes
// when it is read for the first time: so nothing waits for gigabytes at the
// start of which half may not be used.
void GiveHomes(std::vector<uint32_t> initial, LayerHomes& layer) {
  if (layer.are_for_all) {
    std::iota(layer.homes.begin(), layer.homes.end(), layer.first_home);
    return;
  }
  TC_CHECK(initial.size() <= layer.num_homes);
  std::ranges::sort(initial);
  uint32_t next = layer.first_home;
  for (const uint32_t unit : initial) layer.homes[unit] = next++;
  layer.free.reserve(layer.num_homes);
  // Taken from the back: ascending.
  for (uint32_t slot = layer.first_home + layer.num_homes; slot > next;
       --slot) {
    layer.free.push_back(slot - 1);
  }
}

}  // namespace

LayerHomes& StreamedStore::HomesOf(const StreamedLayer& layer,
                                   StreamShared& shared) {
  if (layer.layer_idx < shared.layers.size()) {
    return *shared.layers[layer.layer_idx];
  }
  TC_CHECK(layer.layer_idx == shared.layers.size() && layer.expert_idx == 0);
  const ArenaPlan& plan = shared.arena.plan();
  const size_t num_units =
      layer.num_neurons * std::max<size_t>(layer.num_experts, 1);
  auto homes = std::make_unique<LayerHomes>();
  homes->first_home = plan.first_of(layer.layer_idx);
  homes->num_homes = plan.resident[layer.layer_idx];
  homes->are_for_all = homes->num_homes == num_units;
  homes->homes.assign(num_units, kAbsent);
  if (layer.num_experts > 0) {
    homes->used_words.resize(neuron::WordsOf(num_units));
  }
  GiveHomes(shared.live.Initial(layer.layer_idx), *homes);
  shared.layers.push_back(std::move(homes));
  return *shared.layers.back();
}

// Layers have theirs, so that the last layer's is never the one at hand.
// Experts have the one that was taken longest ago, of those that may be.
uint32_t StreamedStore::ChooseRoom() const {
  const std::vector<StreamedStore*>& owners = shared_.room_owners;
  const auto num_rooms = static_cast<uint32_t>(owners.size());
  if (num_rooms == 2 && !is_expert()) {
    return static_cast<uint32_t>(layer_.layer_idx % 2);
  }
  for (uint32_t i = 0; i < num_rooms; ++i) {
    const uint32_t room = shared_.next_room;
    shared_.next_room = (room + 1) % num_rooms;
    if (owners[room] == nullptr || !owners[room]->IsBusy()) return room;
  }
  TC_CHECK(false);  // no more are asked for together than there are rooms
  return 0;
}

void StreamedStore::TakeRoom() {
  if (room_ == kNoRoom) {
    room_ = ChooseRoom();
    StreamedStore*& owner = shared_.room_owners[room_];
    if (owner != nullptr) owner->LeaveRoom();
    owner = this;
    first_in_room_ = shared_.arena.plan().first_of_room(room_);
  } else if (is_expert() && shared_.next_room == room_) {
    // As if it had been taken now.
    shared_.next_room =
        (room_ + 1) % static_cast<uint32_t>(shared_.room_owners.size());
  }
  if (num_reading_ == 0) ranges().clear();
}

void StreamedStore::LeaveRoom() {
  TC_CHECK(!IsBusy());
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if (!IsInRoom(i)) continue;
    places_[i] = kAbsent;
    states_[i] = 0;
  }
  room_ = kNoRoom;
  room_has_all_ = false;
}

void StreamedStore::Learn() {
  if (has_home_for_all()) {
    if (!is_expert() || layer_homes_.is_together) {
      shared_.live.ObserveAllResident(used().Count());
    }
  } else if (!is_expert()) {
    LearnFrom(shared_, layer_.layer_idx, used());
  } else if (layer_homes_.is_together) {
    used().ForEachIn(0, layer_.num_neurons, [&](size_t neuron) {
      layer_homes_.used().Add(first_unit_ + neuron);
    });
  } else {
    FillHomes(/*of_used=*/true);
  }
}

void StreamedStore::LearnTogether(StreamShared& shared, size_t layer_idx) {
  LayerHomes& layer = *shared.layers[layer_idx];
  TC_CHECK(layer.is_together);
  layer.is_together = false;
  for (StreamedStore* store : layer.stores) store->is_held_ = false;
  if (layer.are_for_all) return;
  LearnFrom(shared, layer_idx, layer.used());
  layer.used().Clear();
}

void StreamedStore::LearnFrom(StreamShared& shared, size_t layer_idx,
                              const neuron::NeuronSet& used) {
  LayerHomes& layer = *shared.layers[layer_idx];
  const auto width = layer.stores.front()->layer_.num_neurons;
  LivePolicy& live = shared.live;
  DropLost(shared, layer_idx);
  live.Observe(layer_idx, used);
  used.ForEachIn(0, used.num_neurons, [&](size_t unit) {
    StreamedStore& store = *layer.stores[unit / width];
    const auto id = static_cast<uint32_t>(unit % width);
    if (store.IsAtHome(id)) return;
    // Of who rests the gate alone may be here: a read more, to keep somebody
    // that was not needed, is worth nothing. But which parts came depends on
    // how fast the drive is.
    if (live.is_deterministic() || store.Has(id, kBothParts)) {
      store.Admit(id, used);
    }
  });
  shared.times.is_idle = shared.queue.num_open() == 0;
  live.EndRun(layer_idx, shared.times);
  StartMoves(shared, layer_idx);
}

// What one row after the other has used is learned first; then whoever has a
// home in the end is moved there once. Of fewer rows than kLearnedRows policies
// learn less, of more no more; of their union nothing (docs/perf/residency.md).
void StreamedStore::LearnRows(size_t num_rows, const AddUsed& add_used) {
  TC_CHECK(!is_expert());
  if (has_home_for_all()) return;
  for (size_t row = num_rows - std::min(num_rows, kLearnedRows); row < num_rows;
       ++row) {
    used().Clear();
    add_used(row, used());
    shared_.live.Observe(layer_.layer_idx, used());
    used().ForEachIn(0, layer_.num_neurons, [&](size_t neuron) {
      const auto id = static_cast<uint32_t>(neuron);
      if (home(id) == kAbsent && Has(id, kBothParts)) GiveHome(id, used());
    });
  }
  FillHomes(/*of_used=*/false);
}

// A neuron that lies in the room, or comes home when it is next used.
void StreamedStore::Admit(uint32_t neuron, const neuron::NeuronSet& pinned) {
  if (home(neuron) == kAbsent && !GiveHome(neuron, pinned)) return;
  if (Has(neuron, kBothParts)) MoveHome(neuron);
}

// Whether the policy lets it have one.
bool StreamedStore::GiveHome(uint32_t neuron, const neuron::NeuronSet& pinned) {
  const residency::Policy::Answer answer =
      shared_.live.Admit(layer_.layer_idx, UnitOf(neuron), pinned);
  if (answer.is_admitted) TakeHome(neuron, answer.leaves);
  return answer.is_admitted;
}

void StreamedStore::TakeHome(uint32_t neuron, uint32_t leaves) {
  if (leaves == residency::kNobody) {
    TC_CHECK(!layer_homes_.free.empty());
    home(neuron) = layer_homes_.free.back();
    layer_homes_.free.pop_back();
    return;
  }
  const auto width = static_cast<uint32_t>(layer_.num_neurons);
  home(neuron) = layer_homes_.stores[leaves / width]->LoseHome(leaves % width);
  TC_CHECK(home(neuron) != kAbsent);
}

// The slot that was its home.
uint32_t StreamedStore::LoseHome(uint32_t neuron) {
  if (IsMoving(neuron)) {  // somebody writes there
    shared_.queue.WaitUntil([&] { return !IsMoving(neuron); });
  }
  if (IsAtHome(neuron)) {
    if (room_has_all_) {
      places_[neuron] = first_in_room_ + neuron;
    } else {
      places_[neuron] = kAbsent;
      states_[neuron] = 0;
    }
  }
  return std::exchange(home(neuron), kAbsent);
}

void StreamedStore::MoveHome(uint32_t neuron) {
  TC_DCHECK(IsInRoom(neuron));
  std::memcpy(shared_.arena.slot(home(neuron)),
              shared_.arena.slot(places_[neuron]), layer_.layout.stride);
  places_[neuron] = home(neuron);
}

// What computes all neurons does not tell who matters, but brings those who
// have a home, and others where there is room.
void StreamedStore::FillHomes(bool of_used) {
  const neuron::NeuronSet nobody;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    if ((of_used && !used().Has(i)) || IsAtHome(i) || !Has(i, kBothParts)) {
      continue;
    }
    if (home(i) != kAbsent || !layer_homes_.free.empty()) Admit(i, nobody);
  }
}

}  // namespace thermocline::engine
