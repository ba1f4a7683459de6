// One function per kind of operation, chosen by kRules.
#include "npu/graph.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace thermocline::npu {
namespace {

using Types = std::vector<Type>;

constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr size_t kMostRank = 8;

bool IsFloat(Element element) {
  return element == Element::kF32 || element == Element::kF16;
}

// What an operation is asked of.
struct Call {
  const Graph& graph;
  const Node& node;

  const Type& in(size_t i) const { return graph.type(node.inputs[i]); }
  size_t rank(size_t i) const { return in(i).dims.size(); }
  Result<std::vector<int64_t>> ints(size_t i) const {
    return graph.IntsOf(node.inputs[i]);
  }
};

Status CheckType(const Type& type) {
  if (type.dims.size() > kMostRank) {
    return Fail(ErrorCode::kCorrupt, "{} dimensions: more than {}",
                type.dims.size(), kMostRank);
  }
  int64_t product = 1;
  for (const int64_t extent : type.dims) {
    if (extent < 1 || extent > kMostElements / product) {
      return Fail(ErrorCode::kCorrupt, "its shape {} is not one of a tensor",
                  ToString(type));
    }
    product *= extent;
  }
  return {};
}

// numpy's rule, of dimensions that are counted from the last.
Result<Dims> Broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims dims(a.begin(), a.end());
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& extent = dims[a.size() - b.size() + i];
    if (extent == b[i] || b[i] == 1) continue;
    if (extent != 1) {
      return Fail(ErrorCode::kCorrupt, "[{}] and [{}] do not broadcast",
                  fmt::join(a, ","), fmt::join(b, ","));
    }
    extent = b[i];
  }
  return dims;
}

Result<Types> OfConstant(const Call& call) {
  const Type& type = call.node.outputs[0];
  TC_RETURN_IF_ERROR(CheckType(type));
  const size_t size = call.graph.data().size();
  if (call.node.offset > size || NumBytes(type) > size - call.node.offset) {
    return Fail(ErrorCode::kCorrupt,
                "{} bytes at {}: beyond the {} bytes of constants",
                NumBytes(type), call.node.offset, size);
  }
  if (call.node.offset % Graph::kAlignment != 0) {
    return Fail(ErrorCode::kCorrupt, "its bytes at {}: no multiple of {}",
                call.node.offset, Graph::kAlignment);
  }
  return Types{type};
}

Result<Types> OfBinary(const Call& call) {
  const Type& a = call.in(0);
  const Type& b = call.in(1);
  if (a.element != b.element || !IsFloat(a.element)) {
    return Fail(ErrorCode::kCorrupt, "{} and {}: not two of one float type",
                ToString(a), ToString(b));
  }
  TC_ASSIGN_OR_RETURN(Dims dims, Broadcast(a.dims, b.dims));
  const bool is_bool = call.node.op == Op::kGreaterEqual;
  return Types{{is_bool ? Element::kBool : a.element, std::move(dims)}};
}

Result<Types> OfFloat(const Call& call) {
  if (!IsFloat(call.in(0).element)) {
    return Fail(ErrorCode::kCorrupt, "{}: it takes floats",
                ToString(call.in(0)));
  }
  if (call.node.op == Op::kSoftmax) {
    TC_RETURN_IF_ERROR(AxisOf(call.node.axis, call.rank(0)));
  }
  return Types{call.in(0)};
}

Result<Types> OfReduceMean(const Call& call) {
  TC_ASSIGN_OR_RETURN(Types types, OfFloat(call));
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, call.ints(1));
  for (const int64_t a : axes) {
    TC_ASSIGN_OR_RETURN(const size_t axis, AxisOf(a, call.rank(0)));
    types[0].dims[axis] = 1;
  }
  return types;
}

