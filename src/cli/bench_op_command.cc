// `thermocline bench op`: a layer's neurons, sparse against dense, and in place
// against moved.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "bench/op_bench.h"
#include "cli/bench_commands.h"
#include "cli/device_flags.h"
#include "cli/flags.h"
#include "cli/parse_text.h"
#include "cli/session_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "device/sim/machine.h"
#include "os/cpu_name.h"
#include "os/memory.h"
#include "os/thread_pool.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMostExtent = 1 << 20;
constexpr int64_t kMostRounds = 1000;

struct OpFlags {
  std::vector<std::string> devices = {"host"};
  std::optional<std::string> machine;
  int64_t width = 5120;
  int64_t num_neurons = 13824;
  DType dtype = DType::kQ4_0;
  int64_t num_threads = 0;
  kernels::Isa isa = kernels::BestIsa();
  int64_t rounds = 5;
  int64_t seed = 1;
  uint64_t most_bytes = 2 * kGiB;
  bench::BenchFormat format = bench::BenchFormat::kMarkdown;

  bool has(const std::string& device) const {
    return std::ranges::find(devices, device) != devices.end();
  }
};

Status StoreDevices(const std::string& text, OpFlags& flags) {
  flags.devices.clear();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    if (name != "host" && name != "sim" && !IsCudaName(name)) {
      return NotOneOf(name, "host, sim, cuda, cuda0, cuda1");
    }
    if (flags.has(name)) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' is there twice", name);
    }
    flags.devices.push_back(name);
    begin = end + 1;
  }
  return {};
}

Result<bench::OpTarget> TargetOf(const std::string& name,
                                 const OpFlags& flags) {
  bench::OpTarget target;
  if (name == "sim") {
    TC_ASSIGN_OR_RETURN(target.machine, device::ReadMachine(*flags.machine));
  } else if (name != "host") {
    DeviceFlags device;
    device.name = name;
    TC_ASSIGN_OR_RETURN(target.device, OpenDevice(device));
  }
  return target;
}

Result<bench::OpReport> MeasureOp(const OpFlags& flags) {
  ProgressLine progress;
  bench::OpBenchOptions options = {
      .shape = {.dtype = flags.dtype,
                .width = static_cast<size_t>(flags.width),
                .num_neurons = static_cast<size_t>(flags.num_neurons)},
      .num_threads = static_cast<int>(flags.num_threads),
      .isa = flags.isa,
      .rounds = static_cast<int>(flags.rounds),
      .most_bytes = flags.most_bytes,
      .seed = static_cast<uint64_t>(flags.seed),
      .progress = progress.callback()};
  // Of all devices first: a missing one is known before anything is measured.
  for (const std::string& name : flags.devices) {
    TC_ASSIGN_OR_RETURN(options.targets.emplace_back(), TargetOf(name, flags));
  }
  ExitOnInterrupt exit_on_interrupt;
  return bench::RunOpBench(options);
}

Status RunOp(const OpFlags& flags) {
  TC_ASSIGN_OR_RETURN(bench::OpReport report, MeasureOp(flags));
  report.build = TC_VERSION;
  // What is simulated says the same on every machine.
  if (flags.devices == std::vector<std::string>{"sim"}) {
    report.isa.clear();
  } else {
    report.cpu = os::ReadCpuName();
  }
  std::string text = bench::FormatOp(report, flags.format);
  if (flags.format == bench::BenchFormat::kMarkdown) {
    text += fmt::format("\nbuild: thermocline {}", TC_VERSION);
    if (!report.isa.empty()) {
      text += fmt::format(", {}, {}", report.isa, report.cpu);
    }
    text += "\n";
  }
  return WriteStdout(text);
}

void CheckOpFlags(const OpFlags& flags) {
  if (flags.has("sim") != flags.machine.has_value()) {
    throw CLI::ValidationError(
        flags.machine ? "--machine is what --device sim simulates"
                      : "--device sim: say with --machine which machine's "
                        "rates it has (machines/*.json)");
  }
  const bench::OpShape shape = {
      .dtype = flags.dtype,
      .width = static_cast<size_t>(flags.width),
      .num_neurons = static_cast<size_t>(flags.num_neurons)};
  const Status status = bench::CheckShape(shape);
  if (!status) throw CLI::ValidationError("--width", status.error().message);
}

void AddOpShapeFlags(CLI::App& app, OpFlags& flags) {
  AddInt(app, "--width", flags.width, 1, kMostExtent,
         "Elements of a neuron's rows (default 5120)");
  AddInt(app, "--neurons", flags.num_neurons, 1, kMostExtent,
         "Neurons of the layer (default 13824)");
  AddDType(app, "--type", flags.dtype,
           {DType::kQ4_0, DType::kQ8_0, DType::kF16},
           "Type of the weights: q4_0, q8_0, f16 (default q4_0)");
  AddInt(app, "--seed", flags.seed, 0, INT64_MAX,
         "Of weights, inputs and sets (default 1)");
  AddParsed(app, "--memory", "SIZE",
            "Most that copies of the layer take, on each device (default "
            "2GiB)",
            [&flags](const std::string& text) -> Status {
              TC_ASSIGN_OR_RETURN(flags.most_bytes, ParseSize(text));
              return {};
            });
}

}  // namespace

void AddBenchOpCommand(CLI::App& bench, CLI::Option& bench_model,
                       Action& action) {
  auto flags = std::make_shared<OpFlags>();
  CLI::App* app = bench.add_subcommand(
      "op", "Measures a layer's neurons: sparse and dense, in place and moved");
  AddParsed(*app, "--device", "NAME,...",
            "Who computes them: host, cuda, cuda0 and on, sim (a simulated "
            "one, see --machine; default host)",
            [flags = flags.get()](const std::string& text) {
              return StoreDevices(text, *flags);
            });
  AddPath(*app, "--machine", flags->machine, "FILE",
          "Rates of the machine that --device sim simulates");
  AddOpShapeFlags(*app, *flags);
  AddInt(*app, "-t,--threads", flags->num_threads, 0,
         os::ThreadPool::kMaxThreads,
         "Threads of the host (default 0: one per physical core)");
  AddIsaFlag(*app, flags->isa);
  AddInt(*app, "-r,--repetitions", flags->rounds, 1, kMostRounds,
         "Rounds, after one to warm up (default 5)");
  AddFormatFlag(*app, flags->format);
  app->footer(
      "Needs no model: weights, inputs and which neurons are computed come "
      "from a seed.\nEvery result is checked before its time counts. With a "
      "device also: neurons of the\nhost computed there, against moving them "
      "first.\n\n"
      "Examples:\n"
      "  thermocline bench op\n"
      "  thermocline bench op --device host,cuda --type q8_0 -r 10\n"
      "  thermocline bench op --device sim --machine "
      "machines/rtx4090-ddr5.json -o csv");
  app->preparse_callback(
      [&bench_model](size_t) { bench_model.required(false); });
  app->callback([flags, &action] {
    CheckOpFlags(*flags);
    action = [flags] { return RunOp(*flags); };
  });
}

}  // namespace thermocline::cli
