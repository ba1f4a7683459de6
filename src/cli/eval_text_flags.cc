#include "cli/eval_text_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "cli/encode_text.h"
#include "cli/eval_commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/standard_io.h"
#include "eval/predictions.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kDefaultChunk = 512;

int64_t ChunkLengthOf(const SessionFlags& flags, int64_t context_length) {
  if (!flags.context.has_value()) {
    return std::min(kDefaultChunk, context_length);
  }
  return *flags.context > 0 ? *flags.context : context_length;
}

ModelSessions SessionsOfChunks(const SessionFlags& flags,
                               const model::Config& config,
                               engine::SessionOptions options,
                               const std::vector<engine::FfnMode>& modes) {
  options.context = ChunkLengthOf(flags, config.context_length);
  ModelSessions of_model = {.sessions = InModes(options, modes)};
  if (modes.size() > 1) {
    of_model.beside_bytes =
        modes.size() *
        eval::PredictionBytes(config.vocab_size, options.context);
  }
  return of_model;
}

void DivideSides(std::array<Side, 2>& sides, uint64_t logits_bytes) {
  const model::Model& model = *sides[0].model;
  std::array options = {std::move(sides[0].options),
                        std::move(sides[1].options)};
  DivideBudget(model.config(), engine::WeightMemory::Of(model), logits_bytes,
               options, /*tells=*/true);
  for (size_t i = 0; i < sides.size(); ++i) {
    sides[i].options = std::move(options[i]);
  }
}

struct ChunkNeed {
  BudgetRange range;
  uint64_t logits_bytes = 0;
};

Result<ChunkNeed> NeedOf(const ModelFlags& model, const SessionFlags& session,
                         engine::FfnMode mode) {
  TC_ASSIGN_OR_RETURN(const auto file, gguf::File::Open(model.path));
  TC_ASSIGN_OR_RETURN(const model::Config config,
                      model::ReadConfig(*file, model.overrides));
  ChunkNeed need;
  TC_ASSIGN_OR_RETURN(
      need.range,
      RangeOf(*file, config,
              SessionsOfChunks(session, config, OptionsOnHost(session, config),
                               {mode})));
  need.logits_bytes = eval::PredictionBytes(
      config.vocab_size, ChunkLengthOf(session, config.context_length));
  return need;
}

}  // namespace

void AddTextFlags(CLI::App& app, TextFlags& flags) {
  AddModelFlags(app, flags.model);
  AddRequiredPath(app, "-f,--file", flags.text_file, "FILE",
                  "Text; -: standard input");
  AddInt(app, "--chunks", flags.max_chunks, 1, kMaxChunks,
         "At most so many chunks, from the text's beginning (default: all)");
  app.add_flag("--no-parse-special", flags.no_parse_special,
               "Special tokens written out in the text are plain text, as "
               "for llama.cpp");
  app.add_flag("--json", flags.json, "One JSON object instead of text");
  AddThreadsFlag(app, flags.session);
  AddContextFlag(app, flags.session, "512, or the model's if that is less");
  AddEngineFlags(app, flags.model, flags.session);
  AddPrefillDeviceFlags(app, flags.session.prefill_device);
}

void CheckChunkFlag(const SessionFlags& flags) {
  const int64_t chunk = flags.context.value_or(0);
  if (chunk == 0 || chunk >= eval::kMinChunk) return;
  throw CLI::ValidationError(
      DisplayNames("-c,--ctx-size"),
      fmt::format("chunks of {} are too short, at least {}", chunk,
                  eval::kMinChunk));
}

Result<ModelPtr> OpenForChunks(const ModelFlags& model,
                               const SessionFlags& session,
                               const std::vector<engine::FfnMode>& modes,
                               ProgressLine& progress) {
  return OpenModel(
      model, progress, &session,
      [&](const model::Config& config, const engine::SessionOptions& options) {
        return SessionsOfChunks(session, config, options, modes);
      });
}

