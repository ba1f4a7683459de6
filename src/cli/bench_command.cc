// `thermocline bench`: tokens per second, beside what memory allows.
#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "cli/bench_commands.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/held_weights.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/planned_storage.h"
#include "cli/session_flags.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/cpu_name.h"
#include "os/memory.h"
#include "os/thread_pool.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 32;
constexpr int64_t kMaxRepetitions = 10000;

// The largest session of all tests.
engine::SessionOptions LargestSession(const bench::BenchOptions& bench) {
  engine::SessionOptions session = bench.session;
  session.context = std::ranges::max(bench.depths) +
                    std::max(std::ranges::max(bench.prompt_lengths),
                             std::ranges::max(bench.generate_lengths));
  if (!bench.threads.empty()) {
    session.num_threads = std::ranges::max(bench.threads);
  }
  return session;
}

// Positions of the largest session; defaults end with the model's context.
int64_t LargestContext(const BenchFlags& flags, const model::Config& config) {
  const int64_t depth = std::ranges::max(flags.depths);
  const int64_t room = config.context_length - depth;
  const auto longest = [&](bool is_given, const std::vector<int64_t>& lengths) {
    const int64_t length = std::ranges::max(lengths);
    return is_given || room < 1 ? length : std::min(length, room);
  };
  return depth +
         std::max(longest(flags.prompt_given, flags.prompt_lengths),
                  longest(flags.generate_given, flags.generate_lengths));
}

// Of a plan, beside the fastest test that generates.
std::string PredictionOf(const SessionFlags& flags,
                         const bench::BenchReport& report) {
  double measured = 0.0;
  for (const bench::BenchRow& row : report.rows) {
    if (row.num_generate > 0) measured = std::max(measured, row.median);
  }
  if (measured == 0.0) return "";
  return DescribePrediction(flags, measured, std::nullopt);
}

Status Run(const BenchFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(
      const auto model,
      OpenForBench(flags, progress, [&](const model::Config& config) {
        return LargestContext(flags, config);
      }));
  bench::BenchOptions options;
  options.prompt_lengths = flags.prompt_lengths;
  options.generate_lengths = flags.generate_lengths;
  options.depths = flags.depths;
  options.profile = flags.profile;
  const int64_t room =
      model->config().context_length - std::ranges::max(flags.depths);
  CapDefault("-p", flags.prompt_given, room, options.prompt_lengths);
  CapDefault("-n", flags.generate_given, room, options.generate_lengths);
  options.threads.assign(flags.threads.begin(), flags.threads.end());
  options.repetitions = static_cast<int>(flags.repetitions);
  TC_ASSIGN_OR_RETURN(
      options.session,
      MakeSessionOptions(flags.session, model->config(), progress));
  options.progress = progress.callback();
  TC_RETURN_IF_ERROR(CheckBenchFits(*model, LargestSession(options)));
  const LogOnceScope log_once;  // each test makes a session
  auto report = bench::RunBench(model, options);
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  CompleteSubject(report->subject);
  WriteStderr(PredictionOf(flags.session, *report));
  std::string text = bench::FormatBench(*report, flags.format);
  if (flags.format == bench::BenchFormat::kMarkdown) {
    text += DescribeBuild(report->subject, *model);
  }
  return WriteStdout(text);
}

Status StoreFormat(const std::string& text, bench::BenchFormat& format) {
  if (text == "md") {
    format = bench::BenchFormat::kMarkdown;
  } else if (text == "json") {
    format = bench::BenchFormat::kJson;
  } else if (text == "csv") {
    format = bench::BenchFormat::kCsv;
  } else {
    return NotOneOf(text, "md, json, csv");
  }
  return {};
}

bool AllZero(const std::vector<int64_t>& lengths) {
  return std::ranges::all_of(lengths, [](int64_t n) { return n == 0; });
}

constexpr const char* kBenchFooter =
    "t/s: median and standard deviation. GB/s: bytes that the tokens needed, "
    "per\nsecond. % of roof: of the best plain read in the same run with as "
    "many\nthreads; 'in cache' when the weights are smaller than twice the "
    "last-level\ncache, 'sparse' for prompts of which only some neurons are "
    "computed: their bytes\nare at most those shown. limit: what keeps it "
    "from being faster, memory or the kernels'\nspeed in the cache (see bench "
    "roof), and how much of that limit is reached.\n\n"
    "Examples:\n"
    "  thermocline bench -m model.gguf\n"
    "  thermocline bench -m model.gguf -p 0 -n 32 -d 0,4096 --profile\n"
    "  thermocline bench -m model.gguf -p 0 -n 64,128 -t 1,2 -r 10 -o csv\n"
    "  thermocline bench -m model.gguf -f prompts.txt -pg 64,128 -pg "
    "512,128\n"
    "  thermocline bench -m model.gguf -np 1,2,4,8\n"
    "  thermocline bench -m model.gguf -f prompts.txt --ram 2GiB,4GiB\n"
    "  thermocline bench roof -t 1,2 -m model.gguf\n"
    "  thermocline bench op --device host\n"
    "  thermocline bench io model.gguf";

