#include "cli/open_model.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/held_weights.h"
#include "cli/planned_storage.h"
#include "cli/signals.h"
#include "engine/left_tensors.h"
#include "model/vocab_metadata.h"
#include "os/memory.h"
#include "training/profile_corpus.h"

namespace thermocline::cli {
namespace {

// Weights that are to be held, with the sessions that are asked for, if any.
Status Admit(const std::string& path, const ModelSessions& asked,
             const model::Config& config, const engine::WeightMemory& weights) {
  const uint64_t ram_bytes = os::ReadMemoryInfo().total_bytes;
  std::vector<engine::SessionOptions> sessions = asked.sessions;
  if (sessions.empty()) {
    const engine::MemoryPlan plan = {.host = {.weights = weights.num_bytes},
                                     .holds_weights = true};
    const Status fits = engine::CheckMemory(plan, {}, ram_bytes);
    if (!fits.has_value()) return Annotate(path, fits.error());
    return {};
  }
  DivideBudget(config, weights, asked.beside_bytes, sessions, /*tells=*/false);
  Status worst;
  uint64_t most = 0;
  for (const engine::SessionOptions& session : sessions) {
    const auto plan = engine::PlanMemory(config, session, weights);
    // Of several one that cannot run says so when it is made.
    if (!plan && sessions.size() > 1) continue;
    TC_RETURN_IF_ERROR(plan);
    const Status fits = engine::CheckMemory(*plan, session.budget, ram_bytes);
    if (fits.has_value() || plan->host.total() <= most) continue;
    most = plan->host.total();
    worst = Annotate(path, fits.error());
  }
  return worst;
}

using SessionsFor = std::function<ModelSessions(const model::Config& config)>;

// Names what stays in the file, and tells `left` of it.
decltype(model::OpenOptions::leaves) LeavesFor(
    SessionsFor sessions_for, std::optional<engine::LeftWeights>* left) {
  return [sessions_for = std::move(sessions_for), left](
             const gguf::File& file,
             const model::Config& config) -> Result<std::vector<std::string>> {
    TC_ASSIGN_OR_RETURN(std::vector<std::string> names,
                        LeaveForAll(file, config, sessions_for(config)));
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

ModelSessions SessionsThatObserve(const model::Config& config,
                                  engine::SessionOptions from_flags) {
  from_flags.ffn = training::ProfileMode(config);
  from_flags.observer = [](const engine::FfnObservation&) {};
  return {.sessions = {std::move(from_flags)}};
}

Result<std::shared_ptr<const model::Model>> OpenModel(
    const ModelFlags& flags, ProgressLine& progress,
    const SessionFlags* session, const SessionsOf& sessions_of) {
  ExitOnInterrupt exit_on_interrupt;
  ProgressLine hold_progress(ProgressUnit::kBytes);
  SessionFlags planned;
  if (session != nullptr) {
    TC_ASSIGN_OR_RETURN(planned, WithStoragePlan(*session));
  }
  const auto sessions_for = [&](const model::Config& config) -> ModelSessions {
    const engine::SessionOptions options = OptionsOnHost(planned, config);
    if (sessions_of) return sessions_of(config, options);
    return {.sessions = {options}};
  };
  std::optional<engine::LeftWeights> left;
  const auto admit = [&](const model::Config& config, uint64_t held_bytes) {
    ModelSessions asked;
    if (session != nullptr) asked = sessions_for(config);
    return Admit(flags.path, asked, config,
                 {.num_bytes = held_bytes, .are_held = true, .left = left});
  };
  model::OpenOptions options = OpenOptionsOf(flags);
  options.progress = progress.callback();
  options.hold_progress = hold_progress.callback();
  options.admit = admit;
  // A device takes all weights from memory.
  const bool may_leave = session != nullptr && !WantsDevice(session->device);
  if (may_leave) options.leaves = LeavesFor(sessions_for, &left);
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

Result<Vocabulary> OpenVocabulary(const std::string& path) {
  TC_ASSIGN_OR_RETURN(auto file, gguf::File::Open(path));
  TC_ASSIGN_OR_RETURN(auto vocab, model::ReadVocab(*file));
  if (!vocab.has_value()) {
    return Fail(ErrorCode::kUnsupported, "{}: has no vocabulary", path);
  }
  auto tokenizer = text::Tokenizer::Create(std::move(*vocab));
  if (!tokenizer.has_value()) return Annotate(path, tokenizer.error());
  return Vocabulary{std::move(file), *std::move(tokenizer)};
}

}  // namespace thermocline::cli
