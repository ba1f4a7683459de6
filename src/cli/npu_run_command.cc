// `thermocline npu run`: `run`, with all of a model on a device for static
// graphs.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/chat_command.h"
#include "cli/flags.h"
#include "cli/npu_flags.h"
#include "cli/open_model.h"
#include "cli/parse_text.h"
#include "cli/run_flags.h"
#include "cli/signals.h"
#include "cli/standard_io.h"
#include "cli/terminal.h"
#include "engine/runtime.h"
#include "engine/static_session.h"
#include "npu/export.h"

namespace thermocline::cli {
namespace {

constexpr int64_t kMostNpuRows = 4096;

struct NpuRunFlags {
  RunFlags run;
  NpuDeviceFlags device;
  std::vector<npu::WeightForm> weights = {npu::WeightForm::kExact};
  npu::KvForm kv = npu::KvForm::kAppend;
  std::vector<int64_t> rows;
  int64_t layers_per_graph = 0;
  bool weights_are_inputs = false;
  std::string given;  // of the flags for files the first that was given
};

// Of the flags alone; for folders npu::OptionsOf.
Result<npu::StaticOptions> GraphsOf(const NpuRunFlags& flags,
                                    const model::Config& config,
                                    const engine::SessionOptions& options) {
  npu::StaticOptions graphs;
  graphs.weights = flags.weights[0];
  graphs.kv = flags.kv;
  graphs.weights_are_inputs = flags.weights_are_inputs;
  graphs.layers_per_program = static_cast<size_t>(flags.layers_per_graph);
  graphs.rows = {1, 128};
  if (flags.kv != npu::KvForm::kAppend) graphs.rows = {1};
  if (!flags.rows.empty()) graphs.rows = flags.rows;
  graphs.context = engine::ContextOf(config, options);
  TC_ASSIGN_OR_RETURN(graphs.unpack_threads, engine::NumThreadsOf(options));
  return graphs;
}

// folder: of npu export, or empty.
Result<std::unique_ptr<engine::Session>> MakeNpuSession(
    const NpuRunFlags& flags, const std::string& folder,
    std::shared_ptr<const model::Model> model,
    const engine::SessionOptions& options) {
  engine::StaticSessionOptions session;
  if (folder.empty()) {
    TC_ASSIGN_OR_RETURN(session.graphs,
                        GraphsOf(flags, model->config(), options));
  } else {
    TC_ASSIGN_OR_RETURN(const npu::ExportedModel exported,
                        npu::ReadExport(folder));
    TC_ASSIGN_OR_RETURN(session.graphs,
                        npu::OptionsOf(exported, folder, *model));
  }
  session.graphs.compile =
      CompileOptionsOf(flags.device, flags.run.session.num_threads);
  session.graphs.compile.cancel = CancelFlag();
  session.graphs.progress = options.progress;
  session.budget = options.budget;
  session.cancel = CancelFlag();
  TC_ASSIGN_OR_RETURN(auto device, OpenNpuDevice(flags.device));
  return engine::MakeStaticSession(std::move(model), std::move(device),
                                   session);
}

// A folder names the model that it was made of.
Result<RunFlags> Resolve(const NpuRunFlags& flags) {
  RunFlags run = flags.run;
  std::string folder;
  std::error_code ignored;
  if (std::filesystem::is_directory(run.model.path, ignored)) {
    folder = run.model.path;
    if (!flags.given.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{} is for a GGUF file: the graphs of the folder '{}' are "
                  "what they were exported as",
                  flags.given, folder);
    }
    TC_ASSIGN_OR_RETURN(const npu::ExportedModel exported,
                        npu::ReadExport(folder));
    run.model.path = exported.model_path;
  }
  run.make_session = [&flags, folder](auto model, const auto& options) {
    return MakeNpuSession(flags, folder, std::move(model), options);
  };
  return run;
}

Status StoreKvForm(const std::string& text, npu::KvForm& form) {
  const auto named = npu::ParseKvForm(text);
  if (!named) return NotOneOf(text, "append, scatter, roll, stateful");
  form = *named;
  return {};
}

void AddGraphFlags(CLI::App& app, NpuRunFlags& flags) {
  AddNpuDeviceFlags(app, flags.device);
  AddWeightForms(app, flags.weights, /*takes_several=*/false);
  AddIntList(app, "--tokens", flags.rows, 1, kMostNpuRows,
             "Rows of the graphs, ascending (default 1,128)");
  AddInt(app, "--layers-per-graph", flags.layers_per_graph, 0, 4096,
         "0: all layers in one (default 0)");
  app.add_flag("--param", flags.weights_are_inputs,
               "Weights are inputs of one graph for all layers");
  AddParsed(app, "--kv", "FORM",
            "Keys and values: append (default), or for comparison scatter, "
            "roll and stateful, as NITRO has them",
            [&flags](const std::string& text) {
              return StoreKvForm(text, flags.kv);
            });
}

// Empty: none.
std::string GivenForFiles(const CLI::App& app) {
  for (const char* name : {"--weights", "--tokens", "--layers-per-graph",
                           "--param", "--kv", "--ctx-size"}) {
    if (app.count(name) > 0) return name;
  }
  return "";
}

}  // namespace

void AddNpuRunCommand(CLI::App& npu, Action& action) {
  auto flags = std::make_shared<NpuRunFlags>();
  CLI::App* app = npu.add_subcommand(
      "run", "Continues a text, or chats, on a device for static graphs");
  AddRequiredPath(*app, "MODEL", flags->run.model.path, "",
                  "A GGUF file, or a folder of npu export");
  AddTextFlags(*app, flags->run);
  AddThreadsFlag(*app, flags->run.session);
  AddContextFlag(*app, flags->run.session, "the model's, at most 4096");
  AddGraphFlags(*app, *flags);
  app->footer(
      "Every neuron is computed. What 'run' says of texts and chats holds "
      "here too.\n\nExamples:\n"
      "  thermocline npu run model.gguf --device CPU -p \"Once upon a time\"\n"
      "  thermocline npu run graphs --device NPU -cnv --cache compiled");
  app->callback([app, flags, &action] {
    flags->given = GivenForFiles(*app);
    const bool chat = WantsChat(flags->run, StdinIsTerminal());
    action = [flags, chat]() -> Status {
      TC_ASSIGN_OR_RETURN(const RunFlags run, Resolve(*flags));
      return chat ? RunChat(run) : RunText(run);
    };
  });
}

}  // namespace thermocline::cli
