#include "cli/open_model.h"

#include <optional>
#include <string>
#include <utility>

#include "cli/held_weights.h"
#include "cli/planned_storage.h"
#include "cli/signals.h"
#include "engine/left_tensors.h"
#include "os/memory.h"

namespace thermocline::cli {
namespace {

// The one that needs most memory beside the weights.
engine::SessionOptions LargestOf(std::vector<engine::SessionOptions> sessions,
                                 const model::Config& config) {
  size_t largest = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    // What cannot run says so when it is made.
    const auto plan = engine::PlanMemory(config, sessions[i]);
    if (!plan || plan->host.total() <= most) continue;
    most = plan->host.total();
    largest = i;
  }
  return std::move(sessions[largest]);
}

// Weights that are to be held, with the session that is asked for, if one is.
Status Admit(const std::string& path,
             const std::optional<engine::SessionOptions>& session,
             const model::Config& config, const engine::WeightMemory& weights) {
  engine::MemoryPlan plan = {.host = {.weights = weights.num_bytes},
                             .holds_weights = true};
  if (session) {
    TC_ASSIGN_OR_RETURN(plan, engine::PlanMemory(config, *session, weights));
  }
  Status fits =
      engine::CheckMemory(plan, session ? session->budget : engine::Budget(),
                          os::ReadMemoryInfo().total_bytes);
  if (fits.has_value()) return fits;
  return Annotate(path, fits.error());
}

using OptionsFor =
    std::function<engine::SessionOptions(const model::Config& config)>;

// Names what stays in the file, and tells `left` of it.
decltype(model::OpenOptions::leaves) LeavesFor(
    OptionsFor options_for, std::optional<engine::LeftWeights>* left) {
  return [options_for = std::move(options_for), left](
             const gguf::File& file,
             const model::Config& config) -> Result<std::vector<std::string>> {
    TC_ASSIGN_OR_RETURN(
        std::vector<std::string> names,
        engine::TensorsToLeave(file, config, options_for(config)));
    *left = engine::LeftOf(file, config, names);
    return names;
  };
}

model::OpenOptions OpenOptionsOf(const ModelFlags& flags) {
  return {.bundle_at_load = flags.bundle_at_load,
          .overrides = flags.overrides,
          .split_path = flags.split_path,
          .check_tensors = flags.check_tensors,
          .hold = flags.hold};
}

}  // namespace

Result<std::shared_ptr<const model::Model>> OpenModel(
    const ModelFlags& flags, ProgressLine& progress,
    const SessionFlags* session, const SessionsOf& sessions_of) {
  ExitOnInterrupt exit_on_interrupt;
  ProgressLine hold_progress(ProgressUnit::kBytes);
  SessionFlags planned;
  if (session != nullptr) {
    TC_ASSIGN_OR_RETURN(planned, WithStoragePlan(*session));
  }
  const auto options_for = [&](const model::Config& config) {
    engine::SessionOptions options = OptionsOnHost(planned, config);
    if (!sessions_of) return options;
    return LargestOf(sessions_of(config, options), config);
  };
  std::optional<engine::LeftWeights> left;
  const auto admit = [&](const model::Config& config, uint64_t held_bytes) {
    std::optional<engine::SessionOptions> asked;
    if (session != nullptr) asked = options_for(config);
    return Admit(flags.path, asked, config,
                 {.num_bytes = held_bytes, .are_held = true, .left = left});
  };
  model::OpenOptions options = OpenOptionsOf(flags);
  options.progress = progress.callback();
  options.hold_progress = hold_progress.callback();
  options.admit = admit;
  // A device takes all weights from memory.
  const bool may_leave = session != nullptr && !WantsDevice(session->device);
  if (may_leave) options.leaves = LeavesFor(options_for, &left);
  auto model = model::Model::Open(flags.path, options);
  progress.Clear();
  hold_progress.Clear();
  TC_RETURN_IF_ERROR(model);
  WarnOfLargeMapping((*model)->file());
  if (session != nullptr) {
    TC_RETURN_IF_ERROR(CheckStoragePlanFor(*session, **model));
  }
  return model;
}

Result<std::unique_ptr<engine::Session>> CreateSession(
    std::shared_ptr<const model::Model> model,
    const engine::SessionOptions& options) {
  ExitOnInterrupt exit_on_interrupt;
  return engine::Session::Create(std::move(model), options);
}

}  // namespace thermocline::cli
