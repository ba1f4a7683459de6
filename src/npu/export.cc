#include "npu/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/math.h"
#include "npu/block.h"
#include "npu/chunk_plan.h"
#include "npu/export_text.h"
#include "npu/ir.h"
#include "npu/layer_inputs.h"
#include "os/file.h"

namespace thermocline::npu {
namespace {

namespace fs = std::filesystem;

// A graph of the folder, and what makes it.
struct ExportedGraph {
  GraphName name;
  bool is_embedding = false;
  std::string file;  // in DIR/model, without ending
};

std::string FileOf(const GraphName& name, bool is_nitro, size_t num_layers,
                   size_t layers_per_graph) {
  const size_t chunk = name.first_layer / layers_per_graph;
  if (is_nitro) {
    const size_t num_chunks =
        (num_layers + layers_per_graph - 1) / layers_per_graph;
    return fmt::format("{}", name.is_head ? num_chunks + 1 : chunk + 1);
  }
  if (name.is_head) return fmt::format("head_t{}", name.rows);
  return fmt::format("t{}_c{}_{}", name.rows, name.context, chunk);
}

size_t LayersPerGraph(size_t asked, size_t num_layers) {
  return asked == 0 ? num_layers : std::min(asked, num_layers);
}

std::vector<ExportedGraph> ListGraphs(const ExportOptions& options,
                                      size_t num_layers) {
  const size_t most = LayersPerGraph(options.layers_per_graph, num_layers);
  std::vector<ExportedGraph> graphs;
  if (options.is_nitro) {
    graphs.push_back({.name = {.rows = 1}, .is_embedding = true, .file = "0"});
  }
  const auto add = [&](const GraphName& name) {
    graphs.push_back(
        {.name = name,
         .file = FileOf(name, options.is_nitro, num_layers, most)});
  };
  for (const int64_t rows : options.rows) {
    for (const int64_t context : options.contexts) {
      for (size_t first = 0; first < num_layers; first += most) {
        add({.first_layer = first,
             .num_layers = std::min(most, num_layers - first),
             .rows = rows,
             .context = context});
      }
    }
  }
  add({.is_head = true, .rows = options.rows.front()});
  return graphs;
}

Result<Graph> Build(const model::Model& model, const ExportOptions& options,
                    const ExportedGraph& graph, UnpackError* error) {
  const GraphName& name = graph.name;
  if (graph.is_embedding) return BuildEmbedding(model, name.rows);
  if (name.is_head) return BuildHead(model, name.rows, options.weights, error);
  return BuildBlocks(
      model,
      {.first_layer = name.first_layer,
       .num_layers = name.num_layers,
       .rows = name.rows,
       .context = name.context,
       .weights = options.weights,
       .kv = options.is_nitro ? KvForm::kStateful : KvForm::kAppend},
      error);
}

// NITRO has one number of rows and one context.
ExportOptions Definite(ExportOptions options) {
  if (options.is_nitro) {
    options.rows = {1};
    options.contexts.resize(1);
  }
  return options;
}

Status WriteText(const fs::path& path, const std::string& text) {
  TC_ASSIGN_OR_RETURN(const auto file, os::AtomicFile::Create(path.string()));
  TC_RETURN_IF_ERROR(file->Write(text));
  return file->Commit();
}

// Positions that a sequence may have: whichever it is, it has to begin a chunk
// of the fewest rows, and to be one that the model learned.
int64_t ReachOf(const ExportedModel& exported, const model::Config& config) {
  const int64_t context = exported.contexts.back() - exported.rows.front() + 1;
  return config.num_positions > 0 ? std::min(context, config.num_positions)
                                  : context;
}

Status WriteAll(const model::Model& model, const fs::path& folder,
                const ExportOptions& options, UnpackError* error) {
  std::error_code failed;
  const fs::path model_path = fs::absolute(model.file().path(), failed);
  if (failed) {
    return Fail(ErrorCode::kIo, "{}: the working folder cannot be told: {}",
                model.file().path(), failed.message());
  }
  const size_t num_layers = model.config().layers.size();
  const std::vector<ExportedGraph> graphs = ListGraphs(options, num_layers);
  fs::create_directories(folder / "model" / "cache", failed);
  if (failed) {
    return Fail(ErrorCode::kIo, "{}: cannot make the folder: {}",
                folder.string(), failed.message());
  }
  for (size_t i = 0; i < graphs.size(); ++i) {
    ReportProgress(options.progress, "graphs", i, graphs.size());
    TC_ASSIGN_OR_RETURN(const Graph graph,
                        Build(model, options, graphs[i], error));
    TC_RETURN_IF_ERROR(
        WriteIrFiles(graph, (folder / "model" / graphs[i].file).string()));
  }
  ReportProgress(options.progress, "graphs", graphs.size(), graphs.size());
  const ExportedModel exported = {
      .model_path = model_path.string(),
      .model = model::FingerprintOf(model),
      .weights = options.weights,
      .kv = options.is_nitro ? KvForm::kStateful : KvForm::kAppend,
      .rows = options.rows,
      .contexts = options.contexts,
      .layers_per_graph = LayersPerGraph(options.layers_per_graph, num_layers)};
  TC_RETURN_IF_ERROR(
      WriteText(folder / "config.json", FormatModelFacts(model.config())));
  return WriteText(folder / "variants.json", FormatExport(exported));
}

}  // namespace

Status CheckExport(const model::Model& model, const std::string& folder,
                   const ExportOptions& options) {
  const ExportOptions definite = Definite(options);
  TC_RETURN_IF_ERROR(CheckShapes({definite.rows, definite.contexts}));
  TC_RETURN_IF_ERROR(CheckCanBuild(model));
  if (!os::HasEntry(folder)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "{}: is there already; graphs go to a folder of their own",
              folder);
}

Status ExportModel(const model::Model& model, const std::string& folder,
                   const ExportOptions& options, UnpackError* error) {
  TC_RETURN_IF_ERROR(CheckExport(model, folder, options));
  const ExportOptions definite = Definite(options);
  const Status status = WriteAll(model, folder, definite, error);
  if (!status.has_value()) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  return status;
}

uint64_t RoughExportBytes(const model::Model& model,
                          const ExportOptions& options) {
  const ExportOptions definite = Definite(options);
  const uint64_t num_variants = definite.rows.size() * definite.contexts.size();
  uint64_t sum =
      MatrixBytesOf(model.weights().head, definite.weights).num_bytes;
  for (size_t i = 0; i < model.config().layers.size(); ++i) {
    const auto inputs = LayerInputs(model, i, definite.weights);
    if (!inputs.has_value()) return 0;
    for (const LayerInput& input : *inputs) {
      sum += num_variants * NumBytes(input.type);
    }
  }
  if (definite.is_nitro) {
    sum += MatrixBytesOf(model.weights().token_embedding, WeightForm::kF16)
               .num_bytes;
  }
  return sum;
}

Result<ExportedModel> ReadExport(const std::string& folder) {
  const std::string path = (fs::path(folder) / "variants.json").string();
  auto text = os::ReadFile(path, uint64_t{1} << 20);
  if (!text.has_value() && text.error().code == ErrorCode::kNotFound) {
    return Fail(ErrorCode::kNotFound,
                "{}: no folder of graphs: it has no variants.json", folder);
  }
  TC_RETURN_IF_ERROR(text);
  return ParseExport(*text, path);
}

Result<StaticOptions> OptionsOf(const ExportedModel& exported,
                                const std::string& folder,
                                const model::Model& model) {
  TC_RETURN_IF_ERROR(model::CheckSameModel(
      exported.model, model, fmt::format("{}: was exported", folder)));
  const size_t num_layers = model.config().layers.size();
  const size_t layers_per_graph =
      LayersPerGraph(exported.layers_per_graph, num_layers);
  const bool is_nitro = exported.kv == KvForm::kStateful;
  StaticOptions options;
  options.weights = exported.weights;
  options.kv = exported.kv;
  options.layers_per_program = layers_per_graph;
  options.rows = exported.rows;
  options.contexts = exported.contexts;
  options.context = ReachOf(exported, model.config());
  options.read_graph = [=, config = model.config(), kv = exported.kv](
                           const GraphName& name) -> Result<Graph> {
    const std::string file =
        FileOf(name, is_nitro, num_layers, layers_per_graph);
    const std::string path =
        (fs::path(folder) / "model" / (file + ".xml")).string();
    TC_ASSIGN_OR_RETURN(Graph graph, ReadIrFiles(path));
    const Status fits = name.is_head
                            ? CheckHead(config, name.rows, graph)
                            : CheckBlocks(config,
                                          {.first_layer = name.first_layer,
                                           .num_layers = name.num_layers,
                                           .rows = name.rows,
                                           .context = name.context,
                                           .kv = kv},
                                          graph);
    if (!fits.has_value()) return Annotate(path, fits.error());
    return graph;
  };
  return options;
}

}  // namespace thermocline::npu
