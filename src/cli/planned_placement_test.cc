#include "cli/planned_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_problem.h"
#include "cli/test_files.h"
#include "cli/test_main.h"
#include "device/sim/machine.h"
#include "device/sim/sim_device.h"
#include "engine/ffn/ffn_choice.h"
#include "engine/runtime.h"
#include "model/test_split.h"

namespace thermocline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kPlannedVram = uint64_t{4} << 20;

DeviceFlags SimFlags() {
  return {
      .name = "sim",
      .vrams = {kPlannedVram},
      .machine = std::string(TC_SOURCE_DIR) + "/machines/rtx4090-ddr5.json"};
}

// A model, a simulated device, and a plan for both in a file.
class PlannedPlacement : public ::testing::Test {
 protected:
  PlannedPlacement()
      : path_(TempPath("planned.json")),
        model_(model::Model::Open(kPowerInferLlama).value()) {
    const PlanInputs inputs = PlanInputsOf(SimFlags()).value();
    engine::SessionOptions options = Options(SimFlags());
    const PlaceFunction solve =
        PlaceBy(planner::Method::kAllDevice, inputs, &made_);
    options.place = [&](const engine::PlacementRequest& request) {
      auto placement = solve(request);
      if (placement) plan_ = PlanFileOf(made_, request, inputs.machine.name);
      return placement;
    };
    const auto runtime = engine::PlanRuntime(*model_, options);
    EXPECT_TRUE(runtime) << runtime.error().message;
    text_ = planner::FormatPlan(plan_);
  }
  ~PlannedPlacement() override { std::remove(path_.c_str()); }

  static engine::SessionOptions Options(const DeviceFlags& flags) {
    engine::SessionOptions options = {.context = 64};
    options.device = OpenDevice(flags).value();
    options.budget.vram = flags.vram();
    return options;
  }

  // What becomes of a session with the file's plan.
  Result<engine::RuntimePlan> Plan(
      const std::string& text, DeviceFlags flags = SimFlags(),
      engine::FfnMode mode = engine::FfnMode::kAuto,
      std::shared_ptr<const model::Model> model = nullptr) {
    std::ofstream(path_) << text;
    flags.plan_path = path_;
    engine::SessionOptions options = Options(flags);
    options.ffn = mode;
    TC_RETURN_IF_ERROR(UsePlan(flags, options));
    return engine::PlanRuntime(model ? *model : *model_, options);
  }

  template <typename Matcher>
  void ExpectRefused(const Result<engine::RuntimePlan>& plan,
                     const Matcher& message) {
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().message, AllOf(HasSubstr(path_), message));
    EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
  }

  // The plan's text with one piece of it put in another's place.
  std::string With(const std::string& old, const std::string& other) const {
    std::string text = text_;
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return at == std::string::npos ? text : text.replace(at, old.size(), other);
  }

  std::string path_;
  std::shared_ptr<const model::Model> model_;
  PlanMade made_;
  planner::PlanFile plan_;
  std::string text_;
};

TEST_F(PlannedPlacement, IsTheFilesAndItsBudget) {
  for (const bool says_vram : {true, false}) {
    DeviceFlags flags = SimFlags();
    if (!says_vram) flags.vrams.clear();
    const auto plan = Plan(text_, flags);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_GT(plan->memory.device.total(), 0u);
    EXPECT_LE(plan->memory.device.total(), kPlannedVram);
    EXPECT_EQ(PartsOf(plan_.placement).layers[0].resident,
              plan->engine.placement.layers[0].resident);
  }
}

TEST_F(PlannedPlacement, OfAnotherMachineIsRefused) {
  DeviceFlags flags = SimFlags();
  flags.machine = std::string(TC_SOURCE_DIR) + "/machines/rtx2080ti-ddr4.json";
  ExpectRefused(Plan(text_, flags),
                HasSubstr("a plan for \"NVIDIA GeForce RTX 4090\", not for "
                          "\"NVIDIA GeForce RTX 2080 Ti\""));
}

TEST_F(PlannedPlacement, OfAnotherBudgetIsRefused) {
  for (const uint64_t vram : {kPlannedVram / 2, kPlannedVram * 2}) {
    DeviceFlags flags = SimFlags();
    flags.vrams = {vram};
    ExpectRefused(
        Plan(text_, flags),
        AllOf(HasSubstr("a plan for 4.00 MiB of VRAM"),
              HasSubstr(vram < kPlannedVram ? "not 2.00" : "not 8.00")));
  }
}

TEST_F(PlannedPlacement, OfAnotherModeOrModelIsRefused) {
  ExpectRefused(Plan(text_, SimFlags(), engine::FfnMode::kDense),
                HasSubstr("in mode \"fast\", not \"dense\""));
  for (const std::string& other : {kBamboo, kLlamaF16}) {
    ExpectRefused(Plan(text_, SimFlags(), engine::FfnMode::kAuto,
                       model::Model::Open(other).value()),
                  HasSubstr("was made for another model"));
  }
}

struct Edit {
  std::string old, other, message;
};