Result<Types> OfMatMul(const Call& call) {
  Dims a = call.in(0).dims;
  Dims b = call.in(1).dims;
  if (call.in(0).element != call.in(1).element ||
      !IsFloat(call.in(0).element) || a.size() < 2 || b.size() < 2) {
    return Fail(ErrorCode::kCorrupt, "{} and {}: no matrices of one float type",
                ToString(call.in(0)), ToString(call.in(1)));
  }
  if (call.node.transpose_a) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (call.node.transpose_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
  if (a.back() != b[b.size() - 2]) {
    return Fail(ErrorCode::kCorrupt, "{} and {}: inner extents {} and {}",
                ToString(call.in(0)), ToString(call.in(1)), a.back(),
                b[b.size() - 2]);
  }
  TC_ASSIGN_OR_RETURN(Dims dims, Broadcast(std::span(a).first(a.size() - 2),
                                           std::span(b).first(b.size() - 2)));
  dims.push_back(a[a.size() - 2]);
  dims.push_back(b.back());
  return Types{{call.in(0).element, std::move(dims)}};
}

Result<Types> OfReshape(const Call& call) {
  TC_ASSIGN_OR_RETURN(Dims dims, call.ints(1));
  const Type type = {call.in(0).element, std::move(dims)};
  TC_RETURN_IF_ERROR(CheckType(type));
  if (NumElements(type.dims) != NumElements(call.in(0).dims)) {
    return Fail(ErrorCode::kCorrupt, "{} does not become {}",
                ToString(call.in(0)), ToString(type));
  }
  return Types{type};
}

Result<Types> OfTranspose(const Call& call) {
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> order, call.ints(1));
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  std::vector<int64_t> all(call.rank(0));
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    return Fail(ErrorCode::kCorrupt, "[{}] is no order of the dimensions of {}",
                fmt::join(order, ","), ToString(call.in(0)));
  }
  Type type = {call.in(0).element, {}};
  for (const int64_t axis : order) {
    type.dims.push_back(call.in(0).dims[static_cast<size_t>(axis)]);
  }
  return Types{type};
}

Result<Types> OfConcat(const Call& call) {
  Type type = call.in(0);
  TC_ASSIGN_OR_RETURN(const size_t axis, AxisOf(call.node.axis, call.rank(0)));
  for (size_t i = 1; i < call.node.inputs.size(); ++i) {
    Type part = call.in(i);
    const bool is_alike = part.dims.size() == type.dims.size();
    const int64_t extent = is_alike ? part.dims[axis] : 0;
    if (is_alike) part.dims[axis] = type.dims[axis];
    if (part != type) {
      return Fail(ErrorCode::kCorrupt, "{} beside {} along dimension {}",
                  ToString(call.in(i)), ToString(call.in(0)), axis);
    }
    type.dims[axis] += extent;
  }
  return Types{type};
}

Result<Types> OfSplit(const Call& call) {
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, call.ints(1));
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, call.ints(2));
  if (axes.size() != 1) return Fail(ErrorCode::kCorrupt, "no single axis");
  TC_ASSIGN_OR_RETURN(const size_t axis, AxisOf(axes[0], call.rank(0)));
  int64_t left = call.in(0).dims[axis];
  Types types;
  for (const int64_t length : lengths) {
    if (length < 1 || length > left) break;
    left -= length;
    types.push_back(call.in(0));
    types.back().dims[axis] = length;
  }
  if (types.size() != lengths.size() || left != 0 || lengths.empty()) {
    return Fail(ErrorCode::kCorrupt, "parts of [{}] do not make up {}",
                fmt::join(lengths, ","), ToString(call.in(0)));
  }
  return types;
}

// A single axis, by steps of one: what graphs of ours need.
Result<Types> OfSlice(const Call& call) {
  int64_t numbers[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    TC_ASSIGN_OR_RETURN(const std::vector<int64_t> ints, call.ints(i + 1));
    if (ints.size() != 1) {
      return Fail(ErrorCode::kUnsupported, "a slice along several dimensions");
    }
    numbers[i] = ints[0];
  }
  const auto [begin, end, step, along] = numbers;
  TC_ASSIGN_OR_RETURN(const size_t axis, AxisOf(along, call.rank(0)));
  Type type = call.in(0);
  if (step != 1 || begin < 0 || end <= begin || end > type.dims[axis]) {
    return Fail(ErrorCode::kCorrupt, "from {} to {} by {} of {}", begin, end,
                step, ToString(type));
  }
  type.dims[axis] = end - begin;
  return Types{type};
}

