#include "npu/packing.h"

#include <algorithm>

namespace thermocline::npu {
namespace {

constexpr size_t kGroupOf4Bits = 128;

// Rows that do not divide into groups have one scale.
Packing Grouped(Element element, size_t group, size_t columns) {
  return {element, columns % group == 0 ? group : columns};
}

Packing ExactPacking(DType dtype, size_t columns) {
  switch (dtype) {
    case DType::kQ8_0:
      return Grouped(Element::kI8, 32, columns);
    case DType::kQ6_K:
      return Grouped(Element::kI8, 16, columns);
    case DType::kQ4_0:
      return Grouped(Element::kI4, 32, columns);
    default:
      return {};
  }
}

}  // namespace

Packing PackingOf(WeightForm form, DType dtype, bool is_transposed,
                  size_t columns) {
  switch (form) {
    case WeightForm::kExact:
      return is_transposed ? Packing() : ExactPacking(dtype, columns);
    case WeightForm::kF16:
      break;
    case WeightForm::kI8Channel:
      return {Element::kI8, columns};
    case WeightForm::kI4Channel:
      return {Element::kI4, columns};
    case WeightForm::kI4Group128:
      return Grouped(Element::kI4, kGroupOf4Bits, columns);
    case WeightForm::kI8Asymmetric:
      return {Element::kU8, columns, true};
    case WeightForm::kI4Asymmetric:
      return {Element::kU4, columns, true};
  }
  return {};
}

PackedTypes TypesOf(const Packing& packing, size_t rows, size_t columns) {
  const auto n = static_cast<int64_t>(rows);
  const auto k = static_cast<int64_t>(columns);
  if (packing.group == 0) return {{packing.element, {n, k}}, {}, {}};
  if (packing.group == columns) {
    PackedTypes types = {
        {packing.element, {n, k}}, Type{Element::kF16, {n, 1}}, {}};
    if (packing.has_zero) types.zero = Type{packing.element, {n, 1}};
    return types;
  }
  const auto g = static_cast<int64_t>(packing.group);
  return {
      {packing.element, {n, k / g, g}}, Type{Element::kF16, {n, k / g, 1}}, {}};
}

Value AddUnpacked(Graph& graph, const PackedValues& values) {
  const Dims dims = graph.type(values.weight).dims;
  Value x = values.weight;
  if (graph.type(x).element != Element::kF16) {
    x = graph.Convert(x, Element::kF16);
  }
  if (values.zero) {
    x = graph.Binary(Op::kSubtract, x,
                     graph.Convert(*values.zero, Element::kF16));
  }
  if (values.scale) x = graph.Binary(Op::kMultiply, x, *values.scale);
  if (dims.size() == 3) x = graph.Reshape(x, {dims[0], dims[1] * dims[2]});
  return graph.Convert(x, Element::kF32);
}

void NoteGroup(const Type& weight, Graph& graph) {
  if (weight.element == Element::kF16) return;
  if (weight.dims.size() == 3) {
    graph.weight_group = std::max(graph.weight_group, weight.dims[2]);
  } else if (graph.weight_group == 0) {
    graph.weight_group = -1;
  }
}

}  // namespace thermocline::npu
