#include "cli/planned_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/quote.h"
#include "base/units.h"
#include "cli/devices_report.h"
#include "cli/model_problem.h"
#include "device/sim/machine.h"
#include "os/cpu_name.h"
#include "planner/check.h"
#include "probe/device_rates.h"

namespace thermocline::cli {
namespace {

// A card as if it were a machine's file.
device::Machine MachineOf(const probe::DeviceRates& rates,
                          const HostReads& host) {
  const probe::BlockRate& large = rates.blocks.back();
  const double sync = rates.round_trip_seconds / 2;
  return {.device_rate = rates.read_gb_per_s * 1e9,
          .launch_latency = sync / 2,
          .sync_latency = sync,
          .copy_latency = sync / 4,
          .up_rate = large.up_gb_per_s * 1e9,
          .down_rate = large.down_gb_per_s * 1e9,
          .bus_rate = host.gb_per_s * 1e9,
          .pool_rate = host.gb_per_s * 1e9};
}

std::string IdentityOf(const device::Machine& machine) {
  return fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {}", machine.name, machine.memory_bytes,
      machine.device_rate, machine.launch_latency, machine.graph_op_latency,
      machine.sync_latency, machine.copy_latency, machine.up_rate,
      machine.down_rate, machine.bus_rate, machine.pool_rate);
}

bool HeedsRules(planner::Method method) {
  return method == planner::Method::kNative ||
         method == planner::Method::kIlp ||
         method == planner::Method::kFrequency;
}

// Measures a device once.
class CardRates {
 public:
  CardRates(std::shared_ptr<device::Device> device,
            probe::DeviceRatesOptions within)
      : device_(std::move(device)), within_(std::move(within)) {}

  Result<device::Machine> Get() {
    if (machine_) return *machine_;
    TC_ASSIGN_OR_RETURN(const probe::DeviceRates rates,
                        probe::MeasureDevice(*device_, within_));
    TC_ASSIGN_OR_RETURN(const HostReads host, MeasureHost());
    machine_ = MachineOf(rates, host);
    return *machine_;
  }

 private:
  std::shared_ptr<device::Device> device_;
  probe::DeviceRatesOptions within_;
  std::optional<device::Machine> machine_;
};

// Predicts, has it checked, tells of it, and adds up its bytes.
Result<engine::Placement> Finish(const engine::PlacementRequest& request,
                                 PlanMade mine, PlanMade* made,
                                 std::vector<std::string> left_out) {
  const planner::Method method = mine.named.method;
  TC_RETURN_IF_ERROR(planner::CheckPlacement(
      mine.problem, mine.named.placement,
      {.seconds = mine.named.seconds,
       .least_there = mine.named.least_there,
       .keeps_rules = method == planner::Method::kNative}));
  mine.cost = planner::PredictCost(mine.problem, mine.named.placement);
  const planner::Placement placement = mine.named.placement;
  if (made != nullptr) *made = std::move(mine);
  TC_ASSIGN_OR_RETURN(engine::Placement placed,
                      PlaceListed(request, PartsOf(placement)));
  placed.left_out = std::move(left_out);
  return placed;
}

Result<planner::Problem> CheckedProblem(const engine::PlacementRequest& request,
                                        const PlanInputs& inputs) {
  TC_ASSIGN_OR_RETURN(const Activity activity,
                      ReadActivity(*request.model, inputs));
  TC_ASSIGN_OR_RETURN(const planner::Hardware hardware,
                      inputs.machine.hardware(request.model->config()));
  TC_ASSIGN_OR_RETURN(planner::Problem problem,
                      ProblemOf(request, hardware, activity));
  TC_RETURN_IF_ERROR(planner::CheckProblem(problem));
  return problem;
}

// Of the device if it is open, else of the one that the flags name.
Result<std::string> NameOfMachine(const DeviceFlags& flags,
                                  device::Device* device) {
  if (device != nullptr) {
    TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, device->Info());
    return info.name;
  }
  TC_ASSIGN_OR_RETURN(const PlanMachine machine, PlanMachineOf(flags));
  return machine.name;
}

// As `plan`, read from `path`, says.
Result<engine::Placement> PlaceAsRead(const planner::PlanFile& plan,
                                      const std::string& path,
                                      const engine::PlacementRequest& request) {
  TC_RETURN_IF_ERROR(planner::CheckPlanFor(plan, *request.model, path));
  if (plan.mode != NameOf(request.choice.mode)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: a plan for FFNs in mode {}, not {}", path,
                Quote(plan.mode), Quote(NameOf(request.choice.mode)));
  }
  if (plan.budget != request.vram) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: a plan for {} of VRAM, not {}", path,
                FormatBytes(plan.budget), FormatBytes(request.vram));
  }
  auto placement = PlaceListed(request, PartsOf(plan.placement));
  if (!placement) return Annotate(path, placement.error());
  return placement;
}

}  // namespace

