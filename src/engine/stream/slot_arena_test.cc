#include "engine/stream/slot_arena.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "neuron/record.h"

namespace thermocline::engine {
namespace {

model::Config ArenaConfig(const std::vector<size_t>& widths,
                          const std::vector<size_t>& strides) {
  model::Config config;
  for (const size_t width : widths) {
    config.layers.emplace_back().ffn.width = width;
  }
  for (const size_t stride : strides) {
    config.records.emplace_back().stride = stride;
  }
  config.num_layers = static_cast<int64_t>(widths.size());
  return config;
}

struct ArenaCase {
  const char* name;
  std::vector<size_t> widths;
  uint64_t room;  // in slots of 4096 bytes
  std::vector<uint32_t> resident;
};

TEST(PlanArenaTest, GivesLayersTheirShares) {
  const ArenaCase cases[] = {
      {"no room: the least", {100, 100}, 0, {1, 1}},
      {"the least", {100, 100}, 202, {1, 1}},
      {"half", {100, 100}, 300, {50, 50}},
      {"an odd one goes to the first", {100, 100}, 301, {51, 50}},
      {"all", {100, 100}, 400, {100, 100}},
      {"never more", {100, 100}, 100'000, {100, 100}},
      {"by width", {41, 21}, 82 + 2 + 30, {21, 11}},
      {"a layer of one neuron", {100, 1}, 200 + 51, {50, 1}},
  };
  for (const ArenaCase& c : cases) {
    SCOPED_TRACE(c.name);
    const auto plan = PlanArena(
        ArenaConfig(c.widths, std::vector<size_t>(c.widths.size(), 4096)),
        c.room * 4096 + 4095);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->slot_bytes, 4096u);
    EXPECT_EQ(plan->pass_slots,
              2 * *std::max_element(c.widths.begin(), c.widths.end()));
    EXPECT_EQ(plan->resident, c.resident);
    EXPECT_EQ(plan->first_of(1), plan->pass_slots + c.resident[0]);
  }
}

TEST(PlanArenaTest, SlotsHoldTheLargestRecord) {
  const auto plan = PlanArena(ArenaConfig({8, 8}, {64, 192}), 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->slot_bytes, 192u);
}

TEST(PlanArenaTest, RefusesWhatCannotStream) {
  const auto plain = PlanArena(ArenaConfig({8}, {}), 1 << 20);
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().code, ErrorCode::kUnsupported);
}

// A mixture's slots are of all its experts' neurons, its rooms of an expert's.
TEST(PlanArenaTest, ExpertsHaveRoomsOfTheirOwn) {
  struct Mixture {
    size_t num_experts, num_used;
    uint32_t num_rooms;
  };
  for (const Mixture& c : {Mixture{8, 2, 4}, {4, 3, 4}, {6, 1, 2}}) {
    model::Config config = ArenaConfig({10, 10}, {64, 64});
    for (model::LayerSpec& layer : config.layers) {
      layer.ffn.num_experts = c.num_experts;
      layer.ffn.num_experts_used = c.num_used;
    }
    const auto all = PlanArena(config, 1 << 20);
    ASSERT_TRUE(all) << all.error().message;
    const auto width = static_cast<uint32_t>(10 * c.num_experts);
    EXPECT_EQ(all->resident, (std::vector<uint32_t>{width, width}));
    EXPECT_EQ(all->num_rooms, c.num_rooms);
    EXPECT_EQ(all->pass_slots, 10 * c.num_rooms);
    EXPECT_EQ(all->first_of_room(1), 10u);
  }
}

TEST(SlotArenaTest, IsAlignedForDevices) {
  for (const uint32_t count : {3u, 3000u}) {
    const ArenaPlan plan = {
        .slot_bytes = 192, .pass_slots = count, .resident = {count, count}};
    const auto arena = SlotArena::Allocate(plan);
    ASSERT_TRUE(arena);
    const auto address = reinterpret_cast<uintptr_t>(arena->base());
    EXPECT_EQ(address % neuron::kStorageAlignment, 0u);
    EXPECT_EQ(arena->slot(2 * count) - arena->base(), 2 * count * 192);
    arena->slot(3 * count - 1)[191] = std::byte{1};
  }
}

}  // namespace
}  // namespace thermocline::engine
