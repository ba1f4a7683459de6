#include "engine/device/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/remedy.h"
#include "engine/device/test_plans.h"

namespace thermocline::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LayoutWithout;
using testing::OpenPlanned;
using testing::PlannedModel;

constexpr size_t kAll = 1000;
const char* const kKinds[] = {"dense", "exact", "fast", "mixture"};

Result<Placement> Place(const PlannedModel& planned, uint64_t vram,
                        const PlacementRules& rules = {},
                        std::optional<DType> missing = std::nullopt) {
  const LayoutWithout layout(missing);
  return PlanPlacement({.model = planned.model.get(),
                        .choice = planned.choice,
                        .layout = &layout,
                        .context = 64,
                        .num_kv_pages = 4,
                        .vram = vram,
                        .rules = rules});
}

std::string Placed(const PlannedModel& planned, uint64_t vram,
                   const PlacementRules& rules = {}) {
  const auto placement = Place(planned, vram, rules);
  if (!placement) return placement.error().message;
  return Describe(*placement, planned.model->config());
}

// Whatever the budget: never above it, and what is left over holds none of the
// parts that are missing. More memory holds no less.
TEST(PlanPlacement, FillsEveryBudget) {
  for (const char* kind : kKinds) {
    SCOPED_TRACE(kind);
    const PlannedModel planned = OpenPlanned(kind);
    ASSERT_NE(planned.model, nullptr);
    const auto all = Place(planned, uint64_t{1} << 40);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_THAT(all->left_out, IsEmpty());
    const uint64_t most = all->device_bytes();
    uint64_t before = 0;
    uint64_t last = 0;
    for (uint64_t vram = 0; vram <= most; vram += most / 97) {
      const auto placement = Place(planned, vram);
      if (!placement) {
        EXPECT_EQ(placement.error().code, ErrorCode::kResourceExhausted);
        EXPECT_EQ(last, 0u) << "less memory held something";
        continue;
      }
      last = placement->device_bytes();
      EXPECT_LE(last, vram);
      const uint64_t held = last - placement->lane_bytes;
      // A larger part in the place of smaller ones leaves a rest at worst.
      EXPECT_GE(held + most / 4, before);
      before = held;
    }
    const auto exact = Place(planned, most);
    ASSERT_TRUE(exact);
    EXPECT_EQ(exact->device_bytes(), most);
    const auto one_less = Place(planned, most - 1);
    ASSERT_TRUE(one_less);
    EXPECT_LT(one_less->device_bytes(), most);
  }
}

TEST(PlanPlacement, WithoutRulesEverythingThatFitsIsThere) {
  const uint64_t plenty = uint64_t{1} << 40;
  EXPECT_EQ(Placed(OpenPlanned("dense"), plenty),
            "attention of 3 of 3 layers, FFNs of 3 of 3 layers, head");
  EXPECT_EQ(Placed(OpenPlanned("fast"), plenty),
            "attention of 3 of 3 layers, predictors of 3 of 3 layers, 100 % of "
            "the neurons, head");
  EXPECT_EQ(Placed(OpenPlanned("mixture"), plenty),
            "attention of 3 of 3 layers, 100 % of the experts, head");
}

TEST(PlanPlacement, RulesAreKept) {
  const uint64_t plenty = uint64_t{1} << 40;
  const PlannedModel dense = OpenPlanned("dense");
  const PlannedModel mixture = OpenPlanned("mixture");
  struct Case {
    const PlannedModel& planned;
    PlacementRules rules;
    const char* placed;
  };
  const Case cases[] = {
      {dense, {.num_layers = 0}, "nothing"},
      {dense,
       {.num_layers = 2},
       "attention of 2 of 3 layers, FFNs of 2 of 3 layers"},
      {dense,
       {.num_layers = kAll},
       "attention of 3 of 3 layers, FFNs of 3 of 3 layers, head"},
      {dense, {.tensors = {{".", false}}}, "nothing"},
      {dense, {.tensors = {{"attn|output", false}}}, "FFNs of 3 of 3 layers"},
      {dense,
       {.tensors = {{"blk.0.attn_q", true}}, .num_layers = 0},
       "attention of 1 of 3 layers"},
      {mixture,
       {.num_host_experts = 2, .num_layers = kAll},
       "attention of 3 of 3 layers, 33 % of the experts, head"},
      {mixture, {.num_host_experts = kAll}, "attention of 3 of 3 layers, head"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Placed(c.planned, plenty, c.rules), c.placed);
  }
  // The last layers.
  const auto placement = Place(dense, plenty, {.num_layers = 1});
  ASSERT_TRUE(placement);
  EXPECT_TRUE(placement->layers[2].attention && placement->layers[2].matrices);
}

