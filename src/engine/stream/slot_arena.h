// Memory for records that come and go: one block for all layers, cut into slots
// of a record each.
#ifndef THERMOCLINE_ENGINE_STREAM_SLOT_ARENA_H_
#define THERMOCLINE_ENGINE_STREAM_SLOT_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "os/memory.h"

namespace thermocline::engine {

// What the slots of a model's records are for. All slots have one size, where a
// record of any layer fits (smaller ones leave room).
//   [0, pass_slots)  the pass area, in rooms, each for all neurons of the
//   widest
//                    FFN, or expert: who has a room while it runs has slot i of
//                    it for its neuron i. Without experts there are two rooms,
//                    and layer l has room l % 2.
//   behind them      the resident slots, of each layer its own share. A layer
//                    that has one for each neuron keeps neuron i in slot i.
struct ArenaPlan {
  size_t slot_bytes = 0;  // a multiple of neuron::kRecordAlignment
  uint32_t pass_slots = 0;
  uint32_t num_rooms = 2;
  std::vector<uint32_t> resident;  // [L] slots of each layer

  uint64_t num_slots() const;
  uint64_t num_bytes() const { return num_slots() * slot_bytes; }
  uint32_t first_of_room(uint32_t room) const {
    return room * (pass_slots / num_rooms);
  }
  // The first resident slot of a layer.
  uint32_t first_of(size_t layer_idx) const;

  bool operator==(const ArenaPlan&) const = default;
};

// Two; in mixtures for a generated row's experts, and those of another row.
uint32_t NumRooms(const model::Config& config);

// The arena of a model with records that takes at most `room` bytes: of all its
// neurons, or of as many of each layer, by its width, as there is room for; but
// at least the pass area and one a layer.
// kUnsupported: no records. kResourceExhausted: more slots than can
// be numbered.
Result<ArenaPlan> PlanArena(const model::Config& config, uint64_t room);

// Anonymous memory of all slots, at a multiple of neuron::kStorageAlignment.
class SlotArena {
 public:
  // kResourceExhausted.
  static Result<SlotArena> Allocate(const ArenaPlan& plan);
  const ArenaPlan& plan() const { return plan_; }
  std::byte* base() const { return base_; }
  std::byte* slot(uint32_t idx) const {
    return base_ + size_t{idx} * plan_.slot_bytes;
  }
  // Of all slots.
  std::span<std::byte> memory() const { return {base_, plan_.num_bytes()}; }
  uint64_t num_bytes() const { return memory_.size(); }

 private:
  ArenaPlan plan_;
  os::AlignedBuffer memory_;
  std::byte* base_ = nullptr;
};

}  // namespace thermocline::engine

#endif  // THERMOCLINE_ENGINE_STREAM_SLOT_ARENA_H_
