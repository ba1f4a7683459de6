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
