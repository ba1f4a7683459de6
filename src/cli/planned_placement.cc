#include "cli/planned_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

// Solved and checked; left_out: what the engine says of the rules.
Result<PlanMade> Solve(planner::Method method, const PlanInputs& inputs,
                       const engine::PlacementRequest& request) {
  PlanMade made;
  TC_ASSIGN_OR_RETURN(const Activity activity,
                      ReadActivity(*request.model, inputs));
  TC_ASSIGN_OR_RETURN(const planner::Hardware hardware,
                      inputs.machine.hardware(request.model->config()));
  TC_ASSIGN_OR_RETURN(made.problem, ProblemOf(request, hardware, activity));
  TC_RETURN_IF_ERROR(planner::CheckProblem(made.problem));
  TC_ASSIGN_OR_RETURN(made.named, planner::PlaceByMethod(made.problem, method));
  TC_RETURN_IF_ERROR(planner::CheckPlacement(
      made.problem, made.named.placement,
      {.seconds = made.named.seconds,
       .least_there = made.named.least_there,
       .keeps_rules = method == planner::Method::kNative}));
  made.cost = planner::PredictCost(made.problem, made.named.placement);
  return made;
}

}  // namespace

Result<PlanMachine> PlanMachineOf(const DeviceFlags& flags) {
  DeviceFlags one = flags;
  one.vrams.resize(std::min<size_t>(one.vrams.size(), 1));
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
  TC_ASSIGN_OR_RETURN(const device::DeviceInfo info, device->Info());
  return PlanMachine{
      info.name,
      fmt::format("{} {} {}", info.name, info.total_bytes, os::ReadCpuName()),
      [device](const model::Config& config) -> Result<planner::Hardware> {
        TC_ASSIGN_OR_RETURN(const probe::DeviceRates rates,
                            probe::MeasureDevice(*device, {}));
        TC_ASSIGN_OR_RETURN(const HostReads host, MeasureHost());
        return HardwareOf(MachineOf(rates, host), config);
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
    // What the rules ask for and cannot have is the engine's to say.
    std::vector<std::string> left_out;
    if (HeedsRules(method)) {
      TC_ASSIGN_OR_RETURN(engine::Placement ruled,
                          engine::PlanPlacement(request));
      left_out = std::move(ruled.left_out);
    }
    TC_ASSIGN_OR_RETURN(PlanMade mine, Solve(method, inputs, request));
    const planner::Placement placement = mine.named.placement;
    if (made != nullptr) *made = std::move(mine);
    if (!planner::InfoOf(method).runs) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: is predicted alone, no engine runs it",
                  planner::InfoOf(method).name);
    }
    TC_ASSIGN_OR_RETURN(engine::Placement placed,
                        PlaceListed(request, PartsOf(placement)));
    placed.left_out = std::move(left_out);
    return placed;
  };
}

PlaceFunction PlaceFromFile(std::string path) {
  return [path = std::move(path)](const engine::PlacementRequest& request)
             -> Result<engine::Placement> {
    TC_ASSIGN_OR_RETURN(const planner::PlanFile plan, planner::ReadPlan(path));
    TC_RETURN_IF_ERROR(planner::CheckPlanFor(plan, *request.model, path));
    if (plan.mode != NameOf(request.choice.mode)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: a plan for FFNs in mode {}, not {}", path, plan.mode,
                  NameOf(request.choice.mode));
    }
    auto placement = PlaceListed(request, PartsOf(plan.placement));
    if (!placement) return Annotate(path, placement.error());
    return placement;
  };
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
