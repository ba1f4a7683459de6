// `thermocline npu export`: a model's graphs as a folder of OpenVINO's files.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/units.h"
#include "cli/flags.h"
#include "cli/npu_flags.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "npu/export.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMostExportRows = 4096;
constexpr int64_t kMostExportContext = 1 << 20;

struct NpuExportFlags {
  ModelFlags model;
  std::string folder;
  std::vector<npu::WeightForm> weights = {npu::WeightForm::kExact};
  std::vector<int64_t> rows;
  std::vector<int64_t> contexts;
  int64_t layers_per_graph = 0;
  bool is_nitro = false;
};

npu::ExportOptions ExportOptionsOf(const NpuExportFlags& flags,
                                   ProgressLine& progress) {
  npu::ExportOptions options;
  options.weights = flags.weights[0];
  if (!flags.rows.empty()) options.rows = flags.rows;
  if (!flags.contexts.empty()) options.contexts = flags.contexts;
  options.layers_per_graph = static_cast<size_t>(flags.layers_per_graph);
  options.is_nitro = flags.is_nitro;
  options.progress = progress.callback();
  return options;
}

// So that a full disk is told before anything is written.
Status CheckRoom(const std::string& folder, uint64_t num_bytes) {
  std::error_code error;
  const auto parent = std::filesystem::path(folder).parent_path();
  const auto space =
      std::filesystem::space(parent.empty() ? "." : parent, error);
  if (error || space.available >= num_bytes) return {};
  return Fail(ErrorCode::kIo, "{}: graphs take about {}, and {} are free there",
              folder, FormatBytes(num_bytes), FormatBytes(space.available));
}

Status Export(const NpuExportFlags& flags) {
  ProgressLine progress;
  TC_ASSIGN_OR_RETURN(const auto model, OpenModel(flags.model, progress));
  const npu::ExportOptions options = ExportOptionsOf(flags, progress);
  TC_RETURN_IF_ERROR(npu::CheckExport(*model, flags.folder, options));
  const uint64_t num_bytes = npu::RoughExportBytes(*model, options);
  TC_RETURN_IF_ERROR(CheckRoom(flags.folder, num_bytes));
  WriteStderr(fmt::format("writing about {}\n", FormatBytes(num_bytes)));
  npu::UnpackError error;
  const Status status = npu::ExportModel(*model, flags.folder, options, &error);
  progress.Clear();
  TC_RETURN_IF_ERROR(status);
  if (error.worst > 0.0) {
    WriteStderr(fmt::format(
        "weights as {}: at most {:.2e} from the file's (root of squared error "
        "over squared signal, {})\n",
        npu::NameOf(options.weights), error.worst, error.worst_name));
  }
  return WriteStdout(Wrote(flags.folder) + "\n");
}

}  // namespace

void AddNpuExportCommand(CLI::App& npu, Action& action) {
  auto flags = std::make_shared<NpuExportFlags>();
  CLI::App* app = npu.add_subcommand(
      "export", "Writes a model's graphs, as NITRO lays them out");
  AddRequiredPath(*app, "MODEL", flags->model.path, "", "A GGUF file");
  AddRequiredPath(*app, "-o,--output", flags->folder, "DIR",
                  "A folder that is not there yet");
  AddWeightForms(*app, flags->weights, /*takes_several=*/false);
  AddIntList(*app, "--tokens", flags->rows, 1, kMostExportRows,
             "Rows of the graphs, ascending (default 1,8,128)");
  AddIntList(*app, "--context", flags->contexts, 64, kMostExportContext,
             "Positions that they have, multiples of 64, ascending (default "
             "512,2048)");
  AddInt(*app, "--layers-per-graph", flags->layers_per_graph, 0, 4096,
         "0: all layers in one (default 0)");
  app->add_flag("--nitro", flags->is_nitro,
                "As NITRO does: one row, the first context, keys and values as "
                "variables of the device, the embedding as a graph");
  app->footer(
      "DIR/model has the .xml and .bin files, which OpenVINO's own tools "
      "read;\nDIR/variants.json says which there are.\n\nExamples:\n"
      "  thermocline npu export model.gguf -o graphs --weights i8-cw\n"
      "  thermocline npu export model.gguf -o graphs --nitro --context 512");
  app->callback(
      [flags, &action] { action = [flags] { return Export(*flags); }; });
}

}  // namespace thermocline::cli
