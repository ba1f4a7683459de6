#include "engine/stream/slot_arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "neuron/record.h"

namespace thermocline::engine {
namespace {

Status CheckStreams(const model::Config& config) {
  if (config.records.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "only FFNs that a prepared file has as records can stay there");
  }
  return {};
}

// As many of `total` as `part` is of `whole`.
uint64_t Share(uint64_t total, uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(total) * part /
                               whole);
}

// One for each layer, then the rest by the layers' widths.
std::vector<uint32_t> ShareOut(uint64_t num_slots,
                               const std::vector<uint64_t>& widths) {
  const uint64_t num_layers = widths.size();
  const uint64_t num_more =
      std::accumulate(widths.begin(), widths.end(), uint64_t{0}) - num_layers;
  uint64_t left = num_slots - num_layers;
  const uint64_t total = left;
  std::vector<uint32_t> shares;
  for (const uint64_t width : widths) {
    const uint64_t share = Share(total, width - 1, num_more);
    shares.push_back(static_cast<uint32_t>(1 + share));
    left -= share;
  }
  for (size_t i = 0; i < widths.size() && left > 0; ++i) {
    if (shares[i] == widths[i]) continue;
    ++shares[i];
    --left;
  }
  return shares;
}

}  // namespace

uint32_t NumRooms(const model::Config& config) {
  size_t num_rooms = 2;
  for (const model::LayerSpec& layer : config.layers) {
    num_rooms = std::max(num_rooms, std::min(2 * layer.ffn.num_experts_used,
                                             layer.ffn.num_experts));
  }
  return static_cast<uint32_t>(num_rooms);
}

uint64_t ArenaPlan::num_slots() const {
  return std::accumulate(resident.begin(), resident.end(),
                         uint64_t{pass_slots});
}

uint32_t ArenaPlan::first_of(size_t layer_idx) const {
  return std::accumulate(
      resident.begin(),
      resident.begin() + static_cast<std::ptrdiff_t>(layer_idx), pass_slots);
}

Result<ArenaPlan> PlanArena(const model::Config& config, uint64_t room) {
  TC_RETURN_IF_ERROR(CheckStreams(config));
  ArenaPlan plan;
  std::vector<uint64_t> widths;
  uint64_t num_neurons = 0;
  for (const model::LayerSpec& layer : config.layers) {
    widths.push_back(NumNeurons(layer.ffn));
    num_neurons += widths.back();
  }
  for (const neuron::RecordLayout& layout : config.records) {
    plan.slot_bytes = std::max(plan.slot_bytes, layout.stride);
  }
  plan.num_rooms = NumRooms(config);
  const uint64_t pass_slots = plan.num_rooms * model::MaxFfnWidth(config);
  if (num_neurons + pass_slots > std::numeric_limits<uint32_t>::max() / 2) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} neurons are more than can be numbered", num_neurons);
  }
  plan.pass_slots = static_cast<uint32_t>(pass_slots);
  const uint64_t num_slots =
      std::clamp(room / plan.slot_bytes, pass_slots + widths.size(),
                 pass_slots + num_neurons);
  plan.resident = ShareOut(num_slots - pass_slots, widths);
  return plan;
}

Result<SlotArena> SlotArena::Allocate(const ArenaPlan& plan) {
  // Smaller buffers are aligned to less.
  constexpr size_t kSlack = neuron::kStorageAlignment - 1;
  SlotArena arena;
  arena.plan_ = plan;
  const size_t slack = plan.num_bytes() < (size_t{1} << 20) ? kSlack : 0;
  TC_ASSIGN_OR_RETURN(arena.memory_,
                      os::AlignedBuffer::Allocate(plan.num_bytes() + slack));
  std::byte* const data = arena.memory_.data();
  arena.base_ =
      data + (-reinterpret_cast<uintptr_t>(data) & (slack > 0 ? kSlack : 0));
  TC_CHECK(reinterpret_cast<uintptr_t>(arena.base_) %
               neuron::kStorageAlignment ==
           0);
  return arena;
}

}  // namespace thermocline::engine