Result<PlanMachine> PlanMachineOf(const DeviceFlags& flags) {
  const DeviceFlags one = OfAnyBudget(flags);
  if (flags.name == "sim") {
    TC_RETURN_IF_ERROR(CheckDeviceFlags(one));
    TC_ASSIGN_OR_RETURN(const device::Machine machine,
                        device::ReadMachine(*flags.machine));
    return PlanMachine{
        machine.name, IdentityOf(machine),
        [machine](const model::Config& config) -> Result<planner::Hardware> {
          return HardwareOf(machine, config);
        }};
  }
  TC_ASSIGN_OR_RETURN(const auto device, OpenDevice(one));
  if (device == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "a plan is for a device: say which");
  }
  TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, device->Info());
  const auto rates = std::make_shared<CardRates>(device, RatesWithin(flags));
  return PlanMachine{
      info.name,
      fmt::format("{} {} {}", info.name, info.total_bytes, os::ReadCpuName()),
      [rates](const model::Config& config) -> Result<planner::Hardware> {
        TC_ASSIGN_OR_RETURN(const device::Machine machine, rates->Get());
        return HardwareOf(machine, config);
      }};
}

Result<PlanInputs> PlanInputsOf(const DeviceFlags& flags) {
  TC_ASSIGN_OR_RETURN(PlanMachine machine, PlanMachineOf(flags));
  return PlanInputs{.machine = std::move(machine),
                    .counts_path = flags.counts_path};
}

PlaceFunction PlaceBy(planner::Method method, PlanInputs inputs,
                      PlanMade* made) {
  return [method, inputs = std::move(inputs),
          made](const engine::PlacementRequest& request)
             -> Result<engine::Placement> {
    PlanMade mine;
    TC_ASSIGN_OR_RETURN(mine.problem, CheckedProblem(request, inputs));
    // What the rules ask for and cannot have is the engine's to say.
    std::vector<std::string> left_out;
    if (HeedsRules(method)) {
      TC_ASSIGN_OR_RETURN(engine::Placement ruled,
                          engine::PlanPlacement(request));
      left_out = std::move(ruled.left_out);
    }
    TC_ASSIGN_OR_RETURN(mine.named,
                        planner::PlaceByMethod(mine.problem, method));
    return Finish(request, std::move(mine), made, std::move(left_out));
  };
}

void UseModeOf(planner::Method method, engine::SessionOptions& session) {
  if (method != planner::Method::kDenseLayers &&
      method != planner::Method::kStreamDense) {
    return;
  }
  session.ffn = engine::FfnMode::kDense;
  session.predictor = engine::PredictorChoice::kAuto;
}

PlaceFunction PlaceBySplit(PlanInputs inputs, PlanMade* made) {
  return [inputs = std::move(inputs),
          made](const engine::PlacementRequest& request)
             -> Result<engine::Placement> {
    const Stopwatch watch;
    PlanMade mine;
    TC_ASSIGN_OR_RETURN(mine.problem, CheckedProblem(request, inputs));
    planner::NamedPlacement& named = mine.named;
    named.method = planner::Method::kIlp;  // whose program made it
    TC_ASSIGN_OR_RETURN(
        named.placement,
        planner::PlaceHotNeurons(mine.problem, *request.model->hot_neurons()));
    named.seconds = planner::PredictCost(mine.problem, named.placement).seconds;
    named.wall_seconds = watch.Seconds();
    return Finish(request, std::move(mine), made, {});
  };
}

Status UsePlan(const DeviceFlags& flags, engine::SessionOptions& session) {
  const std::string path = *flags.plan_path;
  TC_ASSIGN_OR_RETURN(planner::PlanFile read, planner::ReadPlan(path));
  const auto plan = std::make_shared<const planner::PlanFile>(std::move(read));
  TC_ASSIGN_OR_RETURN(const std::string machine,
                      NameOfMachine(flags, session.device.get()));
  if (plan->machine != machine) {
    return Fail(ErrorCode::kInvalidArgument, "{}: a plan for {}, not for {}",
                path, Quote(plan->machine), Quote(machine));
  }
  if (flags.vrams.empty()) session.budget.vram = plan->budget;
  session.place = [plan, path](const engine::PlacementRequest& request) {
    return PlaceAsRead(*plan, path, request);
  };
  return {};
}

planner::PlanFile PlanFileOf(const PlanMade& made,
                             const engine::PlacementRequest& request,
                             const std::string& machine) {
  return {.model = model::FingerprintOf(*request.model),
          .machine = machine,
          .budget = request.vram,
          .mode = std::string(NameOf(request.choice.mode)),
          .method = made.named.method,
          .seconds = made.named.seconds,
          .extents = planner::ExtentsOf(made.problem),
          .placement = made.named.placement};
}

}  // namespace thermocline::cli
