#include "cli/planned_placement.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cli/test_files.h"
#include "device/sim/machine.h"
#include "device/sim/sim_device.h"
#include "engine/ffn/ffn_choice.h"

namespace thermocline::cli {
namespace {

const std::string kSlowHost =
    std::string(TC_SOURCE_DIR) + "/machines/slow-host.json";

// Machines that differ in one rate are told apart, and no rate is measured of
// one that states them.
TEST(PlannedPlacement, MachinesHaveNamesAndIdentities) {
  DeviceFlags flags = {.name = "sim", .machine = kSlowHost};
  const auto slow = PlanMachineOf(flags);
  ASSERT_TRUE(slow) << slow.error().message;
  EXPECT_EQ(slow->name, "Test card");
  flags.machine = std::string(TC_SOURCE_DIR) + "/machines/rtx4090-ddr5.json";
  const auto other = PlanMachineOf(flags);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_NE(slow->identity, other->identity);
  const auto model = model::Model::Open(kLlamaF16);
  ASSERT_TRUE(model);
  const auto hardware = other->hardware((*model)->config());
  ASSERT_TRUE(hardware) << hardware.error().message;
  EXPECT_EQ(hardware->device_rate,
            device::ReadMachine(*flags.machine).value().device_rate);
}

// Every method gives what the engine can carry out, within the budget, and says
// what it predicts.
TEST(PlannedPlacement, EveryMethodIsCarriedOut) {
  const auto inputs = PlanInputsOf({.name = "sim", .machine = kSlowHost});
  ASSERT_TRUE(inputs) << inputs.error().message;
  const auto model = model::Model::Open(kPowerInferLlama);
  ASSERT_TRUE(model);
  const auto sim = device::MakeSim(device::ReadMachine(kSlowHost).value(),
                                   {.time_only = true});
  const engine::PlacementRequest request = {
      .model = model->get(),
      .choice = engine::ChooseFfn((*model)->config(), engine::FfnMode::kAuto,
                                  engine::PredictorChoice::kAuto)
                    .value(),
      .layout = &sim->layout(),
      .context = 64,
      .num_kv_pages = 1,
      .vram = 2u << 20};
  for (const planner::MethodInfo& info : planner::Methods()) {
    SCOPED_TRACE(info.name);
    PlanMade made;
    const auto placed = PlaceBy(info.method, *inputs, &made)(request);
    if (!placed) {
      EXPECT_EQ(placed.error().code, ErrorCode::kUnsupported)
          << placed.error().message;
      continue;
    }
    EXPECT_LE(placed->device_bytes(), request.vram);
    EXPECT_EQ(placed->empty(), info.method == planner::Method::kAllHost);
    EXPECT_GT(made.named.seconds, 0.0);
  }
}

}  // namespace
}  // namespace thermocline::cli
