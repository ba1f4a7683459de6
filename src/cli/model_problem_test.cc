#include "cli/model_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/planned_placement.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "device/sim/sim_device.h"
#include "engine/ffn/ffn_choice.h"
#include "gguf/writer.h"
#include "model/prepared_names.h"
#include "model/profile_file.h"
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

// A copy of a file with another profile; counts of layers that it lacks stay.
void WriteWithProfile(const gguf::File& file, const model::ProfileFile& profile,
                      const std::string& path) {
  const auto writer = gguf::Writer::Create(path, gguf::Container::kGguf,
                                           gguf::Writer::kMaxAlignment)
                          .value();
  for (const gguf::KeyValue& kv : file.metadata()) {
    if (kv.key == "general.alignment") continue;
    if (kv.key.starts_with("thermocline.profile.")) continue;
    ASSERT_TRUE(writer->AddKeyValue(kv));
  }
  for (const gguf::KeyValue& kv : model::ProfileKeys(profile)) {
    ASSERT_TRUE(writer->AddKeyValue(kv));
  }
  for (const gguf::TensorInfo& info : file.tensors()) {
    ASSERT_TRUE(writer->DeclareTensor(info.name, info.dtype, info.shape));
  }
  ASSERT_TRUE(writer->Start());
  for (const gguf::TensorInfo& info : file.tensors()) {
    std::span<const std::byte> data(info.data, info.num_bytes);
    for (size_t i = 0; i < profile.profile.layers.size(); ++i) {
      if (info.name !=
          model::prepared::OfLayer(i, model::prepared::kProfileCounts)) {
        continue;
      }
      data = std::as_bytes(std::span(profile.profile.layers[i].counts));
    }
    ASSERT_TRUE(writer->WriteTensorData(data));
  }
  ASSERT_TRUE(writer->Finish());
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

// Of a copy of the file, with that profile.
Result<planner::Problem> ProblemWith(const gguf::File& original,
                                     const model::ProfileFile& profile) {
  const std::string path = TempPath("changed.gguf");
  WriteWithProfile(original, profile, path);
  const auto model = model::Model::Open(path);
  std::remove(path.c_str());
  TC_RETURN_IF_ERROR(model);
  EXPECT_TRUE(HasProfile(**model));
  const auto sim = device::MakeSim(ReadTestMachine(), {.time_only = true});
  TC_ASSIGN_OR_RETURN(const Activity activity, ReadActivity(**model, {}));
  return ProblemOf({.model = model->get(),
                    .choice = {.mode = engine::FfnMode::kFast,
                               .predictor = engine::PredictorChoice::kTrained},
                    .layout = &sim->layout(),
                    .context = 64,
                    .num_kv_pages = 1,
                    .vram = uint64_t{8} << 20},
                   HardwareOf(ReadTestMachine(), (*model)->config()), activity);
}

// A file may say anything: of how many layers its profile is, that it is
// another's, or of no token.
TEST(ModelProblem, RefusesAProfileThatIsNone) {
  const std::string path = TempPath("profiled.gguf");
  ASSERT_EQ(
      RunMain({"synth", "--like", "tiny", "-t", "1", "-o", path}).exit_code, 0);
  const auto original = gguf::File::Open(path).value();
  const auto own = model::ReadProfile(*original).value();
  const auto problem = ProblemWith(*original, own);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_NEAR(problem->layers[1].neurons.frequency[5],
              own.profile.layers[1].counts[5] / 1e6, 1e-6);

  model::ProfileFile short_one = own;
  short_one.model.num_layers = 1;
  short_one.profile.layers.pop_back();
  model::ProfileFile others = own;
  ++others.model.hash;
  model::ProfileFile idle = own;
  for (neuron::LayerProfile& layer : idle.profile.layers) {
    layer = {.counts = std::vector<uint32_t>(layer.counts.size())};
  }
  for (const auto& [profile, message] :
       {std::pair(short_one, "its number of layers is 1, here it is 2"),
        std::pair(others, "for another model"),
        std::pair(idle, "in its profile of 0 tokens no neuron fired")}) {
    const auto refused = ProblemWith(*original, profile);
    ASSERT_FALSE(refused) << message;
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr(message));
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace thermocline::cli
