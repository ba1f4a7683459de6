#include "cli/model_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/units.h"
#include "cli/planned_placement.h"
#include "cli/test_files.h"
#include "device/sim/sim_device.h"
#include "engine/ffn/ffn_choice.h"
#include "planner/check.h"
#include "planner/named.h"
#include "planner/native.h"

namespace thermocline::cli {
namespace {

device::Machine ReadTestMachine() {
  return device::ReadMachine(std::string(TC_SOURCE_DIR) +
                             "/machines/rtx4090-ddr5.json")
      .value();
}

// The same of layers that lie there whole beside others over the link.
void ExpectSameOverLink(engine::PlacementRequest request) {
  const bool is_dense = request.choice.mode == engine::FfnMode::kDense;
  const auto problem =
      ProblemOf(request, HardwareOf(ReadTestMachine(), request.model->config()),
                Activity());
  ASSERT_TRUE(problem) << problem.error().message;
  const auto linked = planner::PlaceByMethod(
      *problem,
      is_dense ? planner::Method::kStreamDense : planner::Method::kFetchActive);
  ASSERT_TRUE(linked) << linked.error().message;
  const auto placed = PlaceListed(request, PartsOf(linked->placement));
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_LE(placed->device_bytes(), request.vram);
  EXPECT_EQ(placed->device_bytes() - placed->lane_bytes,
            planner::DeviceBytes(*problem, linked->placement));
  EXPECT_EQ(placed->linked_bytes == 0, linked->placement.head);
}

// What the planner counts is what the engine takes: never more than the budget,
// and nearly all of it where there is more to place.
TEST(ModelProblem, CountsTheEnginesBytes) {
  const auto sim = device::MakeSim(ReadTestMachine(), {.time_only = true});
  for (const std::string& path : {kPowerInferLlama, kLlamaF16, kBamboo}) {
    SCOPED_TRACE(path);
    const auto model = model::Model::Open(path);
    ASSERT_TRUE(model) << model.error().message;
    const auto choice =
        engine::ChooseFfn((*model)->config(), engine::FfnMode::kAuto,
                          engine::PredictorChoice::kAuto);
    ASSERT_TRUE(choice);
    engine::PlacementRequest request = {.model = model->get(),
                                        .choice = *choice,
                                        .layout = &sim->layout(),
                                        .context = 64,
                                        .num_kv_pages = 1};
    for (const uint64_t vram : {700u << 10, 1u << 20, 64u << 20}) {
      request.vram = vram;
      const auto problem =
          ProblemOf(request, HardwareOf(ReadTestMachine(), (*model)->config()),
                    Activity());
      ASSERT_TRUE(problem) << problem.error().message;
      ASSERT_TRUE(planner::CheckProblem(*problem));
      const auto solved = planner::SolveNative(*problem);
      ASSERT_TRUE(solved) << solved.error().message;
      const auto placed = PlaceListed(request, PartsOf(solved->placement));
      ASSERT_TRUE(placed) << placed.error().message;
      EXPECT_LE(placed->device_bytes(), vram);
      EXPECT_EQ(placed->device_bytes() - placed->lane_bytes,
                planner::DeviceBytes(*problem, solved->placement));
      ExpectSameOverLink(request);
    }
  }
}

TEST(ModelProblem, RefusesABudgetBelowTheActivations) {
  const auto sim = device::MakeSim(ReadTestMachine(), {.time_only = true});
  const auto model = model::Model::Open(kLlamaF16);
  ASSERT_TRUE(model);
  const auto problem =
      ProblemOf({.model = model->get(),
                 .layout = &sim->layout(),
                 .context = 64,
                 .num_kv_pages = 1,
                 .vram = 100},
                HardwareOf(ReadTestMachine(), (*model)->config()), Activity());
  ASSERT_FALSE(problem);
  EXPECT_EQ(problem.error().code, ErrorCode::kResourceExhausted);
}

// The message has the least budget that does.
TEST(ModelProblem, OfTheLeastBudgetHoldsAPart) {
  const auto sim = device::MakeSim(ReadTestMachine(), {.time_only = true});
  const auto model = model::Model::Open(kLlamaF16).value();
  const auto problem_of = [&](uint64_t vram) {
    return ProblemOf({.model = model.get(),
                      .layout = &sim->layout(),
                      .context = 64,
                      .num_kv_pages = 1,
                      .vram = vram},
                     HardwareOf(ReadTestMachine(), model->config()),
                     Activity());
  };
  uint64_t low = 0;
  uint64_t high = uint64_t{64} << 20;
  while (low + 1 < high) {
    const uint64_t middle = std::midpoint(low, high);
    (problem_of(middle) ? high : low) = middle;
  }
  EXPECT_THAT(problem_of(low).error().message,
              ::testing::HasSubstr("the least that holds anything is " +
                                   FormatBytes(high)));
  EXPECT_GE(problem_of(high)->budget, planner::kPieceBytes);
}

}  // namespace
}  // namespace thermocline::cli
