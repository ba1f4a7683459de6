// `thermocline npu bench`: how fast static graphs are, by their forms.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/npu_bench.h"
#include "cli/bench_commands.h"
#include "cli/flags.h"
#include "cli/npu_flags.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"

namespace thermocline::cli {
namespace {

struct NpuBenchFlags {
  ModelFlags model;
  SessionFlags session;
  NpuDeviceFlags device;
  bench::NpuBenchOptions options;
  std::vector<int64_t> rows;
  std::vector<int64_t> contexts;
  std::vector<int64_t> layers_per_graph;
  int64_t repetitions = 5;
  bench::BenchFormat format = bench::BenchFormat::kMarkdown;
};

Status StoreModes(const std::string& text, std::vector<bench::NpuMode>& modes) {
  std::vector<std::string> names;
  for (const bench::NpuMode& mode : bench::NpuModes()) {
    names.emplace_back(NameOf(mode));
  }
  modes.clear();
  for (const std::string& name : SplitAtCommas(text)) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      return NotOneOf(name, fmt::format("{}", fmt::join(names, ", ")));
    }
    modes.push_back(
        bench::NpuModes()[static_cast<size_t>(found - names.begin())]);
  }
  return {};
}

Status Bench(const NpuBenchFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model,
                      OpenModel(flags.model, progress, &flags.session));
  TC_ASSIGN_OR_RETURN(const auto device, OpenNpuDevice(flags.device));
  bench::NpuBenchOptions options = flags.options;
  TC_ASSIGN_OR_RETURN(
      options.host,
      MakeSessionOptions(flags.session, model->config(), progress));
  if (!flags.rows.empty()) options.rows = flags.rows;
  if (!flags.contexts.empty()) options.contexts = flags.contexts;
  if (!flags.layers_per_graph.empty()) {
    options.layers_per_graph.assign(flags.layers_per_graph.begin(),
                                    flags.layers_per_graph.end());
  }
  options.repetitions = static_cast<int>(flags.repetitions);
  options.compile = CompileOptionsOf(flags.device, flags.session.num_threads);
  options.compile.cancel = CancelFlag();
  options.progress = progress.callback();
  auto report = bench::RunNpuBench(model, device, options);
  progress.Clear();
  TC_RETURN_IF_ERROR(report);
  CompleteSubject(report->subject);
  std::string table = bench::FormatNpuBench(*report, flags.format);
  if (flags.format == bench::BenchFormat::kMarkdown) {
    table += DescribeBuild(report->subject, *model);
  }
  return WriteStdout(table);
}

void AddShapeFlags(CLI::App& app, NpuBenchFlags& flags) {
  AddWeightForms(app, flags.options.weights, /*takes_several=*/true);
  AddParsed(app, "--modes", "NAME,...",
            "append (default), param, and for comparison roll, stateful and "
            "scatter",
            [&flags](const std::string& text) {
              return StoreModes(text, flags.options.modes);
            });
  AddIntList(app, "--tokens", flags.rows, 1, 4096,
             "Rows of the graphs for prompts (default 128); 1: NITRO's own");
  AddIntList(app, "--context", flags.contexts, 64, 1 << 20,
             "Positions that graphs have, multiples of 64 (default 512)");
  AddIntList(app, "--layers-per-graph", flags.layers_per_graph, 0, 4096,
             "0: all layers in one (default 0)");
  AddInt(app, "-p,--n-prompt", flags.options.num_prompt, 1, 1 << 20,
         "Tokens of the prompt (default 128)");
  AddInt(app, "-n,--n-gen", flags.options.num_generate, 1, 1 << 20,
         "Tokens to generate (default 8)");
  AddInt(app, "-r,--repetitions", flags.repetitions, 1, 1000,
         "Of each row (default 5)");
}

}  // namespace

void AddNpuBenchCommand(CLI::App& npu, Action& action) {
  auto flags = std::make_shared<NpuBenchFlags>();
  CLI::App* app = npu.add_subcommand(
      "bench", "Speeds of static graphs, beside the host's own");
  AddRequiredPath(*app, "MODEL", flags->model.path, "", "A GGUF file");
  AddNpuDeviceFlags(*app, flags->device);
  AddShapeFlags(*app, *flags);
  AddThreadsFlag(*app, flags->session);
  AddFormatFlag(*app, flags->format);
  app->footer(
      "A row for every weights, mode, context, layers and tokens; X: the "
      "device\nrefused it, as the lines below say.\n\nExamples:\n"
      "  thermocline npu bench m.gguf --device CPU --modes "
      "append,roll,stateful,scatter,param\n"
      "  thermocline npu bench m.gguf --weights f16,i8-cw,i4-cw,i8-asym "
      "--context 128,512,2048");
  app->callback(
      [flags, &action] { action = [flags] { return Bench(*flags); }; });
}

}  // namespace thermocline::cli
