#include "npu/graph.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/quote.h"

namespace thermocline::npu {
namespace {

constexpr std::array<ElementInfo, 8> kElements = {{
    {Element::kF32, "f32", "FP32", 32},
    {Element::kF16, "f16", "FP16", 16},
    {Element::kI64, "i64", "I64", 64},
    {Element::kI8, "i8", "I8", 8},
    {Element::kU8, "u8", "U8", 8},
    {Element::kI4, "i4", "I4", 4},
    {Element::kU4, "u4", "U4", 4},
    {Element::kBool, "boolean", "BOOL", 8},
}};

constexpr std::array<OpInfo, 26> kOps = {{
    {Op::kParameter, "Parameter", "opset1", 0},
    {Op::kConstant, "Const", "opset1", 0},
    {Op::kResult, "Result", "opset1", 1},
    {Op::kAdd, "Add", "opset1", 2},
    {Op::kSubtract, "Subtract", "opset1", 2},
    {Op::kMultiply, "Multiply", "opset1", 2},
    {Op::kDivide, "Divide", "opset1", 2},
    {Op::kPower, "Power", "opset1", 2},
    {Op::kGreaterEqual, "GreaterEqual", "opset1", 2},
    {Op::kSqrt, "Sqrt", "opset1", 1},
    {Op::kRelu, "ReLU", "opset1", 1},
    {Op::kSwish, "Swish", "opset4", 1},
    {Op::kGelu, "Gelu", "opset7", 1},
    {Op::kConvert, "Convert", "opset1", 1},
    {Op::kSoftmax, "SoftMax", "opset8", 1},
    {Op::kReduceMean, "ReduceMean", "opset1", 2},
    {Op::kMatMul, "MatMul", "opset1", 2},
    {Op::kReshape, "Reshape", "opset1", 2},
    {Op::kTranspose, "Transpose", "opset1", 2},
    {Op::kConcat, "Concat", "opset1", 1},
    {Op::kVariadicSplit, "VariadicSplit", "opset1", 3},
    {Op::kSlice, "Slice", "opset8", 5},
    {Op::kGather, "Gather", "opset8", 3},
    {Op::kScatterUpdate, "ScatterUpdate", "opset3", 4},
    {Op::kReadValue, "ReadValue", "opset6", 1},
    {Op::kAssign, "Assign", "opset6", 1},
}};
constexpr size_t kNumOps = static_cast<size_t>(Op::kAssign) + 1;

// Whether the name of a node is that of a tensor.
bool NamesTensor(Op op) { return op == Op::kParameter || op == Op::kResult; }
bool UsesVariable(Op op) { return op == Op::kReadValue || op == Op::kAssign; }

bool IsRefused(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\';
}

}  // namespace

const ElementInfo& InfoOf(Element element) {
  return kElements[static_cast<size_t>(element)];
}

std::optional<Element> ParseElement(std::string_view name) {
  const auto* found = std::ranges::find(kElements, name, &ElementInfo::name);
  if (found == kElements.end()) return std::nullopt;
  return found->element;
}

std::optional<Element> ParsePrecision(std::string_view precision) {
  const auto* found =
      std::ranges::find(kElements, precision, &ElementInfo::precision);
  if (found == kElements.end()) return std::nullopt;
  return found->element;
}

int64_t NumElements(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t extent : dims) product *= extent;
  return product;
}

size_t NumBytes(const Type& type) {
  const size_t bits = InfoOf(type.element).num_bits;
  return (static_cast<size_t>(NumElements(type.dims)) * bits + 7) / 8;
}

std::string ToString(const Type& type) {
  return fmt::format("{}[{}]", InfoOf(type.element).name,
                     fmt::join(type.dims, ","));
}