// What is demanded comes before what is worth more.
TEST(PlanPlacement, DemandsComeFirst) {
  const PlannedModel dense = OpenPlanned("dense");
  const PlacementRules rules = {.tensors = {{"blk.0.attn_q", true}}};
  const auto alone =
      Place(dense, uint64_t{1} << 40,
            {.tensors = {{"blk.0.attn_q", true}}, .num_layers = 0});
  ASSERT_TRUE(alone);
  const auto placement = Place(dense, alone->device_bytes(), rules);
  ASSERT_TRUE(placement) << placement.error().message;
  EXPECT_TRUE(placement->layers[0].attention);
  EXPECT_FALSE(placement->head);
}

struct RefusalCase {
  const char* kind;
  PlacementRules rules;
  // The budget is that of these rules, and `less` less than it.
  PlacementRules fitting;
  uint64_t less;
  Remedy remedy;
  int64_t value;
  const char* message;
};

const RefusalCase kRefusals[] = {
    {"dense",
     {.num_layers = kAll},
     {.num_layers = kAll},
     1,
     Remedy::kDeviceLayers,
     3,
     "; 3 layers would fit"},
    {"dense",
     {.num_layers = kAll},
     {.num_layers = 1},
     0,
     Remedy::kDeviceLayers,
     1,
     "; 1 layer would fit"},
    {"exact",
     {.num_layers = 2},
     {.num_layers = 1},
     1,
     Remedy::kDeviceLayers,
     0,
     "; 0 layers would fit"},
    {"mixture",
     {.num_layers = kAll},
     {.num_host_experts = 2, .num_layers = kAll},
     0,
     Remedy::kHostExperts,
     2,
     "or all that is asked for but the experts of the first 2 layers"},
    // No number of layers would do.
    {"dense",
     {.tensors = {{"ffn", true}}, .num_layers = 1},
     {.tensors = {{"blk.0.ffn", true}}, .num_layers = 0},
     0,
     Remedy::kVram,
     0,
     "there are for it"},
    {"dense",
     {.tensors = {{"ffn", true}}},
     {.tensors = {{"blk.0.ffn", true}}, .num_layers = 0},
     0,
     Remedy::kVram,
     0,
     "more than the"},
};

TEST(PlanPlacement, DemandsThatDoNotFitAreRefusedWithWhatWould) {
  for (const RefusalCase& c : kRefusals) {
    SCOPED_TRACE(c.message);
    const PlannedModel planned = OpenPlanned(c.kind);
    ASSERT_NE(planned.model, nullptr);
    const auto fitting = Place(planned, uint64_t{1} << 40, c.fitting);
    ASSERT_TRUE(fitting) << fitting.error().message;
    const auto refused =
        Place(planned, fitting->device_bytes() - c.less, c.rules);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(refused.error().message, HasSubstr(c.message));
    EXPECT_EQ(refused.error().advice.remedy, c.remedy);
    EXPECT_EQ(refused.error().advice.value, c.value);
    if (c.remedy == Remedy::kDeviceLayers) {
      PlacementRules fewer = c.rules;
      fewer.num_layers = static_cast<size_t>(c.value);
      EXPECT_TRUE(Place(planned, fitting->device_bytes() - c.less, fewer));
    }
  }
}

TEST(PlanPlacement, TooSmallABudgetSaysTheLeast) {
  for (const char* kind : kKinds) {
    const PlannedModel planned = OpenPlanned(kind);
    ASSERT_NE(planned.model, nullptr);
    const auto refused = Place(planned, 100);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(refused.error().message,
                HasSubstr("a budget of 100 B of VRAM holds nothing of the "
                          "model: with the activations at least "));
  }
}

TEST(PlanPlacement, SaysWhyNothingCanBeThere) {
  const PlannedModel dense = OpenPlanned("dense");
  ASSERT_NE(dense.model, nullptr);
  const auto none = Place(dense, 1 << 30, {}, DType::kF16);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message,
              HasSubstr("nothing of it can be on the device: attention of "
                        "layers 0 to 2: the query matrix in F16"));
  const auto in_vain =
      Place(dense, 1 << 30, {.tensors = {{"norm", true}}, .num_layers = 1});
  ASSERT_TRUE(in_vain);
  EXPECT_THAT(in_vain->left_out, ElementsAre(HasSubstr("what \"norm\" names")));
  // The rules keep everything on the host: that is no error.
  const auto host = Place(dense, 1 << 30, {.num_layers = 0}, DType::kF16);
  ASSERT_TRUE(host);
  EXPECT_TRUE(host->empty());
}

}  // namespace
}  // namespace thermocline::engine