struct LengthOptions {
  const CLI::Option* prompt;
  const CLI::Option* generate;
};

LengthOptions AddLengthFlags(CLI::App& app, BenchFlags& flags) {
  const LengthOptions lengths = {
      .prompt = AddIntList(
          app, "-p,--n-prompt", flags.prompt_lengths, 0, kMaxLength,
          "Prompt lengths to prefill; 0: none (default 512; with -np, each "
          "sequence's, 16)"),
      .generate = AddIntList(
          app, "-n,--n-gen", flags.generate_lengths, 0, kMaxLength,
          "Numbers of tokens to generate; 0: none (default 128; with -np, of "
          "each sequence, 64)")};
  AddIntList(app, "-d,--n-depth,--depth", flags.depths, 0, kMaxLength,
             "Positions that the KV cache holds before a test (default 0)");
  return lengths;
}

// Which of the ways the flags ask for.
Action ChooseBench(const CLI::App& app,
                   const std::shared_ptr<const BenchFlags>& flags,
                   const std::shared_ptr<const BenchPromptFlags>& prompts) {
  const bool has_device = WantsDevice(flags->session.device);
  if (!flags->placements.empty() &&
      (!has_device || !flags->num_sequences.empty())) {
    throw CLI::ValidationError(
        "--placement",
        "says what lies on a device, which --device or --vram names, of one "
        "sequence");
  }
  const bool has_modes = flags->session.storage.size() > 1;
  if (has_modes && flags->session.rams.empty() && !flags->session.ram) {
    throw CLI::ValidationError("--storage", "of several modes wants --ram");
  }
  if (has_modes || !flags->session.rams.empty()) {
    CheckBudgetFlags(app, *flags, *prompts);
    return [flags, prompts] { return RunBudgets(*flags, *prompts); };
  }
  if (!flags->num_sequences.empty()) {
    return [flags, prompts] { return RunSequences(*flags, *prompts); };
  }
  if (has_device || flags->trace_path) {
    CheckBenchDeviceFlags(app, *flags, *prompts);
    return [flags, prompts] { return RunOnDevice(*flags, *prompts); };
  }
  if (prompts->path.has_value()) {
    return [flags, prompts] { return RunPrompts(*flags, *prompts); };
  }
  if (AllZero(flags->prompt_lengths) && AllZero(flags->generate_lengths)) {
    throw CLI::ValidationError("nothing to run: -p and -n are both 0");
  }
  return [flags] { return Run(*flags); };
}

Action WithTimelineOf(const BenchFlags& flags, const BenchPromptFlags& prompts,
                      Action bench) {
  std::vector<std::string> inputs =
      InputFilesOf(flags.model, flags.session.device);
  if (prompts.path) inputs.push_back(*prompts.path);
  if (flags.trace_path) inputs.push_back(*flags.trace_path);
  std::vector<std::string> outputs;
  if (prompts.tokens_path) outputs.push_back(*prompts.tokens_path);
  return WithTimeline(flags.session.timeline, std::move(inputs),
                      std::move(outputs), std::move(bench));
}

}  // namespace

void CapDefault(const char* flag, bool given, int64_t room,
                std::vector<int64_t>& lengths) {
  if (given || room < 1 || lengths.front() <= room) return;
  LogInfo("{} {} instead of {}: the model's context", flag, room,
          lengths.front());
  lengths.front() = room;
}

Result<std::shared_ptr<const model::Model>> OpenForBench(
    const BenchFlags& flags, ProgressLine& progress,
    const std::function<int64_t(const model::Config& config)>& context_of) {
  return OpenModel(
      flags.model, progress, &flags.session,
      [&](const model::Config& config, engine::SessionOptions session) {
        session.context = context_of(config);
        if (!flags.threads.empty()) {
          session.num_threads =
              static_cast<int>(std::ranges::max(flags.threads));
        }
        if (!flags.num_sequences.empty()) {
          session.num_sequences = std::ranges::max(flags.num_sequences);
        }
        return ModelSessions{.sessions = {session}};
      });
}