// `there` lists the first layer's neurons, `neurons` comes before it.
std::vector<Edit> EditsToNonsense(const std::string& count,
                                  const std::string& neurons,
                                  const std::string& there) {
  return {
      {"\"head\"", "\"haed\"", "head"},
      {"\"machine\"", "\"colour\": \"red\", \"machine\"", "colour"},
      {"\"machine\"", "\"machine\": \"x\", \"machine\"", "machine"},
      {there, "\"0-" + count + "\"", "neurons_there"},
      {there, "\"9,3\"", "neurons_there"},
      {there, "\"-1\"", "neurons_there"},
      {there, "\"3,3\"", "neurons_there"},
      {there, "[1, 2]", "neurons_there"},
      {neurons, "\"neurons\": -5, \"neurons_there\": ", "neurons"},
      {neurons, "\"neurons\": 1e30, \"neurons_there\": ", "neurons"},
      {neurons, "\"neurons\": 4000000, \"neurons_there\": ", "layer 0"},
      {"\"seconds_per_token\": ", "\"seconds_per_token\": NaN, \"x\": ", ""},
      {"\"seconds_per_token\": ", "\"seconds_per_token\": -",
       "seconds_per_token"},
      {"\"budget_bytes\": 4194304", "\"budget_bytes\": -1", "budget_bytes"},
      {"\"method\": \"all-device\"", "\"method\": \"mine\"", "method"},
      {"\"layer\": 1", "\"layer\": 7", "layer"},
      {"\"attention\"", "\"attention\", \"attention\"", "parts"},
      {"\"scheme\": \"sparse\"", "\"scheme\": \"mine\"", "scheme"},
      {"\"scheme\": \"sparse\"", "\"scheme\": \"dense\"", "scheme"},
      {"\"mode\": \"fast\"", "\"mode\": \"\\u001b[0m\"", "x1b[0m"},
      {"\"version\": 1", "\"version\": 2", "version"}};
}

// By hand: each is one message that names the file and what is wrong.
TEST_F(PlannedPlacement, NonsenseIsRefused) {
  const std::string count =
      std::to_string(model_->config().layers[0].ffn.width);
  const std::string neurons = "\"neurons\": " + count + ", \"neurons_there\": ";
  const size_t at = text_.find(neurons);
  ASSERT_NE(at, std::string::npos);
  const size_t quote = at + neurons.size();
  const std::string there =
      text_.substr(quote, text_.find('"', quote + 1) + 1 - quote);
  for (const Edit& one : EditsToNonsense(count, neurons, there)) {
    SCOPED_TRACE(one.other);
    ExpectRefused(Plan(With(one.old, one.other)), HasSubstr(one.message));
  }
  for (const size_t size : {size_t{0}, text_.size() / 2, text_.size() - 3}) {
    ExpectRefused(Plan(text_.substr(0, size)), HasSubstr("JSON"));
  }
}

TEST_F(PlannedPlacement, OfASplitIsCheckedAndPredicted) {
  const size_t num_layers = model_->config().num_layers;
  const auto width = static_cast<int32_t>(model_->config().layers[0].ffn.width);
  std::ofstream(path_, std::ios::binary)
      << model::TestHot(num_layers, width).Bytes();
  const auto model =
      model::Model::Open(kPowerInferLlama, {.split_path = path_}).value();
  engine::SessionOptions options = Options(SimFlags());
  PlanMade made;
  options.place = PlaceBySplit(PlanInputsOf(SimFlags()).value(), &made);
  const auto plan = engine::PlanRuntime(*model, options);
  ASSERT_TRUE(plan) << plan.error().message;
  size_t num_hot = 0;
  for (const planner::LayerPlace& layer : made.named.placement.layers) {
    for (const uint32_t neuron : layer.neurons) EXPECT_EQ(neuron % 2, 1u);
    num_hot += layer.neurons.size();
  }
  EXPECT_GT(num_hot, 0u);
  const auto native =
      planner::PlaceByMethod(made.problem, planner::Method::kNative);
  EXPECT_GE(made.named.seconds, native->seconds * (1 - 1e-9));
}

// A plan's name for a machine costs no measuring, of none there is an error.
TEST(PlanMachine, HasANameAndRates) {
  const auto machine = PlanMachineOf(SimFlags());
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->name, "NVIDIA GeForce RTX 4090");
  const auto model = model::Model::Open(kLlamaF16).value();
  const auto hardware = machine->hardware(model->config());
  ASSERT_TRUE(hardware);
  EXPECT_EQ(hardware->device_rate, 1008e9 * 0.92);
  EXPECT_FALSE(PlanMachineOf({}));
  EXPECT_FALSE(PlanMachineOf({.name = "sim"}));
  EXPECT_FALSE(PlanMachineOf({.name = "sim", .machine = "none.json"}));
}

const std::string kSlowHost =
    std::string(TC_SOURCE_DIR) + "/machines/slow-host.json";

// Machines that differ in one rate are told apart, and no rate is measured of
// one that states them.
TEST(PlannedMethods, MachinesHaveNamesAndIdentities) {
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
TEST(PlannedMethods, EveryMethodIsCarriedOut) {
  const auto inputs = PlanInputsOf({.name = "sim", .machine = kSlowHost});
  ASSERT_TRUE(inputs) << inputs.error().message;
  const auto model = model::Model::Open(kPowerInferLlama);
  ASSERT_TRUE(model);
  const auto sim = device::MakeSim(device::ReadMachine(kSlowHost).value(),
                                   {.time_only = true});
  engine::PlacementRequest request = {.model = model->get(),
                                      .layout = &sim->layout(),
                                      .context = 64,
                                      .num_kv_pages = 1,
                                      .vram = 2u << 20};
  for (const planner::MethodInfo& info : planner::Methods()) {
    SCOPED_TRACE(info.name);
    engine::SessionOptions session;
    UseModeOf(info.method, session);
    request.choice =
        engine::ChooseFfn((*model)->config(), session.ffn, session.predictor)
            .value();
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
