#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "npu/reference_ops.h"

namespace thermocline::npu {
namespace {

// What a move is asked for, with elements of whole bytes.
struct MoveTask {
  const Graph& graph;
  const Node& node;
  std::span<const HostTensor> inputs;
  Element element;

  // An input that InferTypes knows to be a constant of integers.
  std::vector<int64_t> ints(size_t i) const {
    auto ints = graph.IntsOf(node.inputs[i]);
    TC_CHECK(ints.has_value());
    return *std::move(ints);
  }
  size_t element_bytes() const { return InfoOf(element).num_bits / 8; }
  Type output(size_t i) const { return {element, node.outputs[i].dims}; }
};

using Moved = Result<std::vector<HostTensor>>;

// A shape as [outer, along, inner], inner in bytes.
struct MoveLanes {
  size_t outer = 1;
  size_t along = 1;
  size_t inner_bytes = 1;
};

MoveLanes MoveLanesOf(const Type& type, size_t axis) {
  MoveLanes lanes = {.inner_bytes = InfoOf(type.element).num_bits / 8};
  for (size_t d = 0; d < type.dims.size(); ++d) {
    const auto extent = static_cast<size_t>(type.dims[d]);
    if (d < axis) lanes.outer *= extent;
    if (d == axis) lanes.along = extent;
    if (d > axis) lanes.inner_bytes *= extent;
  }
  return lanes;
}

// Copies `count` places along an axis, of all that is outside of it.
void CopyAlong(const std::byte* from, const MoveLanes& lanes_from,
               size_t first_from, std::byte* to, const MoveLanes& lanes_to,
               size_t first_to, size_t count) {
  const size_t inner = lanes_from.inner_bytes;
  for (size_t i = 0; i < lanes_from.outer; ++i) {
    std::memcpy(to + (i * lanes_to.along + first_to) * inner,
                from + (i * lanes_from.along + first_from) * inner,
                count * inner);
  }
}

HostTensor MovedPart(const HostTensor& whole, const Type& type, size_t axis,
                     size_t first) {
  std::byte* bytes = nullptr;
  HostTensor part = MakeTensor(type, &bytes);
  const MoveLanes lanes = MoveLanesOf(type, axis);
  CopyAlong(whole.data, MoveLanesOf(whole.type, axis), first, bytes, lanes, 0,
            lanes.along);
  return part;
}

Moved MoveReshape(const MoveTask& task) {
  HostTensor same = task.inputs[0];
  same.type = task.output(0);
  return std::vector<HostTensor>{std::move(same)};
}

template <size_t kBytes>
void CopyEach(const std::byte* from, int64_t step, std::byte* to,
              int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kBytes);
    from += step * static_cast<int64_t>(kBytes);
    to += kBytes;
  }
}

Moved MoveTranspose(const MoveTask& task) {
  const std::vector<int64_t> order = task.ints(1);
  const std::vector<int64_t> from = StridesOf(task.inputs[0].type.dims);
  std::vector<int64_t> strides;
  for (const int64_t axis : order) {
    strides.push_back(from[static_cast<size_t>(axis)]);
  }
  std::byte* to = nullptr;
  HostTensor out = MakeTensor(task.output(0), &to);
  Dims outer = out.type.dims;
  const int64_t count = outer.empty() ? 1 : outer.back();
  const int64_t step = strides.empty() ? 1 : strides.back();
  if (!outer.empty()) outer.pop_back();
  if (!strides.empty()) strides.pop_back();
  const auto size = static_cast<int64_t>(task.element_bytes());
  const auto copy = size == 1   ? CopyEach<1>
                    : size == 2 ? CopyEach<2>
                    : size == 4 ? CopyEach<4>
                                : CopyEach<8>;
  Odometer<1> at(outer, {strides});
  const int64_t num_runs = NumElements(outer);
  for (int64_t run = 0; run < num_runs; ++run, at.Next()) {
    copy(task.inputs[0].data + at.at(0) * size, step, to, count);
    to += count * size;
  }
  return std::vector<HostTensor>{std::move(out)};
}

Moved MoveConcat(const MoveTask& task) {
  std::byte* bytes = nullptr;
  HostTensor out = MakeTensor(task.output(0), &bytes);
  const size_t axis = *AxisOf(task.node.axis, out.type.dims.size());
  const MoveLanes lanes = MoveLanesOf(out.type, axis);
  size_t first = 0;
  for (const HostTensor& part : task.inputs) {
    const MoveLanes own = MoveLanesOf(part.type, axis);
    CopyAlong(part.data, own, 0, bytes, lanes, first, own.along);
    first += own.along;
  }
  return std::vector<HostTensor>{std::move(out)};
}