int64_t MostPositions(const std::vector<Prompt>& prompts,
                      const std::vector<bench::PromptTest>& tests,
                      int64_t context) {
  // A token is a byte or more, but for a few that begin or end a text.
  constexpr int64_t kTokensAround = 8;
  int64_t longest = 0;
  for (const Prompt& prompt : prompts) {
    longest = std::max(longest, static_cast<int64_t>(prompt.text.size()));
  }
  longest += kTokensAround;
  int64_t most = 0;
  for (const bench::PromptTest& test : tests) {
    const int64_t num_prompt =
        test.num_prompt > 0 ? std::min(test.num_prompt, longest) : longest;
    most = std::max(most, num_prompt + test.num_generate);
  }
  return std::min(most, context);
}

void CompleteSubject(bench::Subject& subject) {
  subject.build = TC_VERSION;
  subject.cpu = os::ReadCpuName();
}

std::string DescribeBuild(const bench::Subject& subject,
                          const model::Model& model) {
  const gguf::File& file = model.file();
  return fmt::format("\nbuild: thermocline {}, {}, ffn {}, weights {}{}\n",
                     TC_VERSION, subject.isa, subject.ffn,
                     DescribeHeld(file.held()),
                     DescribePages(file.held(), file.num_file_bytes(),
                                   os::ReadHugePageShares()));
}

Status CheckBenchFits(const model::Model& model,
                      const engine::SessionOptions& session) {
  TC_ASSIGN_OR_RETURN(const engine::MemoryPlan plan,
                      engine::PlanMemory(model.config(), session,
                                         engine::WeightMemory::Of(model)));
  Status fits = engine::CheckMemory(plan, session.budget,
                                    os::ReadMemoryInfo().total_bytes);
  if (!fits.has_value()) return Annotate(model.file().path(), fits.error());
  if (session.budget.ram.has_value()) {
    WriteStderr(
        fmt::format("RAM {} of {} ({})\n", FormatBytes(plan.host.total()),
                    FormatBytes(*session.budget.ram), engine::Describe(plan)));
  }
  return fits;
}

void AddThreadListFlag(CLI::App& app, std::vector<int64_t>& threads,
                       const std::string& fallback) {
  AddIntList(app, "-t,--threads", threads, 0, os::ThreadPool::kMaxThreads,
             "Thread counts to try; 0: one per physical core (default: " +
                 fallback + ")");
}

void AddFormatFlag(CLI::App& app, bench::BenchFormat& format) {
  AddParsed(
      app, "-o,--output", "FORMAT",
      "md, json or csv, to standard output (default md)",
      [&format](const std::string& text) { return StoreFormat(text, format); });
}

namespace {

// Whoever writes flags in front of `roof` wants them to count there.
void RefuseFlagsInFront(const CLI::App& app) {
  RefuseAllBut(app, {},
               fmt::format("in front of {}, which takes its flags behind it",
                           app.get_subcommands().front()->get_name()));
}

}  // namespace

void AddBenchCommand(CLI::App& parent, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  auto prompts = std::make_shared<BenchPromptFlags>();
  CLI::App* app = parent.add_subcommand(
      "bench", "Measures speed, beside the roof that memory sets");
  AddModelFlags(*app, flags->model);
  const LengthOptions lengths = AddLengthFlags(*app, *flags);
  AddSequencesFlag(*app, flags->num_sequences);
  AddBenchPromptFlags(*app, *prompts);
  AddThreadListFlag(*app, flags->threads, "physical cores");
  AddInt(*app, "-r,--repetitions", flags->repetitions, 1, kMaxRepetitions,
         "Measured runs of each test, after one to warm up (default 5)");
  AddFormatFlag(*app, flags->format);
  app->add_flag("--profile", flags->profile,
                "Also time, bytes and waiting of each stage (md and json)");
  flags->session.takes_rams = true;
  flags->session.takes_storage_modes = true;
  AddEngineFlags(*app, flags->model, flags->session);
  AddBenchDeviceFlags(*app, *flags);
  AddTimelineFlag(*app, flags->session);
  AddPrefillFlag(*app, flags->session);
  app->footer(kBenchFooter);
  AddBenchRoofCommand(*app, *app->get_option("--model"), action);
  AddBenchOpCommand(*app, *app->get_option("--model"), action);
  AddBenchIoCommand(*app, *app->get_option("--model"), action);
  app->callback([app, flags, prompts, lengths, &action] {
    if (!app->get_subcommands().empty()) {
      RefuseFlagsInFront(*app);
      return;
    }
    CheckBenchPromptFlags(*app, *prompts);
    CheckSequencesFlag(*app, *flags);
    CheckScoresAreUsed(flags->model, flags->session.predictor,
                       {flags->session.ffn});
    flags->prompt_given = lengths.prompt->count() > 0;
    flags->generate_given = lengths.generate->count() > 0;
    action =
        WithTimelineOf(*flags, *prompts, ChooseBench(*app, flags, prompts));
  });
}

}  // namespace thermocline::cli
