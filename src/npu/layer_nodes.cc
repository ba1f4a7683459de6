#include "npu/layer_nodes.h"

#include <utility>
#include <vector>

namespace thermocline::npu {

Value AddNorm(Graph& graph, NormKind kind, float epsilon, Value x, Value weight,
              std::optional<Value> bias) {
  if (kind == NormKind::kLayer) {
    x = graph.Binary(Op::kSubtract, x, graph.ReduceMean(x, -1));
  }
  const Value squares = graph.Binary(Op::kPower, x, graph.Scalar(2.0f));
  const Value size = graph.Unary(
      Op::kSqrt, graph.Binary(Op::kAdd, graph.ReduceMean(squares, -1),
                              graph.Scalar(epsilon)));
  const Value inverse = graph.Binary(Op::kDivide, graph.Scalar(1.0f), size);
  const Value normed = graph.Binary(
      Op::kMultiply, graph.Binary(Op::kMultiply, x, inverse), weight);
  return bias ? graph.Binary(Op::kAdd, normed, *bias) : normed;
}

Value AddRotated(Graph& graph, Value heads, Value cos, Value sin) {
  const int64_t width = graph.type(heads).dims.back();
  const int64_t half = graph.type(cos).dims.back();
  std::vector<int64_t> lengths = {half, half};
  if (2 * half < width) lengths.push_back(width - 2 * half);
  const std::vector<Value> parts = graph.Split(heads, 3, std::move(lengths));
  const auto times = [&](Value a, Value b) {
    return graph.Binary(Op::kMultiply, a, b);
  };
  const Value a = parts[0];
  const Value b = parts[1];
  std::vector<Value> rotated = {
      graph.Binary(Op::kSubtract, times(a, cos), times(b, sin)),
      graph.Binary(Op::kAdd, times(b, cos), times(a, sin))};
  if (parts.size() == 3) rotated.push_back(parts[2]);
  return graph.Concat(std::move(rotated), 3);
}

Value AddActivated(Graph& graph, const model::FfnSpec& ffn, Value x) {
  switch (ffn.activation) {
    case Activation::kSilu:
      return graph.Unary(Op::kSwish, x);
    case Activation::kGelu:
      return graph.Unary(Op::kGelu, x);
    case Activation::kFatRelu: {
      const Value is_open =
          graph.Binary(Op::kGreaterEqual, x, graph.Scalar(ffn.threshold));
      return graph.Binary(Op::kMultiply, x,
                          graph.Convert(is_open, Element::kF32));
    }
    case Activation::kRelu:
    case Activation::kDRelu:
      break;
    case Activation::kRelu2: {
      const Value open = graph.Unary(Op::kRelu, x);
      return graph.Binary(Op::kMultiply, open, open);
    }
  }
  return graph.Unary(Op::kRelu, x);
}

}  // namespace thermocline::npu