Moved MoveSplit(const MoveTask& task) {
  const HostTensor& whole = task.inputs[0];
  const size_t axis = *AxisOf(task.ints(1)[0], whole.type.dims.size());
  std::vector<HostTensor> parts;
  size_t first = 0;
  for (size_t i = 0; i < task.node.outputs.size(); ++i) {
    parts.push_back(MovedPart(whole, task.output(i), axis, first));
    first += static_cast<size_t>(task.node.outputs[i].dims[axis]);
  }
  return parts;
}

Moved MoveSlice(const MoveTask& task) {
  const HostTensor& whole = task.inputs[0];
  const size_t axis = *AxisOf(task.ints(4)[0], whole.type.dims.size());
  return std::vector<HostTensor>{MovedPart(
      whole, task.output(0), axis, static_cast<size_t>(task.ints(1)[0]))};
}

// Numbers of rows, each below `count`.
Result<std::vector<size_t>> RowNumbersOf(const HostTensor& indices,
                                         size_t count) {
  std::vector<int64_t> rows(
      static_cast<size_t>(NumElements(indices.type.dims)));
  std::memcpy(rows.data(), indices.data, rows.size() * sizeof(int64_t));
  for (const int64_t row : rows) {
    if (row < 0 || static_cast<uint64_t>(row) >= count) {
      return Fail(ErrorCode::kInvalidArgument, "row {} of {}", row, count);
    }
  }
  return std::vector<size_t>(rows.begin(), rows.end());
}

Moved MoveGather(const MoveTask& task) {
  const HostTensor& table = task.inputs[0];
  const MoveLanes lanes = MoveLanesOf(table.type, 0);
  TC_ASSIGN_OR_RETURN(const std::vector<size_t> rows,
                      RowNumbersOf(task.inputs[1], lanes.along));
  std::byte* to = nullptr;
  HostTensor out = MakeTensor(task.output(0), &to);
  for (const size_t row : rows) {
    std::memcpy(to, table.data + row * lanes.inner_bytes, lanes.inner_bytes);
    to += lanes.inner_bytes;
  }
  return std::vector<HostTensor>{std::move(out)};
}

Moved MoveScatter(const MoveTask& task) {
  const size_t axis = *AxisOf(task.ints(3)[0], task.inputs[0].type.dims.size());
  const MoveLanes lanes = MoveLanesOf(task.inputs[0].type, axis);
  TC_ASSIGN_OR_RETURN(const std::vector<size_t> rows,
                      RowNumbersOf(task.inputs[1], lanes.along));
  std::byte* to = nullptr;
  HostTensor out = MakeTensor(task.output(0), &to);
  std::ranges::copy(task.inputs[0].bytes(), to);
  const HostTensor& updates = task.inputs[2];
  for (size_t i = 0; i < rows.size(); ++i) {
    CopyAlong(updates.data, MoveLanesOf(updates.type, axis), i, to, lanes,
              rows[i], 1);
  }
  return std::vector<HostTensor>{std::move(out)};
}

Moved MoveWhole(const MoveTask& task) {
  switch (task.node.op) {
    case Op::kReshape:
      return MoveReshape(task);
    case Op::kTranspose:
      return MoveTranspose(task);
    case Op::kConcat:
      return MoveConcat(task);
    case Op::kVariadicSplit:
      return MoveSplit(task);
    case Op::kSlice:
      return MoveSlice(task);
    case Op::kGather:
      return MoveGather(task);
    default:
      TC_CHECK(task.node.op == Op::kScatterUpdate);
      return MoveScatter(task);
  }
}

}  // namespace

Moved Move(const Graph& graph, const Node& node,
           std::span<const HostTensor> inputs) {
  const Element element = node.outputs[0].element;
  if (InfoOf(element).num_bits >= 8) {
    return MoveWhole({graph, node, inputs, element});
  }
  std::vector<HostTensor> wide;
  for (const HostTensor& input : inputs) {
    const bool is_narrow = InfoOf(input.type.element).num_bits < 8;
    wide.push_back(is_narrow ? Widened(input) : input);
  }
  TC_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs,
                      MoveWhole({graph, node, wide, Element::kU8}));
  for (HostTensor& output : outputs) output = Narrowed(output, element);
  return outputs;
}

}  // namespace thermocline::npu