const OpInfo& InfoOf(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> ParseOp(std::string_view type) {
  for (size_t i = 0; i < kNumOps; ++i) {
    if (kOps[i].type == type) return kOps[i].op;
  }
  return std::nullopt;
}

std::span<const std::byte> Graph::bytes_of(const Node& constant) const {
  TC_CHECK(constant.op == Op::kConstant);
  return std::span(data_).subspan(constant.offset,
                                  NumBytes(constant.outputs[0]));
}

Result<std::vector<int64_t>> Graph::IntsOf(Value value) const {
  const Node& constant = node(value);
  if (constant.op != Op::kConstant ||
      constant.outputs[0].element != Element::kI64) {
    return Fail(ErrorCode::kUnsupported,
                "node {} is no constant of whole numbers", value.node);
  }
  const std::span<const std::byte> bytes = bytes_of(constant);
  std::vector<int64_t> ints(bytes.size() / sizeof(int64_t));
  std::memcpy(ints.data(), bytes.data(), bytes.size());
  return ints;
}

Result<Value> Graph::Add(Node node) {
  const auto id = static_cast<uint32_t>(nodes_.size());
  const auto context = [&] {
    return fmt::format("node {} ({})", id, InfoOf(node.op).type);
  };
  for (const Value& input : node.inputs) {
    if (input.node >= id || input.output >= nodes_[input.node].outputs.size()) {
      return Fail(ErrorCode::kCorrupt, "{}: it reads what is not before it",
                  context());
    }
  }
  const Status names = CheckNames(node);
  if (!names.has_value()) return Annotate(context(), names.error());
  auto outputs = InferTypes(*this, node);
  if (!outputs.has_value()) return Annotate(context(), outputs.error());
  node.outputs = *std::move(outputs);
  if (UsesVariable(node.op)) {
    const Status variable = CheckVariable(node);
    if (!variable.has_value()) return Annotate(context(), variable.error());
    variables_.emplace(node.variable, node.outputs[0]);
    taken_.emplace(node.op, node.variable);
  }
  if (node.op == Op::kResult) {
    const Status result = CheckResult(node.inputs[0]);
    if (!result.has_value()) return Annotate(context(), result.error());
    results_.emplace(node.inputs[0].node, node.inputs[0].output);
  }
  if (NamesTensor(node.op)) taken_.emplace(Op::kParameter, node.name);
  nodes_.push_back(std::move(node));
  return Value{.node = id};
}

Status Graph::CheckNames(const Node& node) const {
  for (const std::string& name : {node.name, node.variable}) {
    if (std::ranges::any_of(name, IsRefused)) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: a name with a control character or a backslash",
                  Quote(name));
    }
  }
  const bool is_taken = taken_.contains({Op::kParameter, node.name});
  if (NamesTensor(node.op) && (node.name.empty() || is_taken)) {
    return Fail(ErrorCode::kCorrupt, "no name of its own, but '{}'", node.name);
  }
  return {};
}

Status Graph::CheckResult(Value value) const {
  const bool is_parameter = node(value).op == Op::kParameter;
  if (is_parameter || results_.contains({value.node, value.output})) {
    return Fail(ErrorCode::kCorrupt, "node {} is a {} already", value.node,
                is_parameter ? "parameter" : "result");
  }
  return {};
}

Status Graph::CheckVariable(const Node& node) const {
  if (taken_.contains({node.op, node.variable})) {
    return Fail(ErrorCode::kCorrupt, "variable '{}' a second time",
                node.variable);
  }
  const auto found = variables_.find(node.variable);
  if (found != variables_.end() && found->second != node.outputs[0]) {
    return Fail(ErrorCode::kCorrupt, "variable '{}' is {}, not {}",
                node.variable, ToString(found->second),
                ToString(node.outputs[0]));
  }
  return {};
}

Value Graph::Must(Node node) {
  auto value = Add(std::move(node));
  if (!value.has_value()) LogWarning("{}", value.error().message);
  TC_CHECK(value.has_value());
  return *value;
}

Value Graph::Parameter(std::string name, Type type) {
  return Must({.op = Op::kParameter,
               .name = std::move(name),
               .outputs = {std::move(type)}});
}

Value Graph::Constant(Type type, std::span<const std::byte> bytes) {
  std::span<std::byte> to;
  const Value value = Constant(std::move(type), &to);
  TC_CHECK(to.size() == bytes.size());
  std::ranges::copy(bytes, to.begin());
  return value;
}