Result<std::array<SessionFlags, 2>> ShareRam(
    const SessionFlags& session, const std::array<const ModelFlags*, 2>& models,
    const std::array<engine::FfnMode, 2>& modes) {
  std::array shared = {session, session};
  // A plan is for one model; a device takes weights from memory; and what is
  // mapped is not held to a budget.
  if (!session.ram || session.device.storage_plan_path ||
      WantsDevice(session.device) ||
      session.storage.front() == engine::StorageMode::kMmap) {
    return shared;
  }
  std::vector<BudgetRange> ranges;
  uint64_t logits_bytes = 0;
  for (size_t i = 0; i < shared.size(); ++i) {
    const auto need = NeedOf(*models[i], session, modes[i]);
    // What is wrong with it is said when it is opened.
    if (!need) return shared;
    ranges.push_back(need->range);
    logits_bytes += need->logits_bytes;
  }
  const auto shares = ShareOut(*session.ram, logits_bytes, ranges);
  for (size_t i = 0; i < shared.size(); ++i) shared[i].ram = shares[i];
  return shared;
}

void KeepToHost(engine::SessionOptions& options) {
  options.device = nullptr;
  options.prompts = {};
}

int64_t ChunkLength(const SessionFlags& flags, int64_t context_length) {
  if (!flags.context.has_value() && context_length < kDefaultChunk) {
    LogInfo("chunks of {} tokens: the model's context is shorter than {}",
            context_length, kDefaultChunk);
  }
  return ChunkLengthOf(flags, context_length);
}

Result<std::vector<text::TokenId>> TokensOf(const TextFlags& flags,
                                            const model::Model& model,
                                            const std::string& text,
                                            int64_t chunk) {
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(model));
  TC_ASSIGN_OR_RETURN(
      auto tokens,
      EncodeText(*tokenizer, text, {.parse_special = !flags.no_parse_special}));
  const Status enough =
      eval::CheckChunks(static_cast<int64_t>(tokens.size()), chunk);
  if (enough.has_value()) return tokens;
  return Annotate(InputName(flags.text_file), enough.error());
}

Result<engine::SessionOptions> ChunkOptions(const SessionFlags& flags,
                                            const model::Config& config,
                                            int64_t chunk,
                                            ProgressLine& progress) {
  TC_ASSIGN_OR_RETURN(engine::SessionOptions options,
                      MakeSessionOptions(flags, config, progress));
  options.context = chunk;
  options.progress = {};  // chunks, not the tokens inside one
  return options;
}

tl::unexpected<Error> Side::Annotated(const Error& error) const {
  return Annotate(fmt::format("{} {}", role, model->file().path()), error);
}

Status FitSides(std::array<Side, 2>& sides, int64_t chunk) {
  std::vector<engine::MemoryPlan> needs;
  uint64_t logits_bytes = 0;
  for (const Side& side : sides) {
    const model::Config& config = side.model->config();
    const auto need = engine::PlanMemory(config, side.options);
    if (!need.has_value()) return side.Annotated(need.error());
    needs.push_back(*need);
    logits_bytes += eval::PredictionBytes(config.vocab_size, chunk);
  }
  if (sides[0].model->is_partly_left() || sides[1].model->is_partly_left()) {
    if (sides[0].model == sides[1].model) DivideSides(sides, logits_bytes);
    return {};
  }
  // One model may be on both sides.
  const engine::Budget& budget = sides[0].options.budget;
  uint64_t weight_bytes = WeightsThatCount(*sides[0].model, budget);
  if (sides[1].model != sides[0].model) {
    weight_bytes += WeightsThatCount(*sides[1].model, budget);
  }
  return CheckSessionsFit(needs, logits_bytes, weight_bytes, RamFor(budget));
}

Result<std::unique_ptr<engine::Session>> OpenSide(const Side& side) {
  auto session = CreateSession(side.model, side.options);
  if (!session.has_value()) return side.Annotated(session.error());
  PrintSession(side.role, **session, side.options);
  return session;
}

}  // namespace thermocline::cli
