// `thermocline run`: a prompt in, its continuation out; or a chat. A good place
// to begin reading: it opens the model (model/model.h), makes a session
// (engine/session.h), and prints what decode/generate.h gives it.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/chat_command.h"
#include "cli/commands.h"
#include "cli/encode_text.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/planned_storage.h"
#include "cli/run_flags.h"
#include "cli/run_report.h"
#include "cli/run_trace.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "decode/generate.h"
#include "model/weight_bytes.h"
#include "os/memory.h"

namespace thermocline::cli {
namespace {

TokenBytes BytesPerGeneratedToken(const engine::Session& session,
                                  const engine::SessionOptions& options,
                                  const decode::GenerateReport& report) {
  const int64_t middle =
      report.num_prompt_tokens + static_cast<int64_t>(report.tokens.size()) / 2;
  if (const auto of_graphs = session.device_token_bytes(middle)) {
    return {.count = *of_graphs, .of_graphs = true};
  }
  const uint64_t kv_bytes =
      engine::KvBytesPerToken(session.model().config(), options, middle);
  const engine::SparseTotals totals = session.sparse_totals();
  if (totals.num_tokens > 0) {
    return {model::FixedWeightBytes(session.model().weights(), 1) +
                totals.num_bytes / totals.num_tokens + kv_bytes,
            false};
  }
  return {engine::WeightBytesPerToken(session.model(), session.ffn(),
                                      session.predictor()) +
              kv_bytes,
          session.ffn() != engine::FfnMode::kDense};
}

// Beside what was measured; nothing without a plan.
std::string Prediction(const SessionFlags& flags,
                       const decode::GenerateReport& report,
                       const engine::StreamTotals& totals) {
  if (report.num_decodes == 0 || report.generate_seconds <= 0.0) return "";
  const engine::StreamTotals::OfPhase& generated = totals.generated;
  std::optional<double> misses;
  if (generated.num_rows > 0) {
    misses = static_cast<double>(generated.num_missed) /
             static_cast<double>(generated.num_rows);
  }
  return DescribePrediction(
      flags, static_cast<double>(report.num_decodes) / report.generate_seconds,
      misses);
}

// With the memory that an observer needs where the run is to be traced.
SessionsOf SessionsOfRun(const RunFlags& flags) {
  return [is_traced = flags.trace_path.has_value()](
             const model::Config& config,
             const engine::SessionOptions& from_flags) -> ModelSessions {
    engine::SessionOptions options = from_flags;
    uint64_t beside = 0;
    if (is_traced) {
      options.observer = [](const engine::FfnObservation&) {};
      beside = RunTrace::NumBytes(config, options.batch);
    }
    return {.sessions = {std::move(options)}, .beside_bytes = beside};
  };
}

// What lies beside a session counts against its budget.
void TakeFromBudget(uint64_t num_bytes, engine::SessionOptions& options) {
  std::optional<uint64_t>& ram = options.budget.ram;
  if (ram.has_value()) *ram -= std::min(*ram, num_bytes);
}

Result<std::vector<text::TokenId>> PromptTokens(const RunFlags& flags,
                                                const std::string& prompt,
                                                const model::Model& model) {
  TC_ASSIGN_OR_RETURN(const text::Tokenizer* tokenizer,
                      RequireTokenizer(model));
  TC_ASSIGN_OR_RETURN(std::vector<text::TokenId> tokens,
                      EncodePrompt(*tokenizer, prompt, !flags.no_bos));
  if (!tokens.empty()) return tokens;
  return Fail(ErrorCode::kInvalidArgument,
              "{}: the prompt has no tokens: there is nothing to continue",
              flags.prompt.has_value() ? "-p" : InputName(*flags.prompt_file));
}

// What is generated goes to standard output as it comes; ends where the trace,
// which may be of nobody, cannot be gone on with.
Result<decode::GenerateReport> GenerateText(
    const RunFlags& flags, std::span<const text::TokenId> tokens,
    const RunTrace& trace, engine::Session& session, ProgressLine& progress) {
  Status written;
  auto report = decode::Generate(
      session, tokens, MakeGenerateOptions(flags), [&](std::string_view text) {
        progress.Clear();
        written = WriteModelText(text);
        return written.has_value() && trace.is_well();
      });
  progress.Clear();
  if (StdoutIsTerminal()) {
    TC_RETURN_IF_ERROR(WriteStdout("\n"));
  } else if (StdoutIsStderr()) {
    WriteStderr("\n");
  }
  TC_RETURN_IF_ERROR(written);
  return report;
}

std::vector<std::string> OutputFilesOf(const RunFlags& flags) {
  std::vector<std::string> files;
  if (flags.trace_path.has_value()) files.push_back(*flags.trace_path);
  return files;
}

Status Continue(const RunFlags& flags) {
  TC_RETURN_IF_ERROR(CheckOutputs(OutputFilesOf(flags), InputFilesOf(flags)));
  TC_ASSIGN_OR_RETURN(const std::optional<std::string> prompt,
                      ReadPrompt(flags));
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenModel(flags.model, progress, &flags.session, SessionsOfRun(flags)));
  TC_ASSIGN_OR_RETURN(const auto tokens, PromptTokens(flags, *prompt, *model));
  TC_ASSIGN_OR_RETURN(
      engine::SessionOptions options,
      MakeSessionOptions(flags.session, model->config(), progress));
  RunTrace trace;
  if (flags.trace_path.has_value()) {
    options.observer = trace.observer();
    TakeFromBudget(RunTrace::NumBytes(model->config(), options.batch), options);
  }
  TC_ASSIGN_OR_RETURN(const RunSession made,
                      MakeRunSession(flags, model, options));
  engine::Session& session = *made.session;
  if (flags.trace_path.has_value()) {
    TC_RETURN_IF_ERROR(
        trace.Begin(*flags.trace_path, session, options, tokens.size()));
  }
  WriteStderr(made.mode + "\n");
  TC_ASSIGN_OR_RETURN(const decode::GenerateReport report,
                      GenerateText(flags, tokens, trace, session, progress));
  WriteStderr(FormatRunSummary(
      report, BytesPerGeneratedToken(session, options, report),
      RunMemoryOf(os::ReadProcessMemory(), model->file().held())));
  WriteStderr(FormatPrefillTimes(session));
  WriteStderr(FormatStreamSummary(session.stream_totals()));
  WriteStderr(Prediction(flags.session, report, session.stream_totals()));
  if (report.reason == decode::StopReason::kCancelled) {
    return Fail(ErrorCode::kCancelled, "interrupted");
  }
  if (!flags.trace_path.has_value()) return {};
  TC_ASSIGN_OR_RETURN(const std::string wrote, trace.Finish(session));
  WriteStderr(wrote);
  return {};
}

}  // namespace

Status RunText(const RunFlags& flags) { return Continue(flags); }

void AddRunCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* app = parent.add_subcommand("run", "Continues a text, or chats");
  AddRunFlags(*app, *flags);
  app->footer(
      "The continuation goes to standard output, all else to standard error.\n"
      "Special tokens written out in the prompt (<|endoftext|>) count as such; "
      "in\nthe messages of a chat they are plain text. /help lists a chat's "
      "commands.\n\nExamples:\n"
      "  thermocline run -m model.gguf\n"
      "  thermocline run -m model.gguf -sys \"Answer in one line.\"\n"
      "  thermocline run -m model.gguf -p \"Once upon a time\" -n 128\n"
      "  thermocline run -m model.gguf -f prompt.txt --temp 0 -r \"The end\"\n"
      "  echo \"Dear Sir\" | thermocline run -m model.gguf -f - -n 64 -s 42");
  app->callback([flags, &action] {
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       {flags->session.ffn});
    const bool chat = WantsChat(*flags, StdinIsTerminal());
    action = WithTimeline(
        flags->session.timeline, InputFilesOf(*flags), OutputFilesOf(*flags),
        [flags, chat] { return chat ? RunChat(*flags) : Continue(*flags); });
  });
}

}  // namespace thermocline::cli
