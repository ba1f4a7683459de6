// `thermocline bench io`: what storage gives.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "bench/io_format.h"
#include "cli/bench_commands.h"
#include "cli/flags.h"
#include "cli/output_file.h"
#include "cli/parse_text.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "os/cpu_name.h"
#include "os/file.h"
#include "probe/storage_rates.h"

namespace thermocline::cli {
namespace {

// With the largest blocks they take 512 MiB.
constexpr int64_t kMostUnderWay = 256;
constexpr uint64_t kLeastFileBytes = 2 * kMiB;

struct IoFlags {
  std::string path;
  std::optional<uint64_t> made_bytes;
  std::vector<int64_t> depths;
  std::string reader;  // empty: the best there is
  float seconds = 0.3F;
  bench::BenchFormat format = bench::BenchFormat::kMarkdown;
  std::optional<std::string> svg_path;
  std::optional<int64_t> cpu;
  bool registered = false;
};

Result<bench::IoReport> MeasureIo(const IoFlags& flags) {
  // A file that is made has no name: nothing is left behind.
  ExitOnInterrupt exit_on_interrupt;
  bench::IoReport report = {.path = flags.path};
  std::error_code ignored;
  report.is_made = std::filesystem::is_directory(flags.path, ignored);
  probe::TestFile made;
  std::string path = flags.path;
  if (report.is_made) {
    ProgressLine progress(ProgressUnit::kBytes);
    TC_ASSIGN_OR_RETURN(
        made, probe::MakeTestFile(flags.path, flags.made_bytes.value_or(kGiB),
                                  1, progress.callback()));
    path = made.path;
  } else if (flags.made_bytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: is no folder to make a file in, and has its own size: "
                "leave out --size",
                flags.path);
  }
  ProgressLine progress;
  probe::StorageRatesOptions options = {.reader = flags.reader,
                                        .seconds = double{flags.seconds},
                                        .registered = flags.registered,
                                        .progress = progress.callback()};
  if (flags.cpu) options.cpu = static_cast<int>(*flags.cpu);
  if (!flags.depths.empty()) {
    options.depths.assign(flags.depths.begin(), flags.depths.end());
  }
  TC_ASSIGN_OR_RETURN(report.rates, probe::MeasureStorage(path, options));
  return report;
}

Status RunIo(const IoFlags& flags) {
  std::vector<std::string> outputs;
  if (flags.svg_path) outputs.push_back(*flags.svg_path);
  for (const std::string& path : outputs) {
    TC_RETURN_IF_ERROR(CheckOutput(path, std::vector<std::string>{flags.path}));
  }
  TC_ASSIGN_OR_RETURN(bench::IoReport report, MeasureIo(flags));
  report.build = TC_VERSION;
  report.cpu = os::ReadCpuName();
  std::string text = bench::FormatIo(report, flags.format);
  if (flags.format == bench::BenchFormat::kMarkdown) {
    text += fmt::format("build: thermocline {}, {}{}\n", TC_VERSION, report.cpu,
                        flags.cpu ? fmt::format(", CPU {}", *flags.cpu) : "");
  }
  if (!flags.svg_path) return WriteStdout(text);
  TC_ASSIGN_OR_RETURN(const std::unique_ptr<os::AtomicFile> file,
                      os::AtomicFile::Create(*flags.svg_path));
  TC_RETURN_IF_ERROR(file->Write(std::string_view(bench::DrawIo(report))));
  TC_RETURN_IF_ERROR(file->Commit());
  return WriteReport(text, outputs);
}

Status StoreReader(const std::string& text, IoFlags& flags) {
  if (text != "io_uring" && text != "pread") {
    return NotOneOf(text, "io_uring, pread");
  }
  flags.reader = text;
  return {};
}

Status StoreFileSize(const std::string& text, IoFlags& flags) {
  TC_ASSIGN_OR_RETURN(flags.made_bytes, ParseSize(text));
  if (*flags.made_bytes >= kLeastFileBytes) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "'{}' is less than 2MiB, the largest block", text);
}

constexpr const char* kIoFooter =
    "Needs no model. Blocks of 4 KiB to 2 MiB, in sequence and at random "
    "over as much\nof 128 MiB to 4 GiB as the file has, and 4 KiB at random "
    "within less of it. MB:\n1e6 bytes. P50, P99: half, and 99 of 100 "
    "reads took at most so long.\n\n"
    "Examples:\n"
    "  thermocline bench io model.gguf\n"
    "  thermocline bench io . --size 4GiB --depth 1,32 -o csv\n"
    "  thermocline bench io . --reader pread --seconds 1";

}  // namespace

void AddBenchIoCommand(CLI::App& bench, CLI::Option& bench_model,
                       Action& action) {
  auto flags = std::make_shared<IoFlags>();
  CLI::App* app = bench.add_subcommand(
      "io", "Measures storage: reads by order, size, range and depth");
  AddRequiredPath(*app, "PATH", flags->path, "",
                  "A file to read, or a folder to make one in for that time");
  AddParsed(*app, "--size", "SIZE",
            "Of the file that is made in a folder (default 1GiB)",
            [flags = flags.get()](const std::string& text) {
              return StoreFileSize(text, *flags);
            });
  AddIntList(*app, "--depth", flags->depths, 1, kMostUnderWay,
             "Reads under way at once (default 1,8,32,64)");
  AddParsed(*app, "--reader", "NAME",
            "io_uring, pread (default: io_uring, or where that is refused "
            "pread)",
            [flags = flags.get()](const std::string& text) {
              return StoreReader(text, *flags);
            });
  app->add_flag("--registered", flags->registered,
                "To buffers that the kernel knows, as a model's slots are");
  AddFloat(*app, "--seconds", flags->seconds, 0.001, 60.0,
           "For each row (default 0.3)");
  AddInt(*app, "--cpu", flags->cpu, 0, 1 << 16,
         "CPU that submits and reaps (default: any)");
  AddPath(*app, "--svg", flags->svg_path, "FILE",
          "Also draws MB/s by block size, a line for each depth");
  AddFormatFlag(*app, flags->format);
  app->footer(kIoFooter);
  app->preparse_callback(
      [&bench_model](size_t) { bench_model.required(false); });
  app->callback(
      [flags, &action] { action = [flags] { return RunIo(*flags); }; });
}

}  // namespace thermocline::cli