Result<Types> OfGather(const Call& call) {
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, call.ints(2));
  if (axes != std::vector<int64_t>{0} || call.rank(0) < 1 ||
      call.in(1).element != Element::kI64) {
    return Fail(ErrorCode::kUnsupported,
                "only rows are gathered, by whole numbers");
  }
  Type type = {call.in(0).element, call.in(1).dims};
  type.dims.insert(type.dims.end(), call.in(0).dims.begin() + 1,
                   call.in(0).dims.end());
  return Types{type};
}

Result<Types> OfScatter(const Call& call) {
  TC_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, call.ints(3));
  if (axes.size() != 1) return Fail(ErrorCode::kCorrupt, "no single axis");
  TC_ASSIGN_OR_RETURN(const size_t axis, AxisOf(axes[0], call.rank(0)));
  Type rows = call.in(0);
  if (call.rank(1) != 1 || call.in(1).element != Element::kI64) {
    return Fail(ErrorCode::kCorrupt, "{} are no row numbers",
                ToString(call.in(1)));
  }
  rows.dims[axis] = call.in(1).dims[0];
  if (call.in(2) != rows) {
    return Fail(ErrorCode::kCorrupt, "{} are not the rows {} of {}",
                ToString(call.in(2)), ToString(rows), ToString(call.in(0)));
  }
  return Types{call.in(0)};
}

Result<Types> OfResult(const Call& /*call*/) { return Types{}; }

Result<Types> OfConvert(const Call& call) {
  if (!IsFloat(call.node.to)) {
    return Fail(ErrorCode::kUnsupported, "{} to {}: no float",
                ToString(call.in(0)), InfoOf(call.node.to).name);
  }
  return Types{{call.node.to, call.in(0).dims}};
}

Result<Types> OfVariable(const Call& call) {
  if (call.node.variable.empty()) {
    return Fail(ErrorCode::kCorrupt, "a variable without a name");
  }
  return Types{call.in(0)};
}

Result<Types> OfGiven(const Call& call) {
  TC_RETURN_IF_ERROR(CheckType(call.node.outputs[0]));
  return call.node.outputs;
}

using Rule = Result<Types> (*)(const Call&);
// In the order of Op.
constexpr std::array<Rule, 26> kRules = {
    OfGiven,     OfConstant, OfResult, OfBinary,     OfBinary, OfBinary,
    OfBinary,    OfBinary,   OfBinary, OfFloat,      OfFloat,  OfFloat,
    OfFloat,     OfConvert,  OfFloat,  OfReduceMean, OfMatMul, OfReshape,
    OfTranspose, OfConcat,   OfSplit,  OfSlice,      OfGather, OfScatter,
    OfVariable,  OfVariable};

}  // namespace

Result<size_t> AxisOf(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) {
    return Fail(ErrorCode::kCorrupt, "dimension {} of {}", axis, rank);
  }
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

Result<std::vector<Type>> InferTypes(const Graph& graph, const Node& node) {
  const OpInfo& info = InfoOf(node.op);
  const bool is_open = node.op == Op::kConcat;
  if (node.inputs.size() < info.num_inputs ||
      (!is_open && node.inputs.size() > info.num_inputs)) {
    return Fail(ErrorCode::kCorrupt, "{} inputs", node.inputs.size());
  }
  const bool is_given = node.op == Op::kParameter || node.op == Op::kConstant;
  if (is_given && node.outputs.size() != 1) {
    return Fail(ErrorCode::kCorrupt, "{} outputs", node.outputs.size());
  }
  TC_ASSIGN_OR_RETURN(Types types,
                      kRules[static_cast<size_t>(node.op)]({graph, node}));
  for (const Type& type : types) TC_RETURN_IF_ERROR(CheckType(type));
  return types;
}

}  // namespace thermocline::npu
