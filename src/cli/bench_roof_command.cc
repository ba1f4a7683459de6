// `thermocline bench roof`: what this machine can do at best.
#include "bench/roof.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_commands.h"
#include "cli/flags.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/session_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/cache_line.h"
#include "os/cpu_name.h"

namespace thermocline::cli {
namespace {

constexpr uint64_t kMinReadBytes = 1 << 20;

struct RoofFlags {
  std::optional<std::string> model_path;
  std::vector<int64_t> threads;
  kernels::Isa isa = kernels::BestIsa();
  bool reads_only = false;
  std::optional<int64_t> row_bytes;
  uint64_t read_bytes = 0;  // 0: as the caches and the model ask for
  bench::BenchFormat format = bench::BenchFormat::kMarkdown;
};

Result<bench::RoofReport> Measure(const RoofFlags& flags) {
  ProgressLine progress;
  bench::RoofOptions options;
  options.threads.assign(flags.threads.begin(), flags.threads.end());
  options.isa = flags.isa;
  options.measure_products = !flags.reads_only;
  options.row_bytes = static_cast<size_t>(flags.row_bytes.value_or(0));
  options.probe_bytes = flags.read_bytes;
  if (flags.model_path.has_value()) {
    const ModelFlags model_flags = {.path = *flags.model_path};
    TC_ASSIGN_OR_RETURN(options.model, OpenModel(model_flags, progress));
  }
  options.progress = progress.callback();
  ExitOnInterrupt exit_on_interrupt;
  return bench::MeasureRoof(options);
}

Status Run(const RoofFlags& flags) {
  TC_ASSIGN_OR_RETURN(bench::RoofReport report, Measure(flags));
  report.build = TC_VERSION;
  report.cpu = os::ReadCpuName();
  std::string text = bench::FormatRoof(report, flags.format);
  if (flags.format == bench::BenchFormat::kMarkdown) {
    text += fmt::format("\nbuild: thermocline {}, {}, {}\n", TC_VERSION,
                        report.isa, report.cpu);
  }
  return WriteStdout(text);
}

void CheckRowBytes(const RoofFlags& flags) {
  const int64_t row_bytes = flags.row_bytes.value_or(0);
  if (row_bytes % static_cast<int64_t>(os::kCacheLine) == 0) return;
  throw CLI::ValidationError(
      "--rows", fmt::format("{} is no multiple of {}: rows are read by cache "
                            "lines",
                            row_bytes, os::kCacheLine));
}

}  // namespace

void AddBenchRoofCommand(CLI::App& bench, CLI::Option& bench_model,
                         Action& action) {
  auto flags = std::make_shared<RoofFlags>();
  CLI::App* app = bench.add_subcommand(
      "roof", "Measures what memory and the kernels can do at best");
  AddPath(*app, "-m,--model", flags->model_path, "FILE",
          "Also the speeds that a model could reach");
  AddThreadListFlag(*app, flags->threads, "1, 2, 4, ... physical cores");
  AddIsaFlag(*app, flags->isa);
  app->add_flag("--reads-only", flags->reads_only,
                "Measure memory alone, not the kernels");
  AddInt(*app, "--rows", flags->row_bytes, 64, 65536,
         "Also read rows of so many bytes that lie apart, as sparse layers do");
  AddParsed(*app, "--read-size", "SIZE",
            "Memory to read (default: more than the caches hold)",
            [flags = flags.get()](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags->read_bytes, ParseSize(text));
              if (flags->read_bytes >= kMinReadBytes) return {};
              return Fail(ErrorCode::kInvalidArgument,
                          "'{}' is less than 1MiB: too little to time", text);
            });
  AddFormatFlag(*app, flags->format);
  app->footer(
      "Reads memory in sequence, more of it than the caches hold, and "
      "multiplies\nweights of each type in the cache, after checking the "
      "products. From both\nfollows how fast a model could be.\n\n"
      "Examples:\n"
      "  thermocline bench roof\n"
      "  thermocline bench roof -t 1,2 --isa avx2 -o json\n"
      "  thermocline bench roof -m model.gguf\n"
      "  thermocline bench roof --reads-only --rows 1152");
  app->preparse_callback(
      [&bench_model](size_t) { bench_model.required(false); });
  app->callback([flags, &action] {
    CheckRowBytes(*flags);
    action = [flags] { return Run(*flags); };
  });
}

}  // namespace thermocline::cli
