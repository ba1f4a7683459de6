#include "npu/static_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "npu/block.h"
#include "npu/graph.h"

namespace thermocline::npu {

Result<Graph> StaticPrograms::LayersGraph(const ProgramKey& key) const {
  if (options_.read_graph) {
    return options_.read_graph({.first_layer = key.first_layer,
                                .num_layers = key.num_layers,
                                .rows = key.rows,
                                .context = key.context});
  }
  const BlockSpec spec = {
      .first_layer = key.first_layer,
      .num_layers = key.num_layers,
      .rows = key.rows,
      .context = key.context,
      .weights = options_.weights,
      .kv = options_.kv,
      .weights_are_inputs = options_.weights_are_inputs,
      .shows_opened = options_.shows_opened,
      .num_threads = static_cast<size_t>(options_.unpack_threads)};
  return BuildBlocks(*model_, spec);
}

Status StaticPrograms::Make(const ProgramKey& key) {
  TC_ASSIGN_OR_RETURN(const Graph graph, LayersGraph(key));
  auto program = Compile(graph, key.rows);
  if (!program.has_value()) {
    return Annotate(
        fmt::format("layers {} to {}, {} rows, context {}", key.first_layer,
                    key.first_layer + key.num_layers - 1, key.rows,
                    key.context),
        program.error());
  }
  programs_.emplace(key, *std::move(program));
  return {};
}

Result<LayersProgram> StaticPrograms::MakeHead(int64_t rows) const {
  TC_ASSIGN_OR_RETURN(const Graph graph,
                      options_.read_graph
                          ? options_.read_graph({.is_head = true, .rows = rows})
                          : BuildHead(*model_, rows, options_.weights));
  auto program = Compile(graph, rows);
  if (!program.has_value()) {
    return Annotate(fmt::format("head, {} rows", rows), program.error());
  }
  return program;
}

Status StaticPrograms::Reset() {
  for (auto& [key, program] : programs_) {
    TC_RETURN_IF_ERROR(program.program->Reset());
  }
  return {};
}

Result<LayersProgram> StaticPrograms::Compile(const Graph& graph,
                                              int64_t rows) const {
  LayersProgram made;
  CompileOptions compile = options_.compile;
  compile.is_one_row = rows == 1;
  auto program = device_->Compile(graph, compile);
  if (!program.has_value()) {
    Error error = std::move(program).error();
    // Of one whose time was over nobody has cancelled the rows.
    const std::atomic<bool>* cancel = options_.compile.cancel;
    const bool is_asked = cancel != nullptr && cancel->load();
    if (error.code == ErrorCode::kCancelled && !is_asked) {
      error.code = ErrorCode::kIo;
    }
    return tl::unexpected(std::move(error));
  }
  made.program = *std::move(program);
  const auto add = [&](const std::vector<const Node*>& nodes, bool is_result) {
    for (const Node* node : nodes) {
      const Type& type =
          is_result ? graph.type(node->inputs[0]) : node->outputs[0];
      made.tensors.push_back({node->name, type});
    }
  };
  add(graph.parameters(), false);
  add(graph.results(), true);
  return made;
}

Status StaticHead::Run(const StaticPrograms& programs,
                       const StaticActivations& of, int64_t rows,
                       std::span<const float> x, std::span<float> logits) {
  if (!program_) {
    TC_ASSIGN_OR_RETURN(LayersProgram made, programs.MakeHead(rows));
    for (const BoundTensor& tensor : made.tensors) {
      float* place = tensor.name == "x" ? of.x : of.logits;
      TC_RETURN_IF_ERROR(made.program->Bind(
          tensor.name, tensor.type, reinterpret_cast<std::byte*>(place)));
    }
    program_ = std::move(made);
  }
  const auto most = static_cast<size_t>(rows);
  const auto extent = [&](size_t i) {
    return static_cast<size_t>(program_->tensors[i].type.dims.back());
  };
  const size_t width = extent(0);
  const size_t vocab_size = extent(1);
  const size_t num_rows = x.size() / width;
  TC_CHECK(logits.size() == num_rows * vocab_size);
  for (size_t first = 0; first < num_rows; first += most) {
    const size_t count = std::min(most, num_rows - first);
    std::ranges::copy(x.subspan(first * width, count * width), of.x);
    PadRows(count, most, width, of.x);
    TC_RETURN_IF_ERROR(program_->program->Infer());
    std::ranges::copy_n(
        of.logits, static_cast<std::ptrdiff_t>(count * vocab_size),
        logits.begin() + static_cast<std::ptrdiff_t>(first * vocab_size));
  }
  return {};
}

}  // namespace thermocline::npu
