// What stands before and behind the blocks.
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "npu/block.h"
#include "npu/layer_nodes.h"
#include "npu/layer_tensors.h"

namespace thermocline::npu {
namespace {

Result<std::optional<Value>> AddVector(Graph& graph, const TensorView& vector) {
  if (!vector) return std::optional<Value>();
  const MatrixSource source = {.view = vector};
  std::span<std::byte> bytes;
  const Value value = graph.Constant(
      {Element::kF32, {static_cast<int64_t>(source.columns())}}, &bytes);
  TC_RETURN_IF_ERROR(CopyVector(source, bytes.data()));
  return std::optional(value);
}

// The rows of a table that `indices` name, as F32.
Result<Value> AddRows(const model::Model& model, const char* name,
                      const TensorView& table, Value indices, Graph& graph) {
  const MatrixSource source = {.view = table};
  std::span<std::byte> bytes;
  const Value rows = graph.Constant({Element::kF16,
                                     {static_cast<int64_t>(source.rows()),
                                      static_cast<int64_t>(source.columns())}},
                                    &bytes);
  const Status packed =
      PackMatrix(source, Packing(), {.weight = bytes.data()}, nullptr);
  if (!packed.has_value()) {
    return Annotate(fmt::format("{}: {}", model.file().path(), name),
                    packed.error());
  }
  return graph.Convert(graph.Gather(rows, indices, 0), Element::kF32);
}

Status CheckRows(const model::Model& model, int64_t rows) {
  if (rows >= 1) return {};
  return Fail(ErrorCode::kInvalidArgument, "{}: no graph of {} rows",
              model.file().path(), rows);
}

}  // namespace

Result<Graph> BuildHead(const model::Model& model, int64_t rows,
                        WeightForm weights, UnpackError* error) {
  TC_RETURN_IF_ERROR(CheckRows(model, rows));
  const model::Config& config = model.config();
  const model::Weights& w = model.weights();
  Graph graph;
  const Value x = graph.Parameter(
      "x", {Element::kF32, {1, rows, static_cast<int64_t>(config.width)}});
  UnpackError own;
  auto matrix =
      AddMatrix(graph, w.head, weights, error != nullptr ? &own : nullptr);
  if (!matrix.has_value()) {
    return Annotate(fmt::format("{}: head", model.file().path()),
                    matrix.error());
  }
  if (error != nullptr && own.worst > error->worst)
    *error = {own.worst, "head"};
  TC_ASSIGN_OR_RETURN(const auto norm, AddVector(graph, w.output_norm));
  TC_ASSIGN_OR_RETURN(const auto bias, AddVector(graph, w.output_norm_bias));
  TC_CHECK(norm.has_value());
  const Value normed =
      AddNorm(graph, config.norm, config.norm_epsilon, x, *norm, bias);
  graph.Output(graph.MatMul(normed, *matrix, true), "logits");
  graph.title = fmt::format("{} head, {} rows", config.architecture, rows);
  return graph;
}

Result<Graph> BuildEmbedding(const model::Model& model, int64_t rows) {
  TC_RETURN_IF_ERROR(CheckRows(model, rows));
  const model::Weights& w = model.weights();
  Graph graph;
  const auto add_indices = [&](const char* name) {
    return graph.Parameter(name, {Element::kI64, {1, rows}});
  };
  TC_ASSIGN_OR_RETURN(Value x,
                      AddRows(model, "token embedding", w.token_embedding,
                              add_indices("tokens"), graph));
  if (w.position_embedding) {
    TC_ASSIGN_OR_RETURN(
        const Value learned,
        AddRows(model, "position embedding", w.position_embedding,
                add_indices("positions"), graph));
    x = graph.Binary(Op::kAdd, x, learned);
  }
  graph.Output(x, "x");
  graph.title =
      fmt::format("{} embedding, {} rows", model.config().architecture, rows);
  return graph;
}

}  // namespace thermocline::npu
