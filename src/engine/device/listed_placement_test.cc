#include "engine/device/listed_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/sim/sim_device.h"
#include "device/sim/test_machine.h"
#include "engine/device/test_plans.h"

namespace thermocline::engine {
namespace {

using ::testing::HasSubstr;
using testing::OpenPlanned;
using testing::PlannedModel;

class ListedPlacement : public ::testing::Test {
 protected:
  PlacementRequest RequestFor(const PlannedModel& planned) const {
    return {.model = planned.model.get(),
            .choice = planned.choice,
            .layout = &device_->layout(),
            .context = 64,
            .num_kv_pages = 1,
            .vram = uint64_t{8} << 20};
  }
  std::shared_ptr<device::SimDevice> device_ =
      device::MakeSim(device::TestMachine(), {});
};

// What the planner places, listed, takes the same bytes.
TEST_F(ListedPlacement, TakesWhatThePlannersTakes) {
  for (const char* kind : {"dense", "exact", "fast", "mixture"}) {
    const PlannedModel planned = OpenPlanned(kind);
    ASSERT_NE(planned.model, nullptr);
    for (const uint64_t vram : {400u << 10, 900u << 10, 8u << 20}) {
      SCOPED_TRACE(std::string(kind) + " " + std::to_string(vram));
      PlacementRequest request = RequestFor(planned);
      request.vram = vram;
      const auto expected = PlanPlacement(request);
      ASSERT_TRUE(expected) << expected.error().message;
      const auto got = PlaceListed(
          request, {.layers = expected->layers, .head = expected->head});
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->device_bytes(), expected->device_bytes());
      EXPECT_EQ(got->kv_bytes, expected->kv_bytes);
      EXPECT_EQ(got->num_kv_pages, expected->num_kv_pages);
      EXPECT_EQ(got->pinned_bytes, expected->pinned_bytes);
    }
  }
}

// What crosses the link takes the host's memory; keys and values do not cross.
TEST_F(ListedPlacement, PutsTheRestOverTheLink) {
  for (const char* kind : {"dense", "transposed", "exact", "fast", "mixture"}) {
    SCOPED_TRACE(kind);
    const PlannedModel planned = OpenPlanned(kind);
    ASSERT_NE(planned.model, nullptr);
    const PlacementRequest request = RequestFor(planned);
    const auto all = PlanPlacement(request);
    ASSERT_TRUE(all) << all.error().message;
    for (const size_t num_there : {0, 1, 3, 4}) {
      const auto got = testing::PlaceOverLink(request, num_there);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->weight_bytes + got->record_bytes + got->linked_bytes,
                all->weight_bytes + all->record_bytes);
      EXPECT_EQ(got->kv_bytes, all->kv_bytes);
      EXPECT_EQ(got->lane_bytes, all->lane_bytes);
      EXPECT_EQ(got->pinned_bytes, all->pinned_bytes);
      EXPECT_EQ(got->linked_bytes == 0, num_there == 4);
      EXPECT_EQ(got->weight_bytes == 0, num_there == 0);
      EXPECT_EQ(got->head_over_link, num_there < 4);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(got->layers[i].over_link, i + num_there < 3);
        EXPECT_EQ(got->layers[i].resident, all->layers[i].resident);
        EXPECT_EQ(got->layers[i].experts, all->layers[i].experts);
      }
    }
    PlacementRequest small = request;
    small.vram = testing::PlaceOverLink(request, 0)->device_bytes();
    EXPECT_TRUE(testing::PlaceOverLink(small, 0));
    small.vram -= 1;
    const auto refused = testing::PlaceOverLink(small, 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  }
}

TEST_F(ListedPlacement, KeepsOnTheHostWhatCannotCross) {
  const PlannedModel fast = OpenPlanned("fast");
  ASSERT_NE(fast.model, nullptr);
  PlacementRequest request = RequestFor(fast);
  ListedParts parts = {.layers = std::vector<LayerPlacement>(3),
                       .rest_over_link = true};
  request.rules.tensors = {{.pattern = "blk.1.attn_q"}};
  auto placed = PlaceListed(request, parts);
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_FALSE(placed->layers[1].attention);
  EXPECT_TRUE(placed->layers[1].over_link && placed->layers[1].predictor);
  EXPECT_TRUE(placed->layers[0].attention);

  request.rules = {};
  const testing::LayoutWithout layout(DType::kF16);
  request.layout = &layout;
  placed = PlaceListed(request, parts);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(placed.error().message, HasSubstr("nothing of it can be"));

  request = RequestFor(fast);
  parts.layers[2].attention = true;
  placed = PlaceListed(request, parts);
  ASSERT_FALSE(placed);
  EXPECT_THAT(placed.error().message,
              HasSubstr("layer 2: part of it is on the device"));
}

TEST_F(ListedPlacement, NamesWhatIsWrong) {
  const PlannedModel exact = OpenPlanned("exact");
  ASSERT_NE(exact.model, nullptr);
  const uint32_t width =
      static_cast<uint32_t>(exact.model->config().layers[0].ffn.width);
  struct Case {
    LayerPlacement layer;
    const char* message;
  };
  const Case cases[] = {
      {{.resident = {width}}, "layer 1: neuron 160: there are 160"},
      {{.resident = {3, 3}}, "layer 1: neuron 3 behind 3: they are ascending"},
      {{.experts = {0}}, "layer 1: expert 0: there are 0"},
      {{.matrices = true}, "the FFN as matrices cannot be on this device"},
      {{.predictor = true}, "the predictor cannot be on this device"},
  };
  for (const Case& c : cases) {
    ListedParts parts = {.layers = std::vector<LayerPlacement>(3)};
    parts.layers[1] = c.layer;
    const auto placed = PlaceListed(RequestFor(exact), parts);
    ASSERT_FALSE(placed) << c.message;
    EXPECT_EQ(placed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(placed.error().message, HasSubstr(c.message));
  }
  const auto short_one = PlaceListed(
      RequestFor(exact), {.layers = std::vector<LayerPlacement>(2)});
  ASSERT_FALSE(short_one);
  EXPECT_THAT(short_one.error().message, HasSubstr("a plan of 2 layers"));
  PlacementRequest small = RequestFor(exact);
  small.vram = 1000;
  ListedParts one = {.layers = std::vector<LayerPlacement>(3)};
  one.layers[0].resident = {1};
  const auto too_much = PlaceListed(small, one);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thermocline::engine