Value Graph::Constant(Type type, std::span<std::byte>* bytes) {
  const size_t offset =
      (data_.size() + kAlignment - 1) / kAlignment * kAlignment;
  const size_t num_bytes = NumBytes(type);
  data_.resize(offset + num_bytes);
  *bytes = std::span(data_).subspan(offset, num_bytes);
  return Must(
      {.op = Op::kConstant, .outputs = {std::move(type)}, .offset = offset});
}

Value Graph::Ints(std::vector<int64_t> values) {
  return Constant({Element::kI64, {static_cast<int64_t>(values.size())}},
                  std::as_bytes(std::span(values)));
}

Value Graph::Scalar(float value) {
  return Constant({Element::kF32, {1}},
                  std::as_bytes(std::span<const float, 1>(&value, 1)));
}

void Graph::Output(Value value, std::string name) {
  if (!CheckResult(value).has_value()) value = Reshape(value, type(value).dims);
  Must({.op = Op::kResult, .name = std::move(name), .inputs = {value}});
}

void Graph::Assign(Value value, std::string variable) {
  Must({.op = Op::kAssign, .inputs = {value}, .variable = std::move(variable)});
}

Value Graph::ReadValue(Value initial, std::string variable) {
  return Must({.op = Op::kReadValue,
               .inputs = {initial},
               .variable = std::move(variable)});
}

Value Graph::Unary(Op op, Value x) { return Must({.op = op, .inputs = {x}}); }

Value Graph::Binary(Op op, Value a, Value b) {
  return Must({.op = op, .inputs = {a, b}});
}

Value Graph::Convert(Value x, Element to) {
  return Must({.op = Op::kConvert, .inputs = {x}, .to = to});
}

Value Graph::Softmax(Value x, int64_t axis) {
  return Must({.op = Op::kSoftmax, .inputs = {x}, .axis = axis});
}

Value Graph::ReduceMean(Value x, int64_t axis) {
  return Binary(Op::kReduceMean, x, Ints({axis}));
}

Value Graph::MatMul(Value a, Value b, bool transpose_b) {
  return Must(
      {.op = Op::kMatMul, .inputs = {a, b}, .transpose_b = transpose_b});
}

Value Graph::Reshape(Value x, Dims dims) {
  return Binary(Op::kReshape, x, Ints(std::move(dims)));
}

Value Graph::Transpose(Value x, std::vector<int64_t> order) {
  return Binary(Op::kTranspose, x, Ints(std::move(order)));
}

Value Graph::Concat(std::vector<Value> parts, int64_t axis) {
  return Must({.op = Op::kConcat, .inputs = std::move(parts), .axis = axis});
}

std::vector<Value> Graph::Split(Value x, int64_t axis,
                                std::vector<int64_t> lengths) {
  const size_t num_parts = lengths.size();
  const Value first =
      Must({.op = Op::kVariadicSplit,
            .inputs = {x, Ints({axis}), Ints(std::move(lengths))}});
  std::vector<Value> parts;
  for (uint32_t i = 0; i < num_parts; ++i) {
    parts.push_back({.node = first.node, .output = i});
  }
  return parts;
}

Value Graph::Slice(Value x, int64_t axis, int64_t begin, int64_t end) {
  return Must(
      {.op = Op::kSlice,
       .inputs = {x, Ints({begin}), Ints({end}), Ints({1}), Ints({axis})}});
}

Value Graph::Gather(Value table, Value indices, int64_t axis) {
  return Must({.op = Op::kGather, .inputs = {table, indices, Ints({axis})}});
}

Value Graph::ScatterUpdate(Value x, Value indices, Value rows, int64_t axis) {
  return Must(
      {.op = Op::kScatterUpdate, .inputs = {x, indices, rows, Ints({axis})}});
}

std::vector<const Node*> Graph::OfKind(Op op) const {
  std::vector<const Node*> found;
  for (const Node& node : nodes_) {
    if (node.op == op) found.push_back(&node);
  }
  return found;
}

}  // namespace thermocline::npu
