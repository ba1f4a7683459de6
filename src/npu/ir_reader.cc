#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "npu/ir.h"
#include "npu/ir_xml.h"

namespace thermocline::npu {
namespace {

// Far above any graph of ours, so that its numbers stay small.
constexpr size_t kMostNodes = size_t{1} << 20;
constexpr size_t kMostGroup = size_t{1} << 31;

struct IrPort {
  Type type;
  std::string names;  // as the text has them
};

// A layer as the text has it; what it reads comes with the edges.
struct IrLayer {
  size_t line = 0;
  Node node;
  size_t num_bytes = 0;  // of a constant
  std::vector<Type> inputs;
  std::vector<bool> is_connected;  // of inputs
  std::vector<IrPort> outputs;
};

class IrReader {
 public:
  explicit IrReader(std::string_view xml) : scanner_(xml) {}

  Result<Graph> Read(std::vector<std::byte> data);

 private:
  Result<XmlTag> Open(std::string_view name);
  Status Close(std::string_view name);

  Status ReadLayers();
  Status ReadLayer(const XmlTag& tag);
  Result<std::vector<IrPort>> ReadPorts(std::string_view name, size_t first);
  Result<IrPort> ReadPort(const XmlTag& tag, size_t id);
  Result<XmlTag> ReadEdges();
  Status ReadEdge(const XmlTag& tag);
  Status ReadInfo();
  Status AddLayer(IrLayer& layer);
  Status TakeName(const Node& node, IrPort& port);

  XmlScanner scanner_;
  Graph graph_;
  std::vector<IrLayer> layers_;
};

tl::unexpected<Error> Unexpected(const XmlTag& tag) {
  return Fail(ErrorCode::kCorrupt, "line {}: {}{} is not expected here",
              tag.line, tag.is_closing ? "the end of " : "", Quote(tag.name));
}

bool Opens(const XmlTag& tag, std::string_view name) {
  return tag.name == name && !tag.is_closing && !tag.is_whole;
}

bool Closes(const XmlTag& tag, std::string_view name) {
  return tag.name == name && tag.is_closing;
}

Status ReadGiven(XmlAttributes& attributes, IrLayer& layer) {
  Node& node = layer.node;
  Type type;
  TC_ASSIGN_OR_RETURN(type.element, attributes.ElementOf("element_type"));
  TC_ASSIGN_OR_RETURN(type.dims, attributes.Shape("shape"));
  node.outputs = {std::move(type)};
  if (node.op == Op::kConstant) {
    TC_ASSIGN_OR_RETURN(node.offset, attributes.Number("offset", SIZE_MAX));
    TC_ASSIGN_OR_RETURN(layer.num_bytes, attributes.Number("size", SIZE_MAX));
  }
  return {};
}

template <typename T>
Status StoreTo(Result<T> value, T& to) {
  TC_ASSIGN_OR_RETURN(to, std::move(value));
  return {};
}

Status ReadMatMul(XmlAttributes& attributes, Node& node) {
  TC_ASSIGN_OR_RETURN(node.transpose_a, attributes.Bool("transpose_a"));
  return StoreTo(attributes.Bool("transpose_b"), node.transpose_b);
}

// What the operation needs besides its inputs.
Status ReadAttributes(XmlAttributes& attributes, IrLayer& layer) {
  Node& node = layer.node;
  switch (node.op) {
    case Op::kParameter:
    case Op::kConstant:
      return ReadGiven(attributes, layer);
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kPower:
    case Op::kGreaterEqual:
      return attributes.Expect("auto_broadcast", "numpy");
    case Op::kGelu:
      return attributes.Expect("approximation_mode", "TANH");
    case Op::kConvert:
      return StoreTo(attributes.ElementOf("destination_type"), node.to);
    case Op::kSoftmax:
    case Op::kConcat:
      return StoreTo(attributes.Number("axis"), node.axis);
    case Op::kReduceMean:
      return attributes.Expect("keep_dims", "true");
    case Op::kMatMul:
      return ReadMatMul(attributes, node);
    case Op::kReshape:
      return attributes.Expect("special_zero", "false");
    case Op::kGather:
      return attributes.Expect("batch_dims", "0");
    case Op::kReadValue:
    case Op::kAssign:
      return StoreTo(attributes.Text("variable_id"), node.variable);
    default:
      return {};
  }
}

// A variable's type is said twice.
Status CheckVariable(const IrLayer& layer, XmlAttributes& attributes) {
  if (layer.node.op != Op::kReadValue) return {};
  Type said;
  TC_ASSIGN_OR_RETURN(said.element, attributes.ElementOf("variable_type"));
  TC_ASSIGN_OR_RETURN(said.dims, attributes.Shape("variable_shape"));
  if (!layer.outputs.empty() && said == layer.outputs[0].type) return {};
  return Fail(ErrorCode::kCorrupt, "line {}: a variable of {} as another type",
              layer.line, ToString(said));
}

Result<XmlTag> IrReader::Open(std::string_view name) {
  TC_ASSIGN_OR_RETURN(XmlTag tag, scanner_.Next());
  if (!Opens(tag, name)) return Unexpected(tag);
  return tag;
}

Status IrReader::Close(std::string_view name) {
  TC_ASSIGN_OR_RETURN(const XmlTag tag, scanner_.Next());
  if (!Closes(tag, name)) return Unexpected(tag);
  return {};
}

Result<IrPort> IrReader::ReadPort(const XmlTag& tag, size_t id) {
  XmlAttributes attributes(tag);
  IrPort port;
  TC_ASSIGN_OR_RETURN(const size_t number, attributes.Number("id", kMostNodes));
  TC_ASSIGN_OR_RETURN(const std::string text, attributes.Text("precision"));
  if (attributes.Has("names")) {
    TC_ASSIGN_OR_RETURN(port.names, attributes.Text("names"));
  }
  TC_RETURN_IF_ERROR(attributes.ExpectAllTaken());
  const std::optional<Element> element = ParsePrecision(text);
  if (number != id || !element.has_value()) {
    return Fail(ErrorCode::kCorrupt, "line {}: port {} of {}, where {} is next",
                tag.line, number, Quote(text), id);
  }
  port.type.element = *element;
  while (true) {
    TC_ASSIGN_OR_RETURN(const XmlTag next, scanner_.Next());
    if (Closes(next, "port")) return port;
    if (!Opens(next, "dim") || !next.attributes.empty()) {
      return Unexpected(next);
    }
    TC_ASSIGN_OR_RETURN(const int64_t extent, scanner_.NextNumber());
    port.type.dims.push_back(extent);
    TC_RETURN_IF_ERROR(Close("dim"));
  }
}

// Up to the end of `name`; `first`: the number of the first.
Result<std::vector<IrPort>> IrReader::ReadPorts(std::string_view name,
                                                size_t first) {
  std::vector<IrPort> ports;
  while (true) {
    TC_ASSIGN_OR_RETURN(const XmlTag tag, scanner_.Next());
    if (Closes(tag, name)) return ports;
    if (!Opens(tag, "port")) return Unexpected(tag);
    TC_ASSIGN_OR_RETURN(IrPort port, ReadPort(tag, first + ports.size()));
    ports.push_back(std::move(port));
  }
}

Status IrReader::ReadLayers() {
  TC_RETURN_IF_ERROR(Open("layers"));
  while (true) {
    TC_ASSIGN_OR_RETURN(const XmlTag tag, scanner_.Next());
    if (Closes(tag, "layers")) return {};
    if (!Opens(tag, "layer") || layers_.size() == kMostNodes) {
      return Unexpected(tag);
    }
    TC_RETURN_IF_ERROR(ReadLayer(tag));
  }
}

// The operation and the name of a layer, whose number is that of its place.
Result<IrLayer> BeginLayer(const XmlTag& tag, size_t id) {
  XmlAttributes attributes(tag);
  TC_ASSIGN_OR_RETURN(const size_t number, attributes.Number("id", kMostNodes));
  TC_ASSIGN_OR_RETURN(std::string name, attributes.Text("name"));
  TC_ASSIGN_OR_RETURN(const std::string type, attributes.Text("type"));
  const std::optional<Op> op = ParseOp(type);
  if (number != id || !op.has_value()) {
    return Fail(op.has_value() ? ErrorCode::kCorrupt : ErrorCode::kUnsupported,
                "line {}: layer {} of type {}, where layer {} is next",
                tag.line, number, Quote(type), id);
  }
  TC_RETURN_IF_ERROR(attributes.Expect("version", InfoOf(*op).opset));
  TC_RETURN_IF_ERROR(attributes.ExpectAllTaken());
  if (name == fmt::format("n{}", id) && *op != Op::kParameter &&
      *op != Op::kResult) {
    name.clear();
  }
  return IrLayer{.line = tag.line,
                 .node = {.op = *op, .name = std::move(name)}};
}

Status IrReader::ReadLayer(const XmlTag& tag) {
  TC_ASSIGN_OR_RETURN(IrLayer layer, BeginLayer(tag, layers_.size()));
  TC_ASSIGN_OR_RETURN(XmlTag next, scanner_.Next());
  XmlTag data = {.name = "data", .line = tag.line};
  if (next.name == "data" && next.is_whole) {
    data = std::move(next);
    TC_ASSIGN_OR_RETURN(next, scanner_.Next());
  }
  XmlAttributes attributes(data);
  TC_RETURN_IF_ERROR(ReadAttributes(attributes, layer));
  if (Opens(next, "input")) {
    TC_ASSIGN_OR_RETURN(const std::vector<IrPort> ports, ReadPorts("input", 0));
    for (const IrPort& port : ports) {
      if (!port.names.empty()) return Unexpected(next);
      layer.inputs.push_back(port.type);
    }
    TC_ASSIGN_OR_RETURN(next, scanner_.Next());
  }
  if (Opens(next, "output")) {
    TC_ASSIGN_OR_RETURN(layer.outputs,
                        ReadPorts("output", layer.inputs.size()));
    TC_ASSIGN_OR_RETURN(next, scanner_.Next());
  }
  if (!Closes(next, "layer")) return Unexpected(next);
  TC_RETURN_IF_ERROR(CheckVariable(layer, attributes));
  TC_RETURN_IF_ERROR(attributes.ExpectAllTaken());
  layer.node.inputs.resize(layer.inputs.size());
  layer.is_connected.resize(layer.inputs.size(), false);
  layers_.push_back(std::move(layer));
  return {};
}

// Up to the tag behind them.
Result<XmlTag> IrReader::ReadEdges() {
  TC_RETURN_IF_ERROR(Open("edges"));
  while (true) {
    TC_ASSIGN_OR_RETURN(const XmlTag tag, scanner_.Next());
    if (Closes(tag, "edges")) return scanner_.Next();
    if (tag.name != "edge" || !tag.is_whole) return Unexpected(tag);
    TC_RETURN_IF_ERROR(ReadEdge(tag));
  }
}

Status IrReader::ReadEdge(const XmlTag& tag) {
  XmlAttributes attributes(tag);
  TC_ASSIGN_OR_RETURN(const size_t from,
                      attributes.Number("from-layer", kMostNodes));
  TC_ASSIGN_OR_RETURN(const size_t from_port,
                      attributes.Number("from-port", kMostNodes));
  TC_ASSIGN_OR_RETURN(const size_t to,
                      attributes.Number("to-layer", kMostNodes));
  TC_ASSIGN_OR_RETURN(const size_t to_port,
                      attributes.Number("to-port", kMostNodes));
  TC_RETURN_IF_ERROR(attributes.ExpectAllTaken());
  if (to >= layers_.size() || from >= to ||
      to_port >= layers_[to].inputs.size() ||
      from_port < layers_[from].inputs.size() ||
      from_port - layers_[from].inputs.size() >= layers_[from].outputs.size()) {
    return Fail(ErrorCode::kCorrupt,
                "line {}: an edge from port {} of layer {} to port {} of layer "
                "{}: no such ports, or not forwards",
                tag.line, from_port, from, to_port, to);
  }
  IrLayer& layer = layers_[to];
  if (layer.is_connected[to_port]) {
    return Fail(ErrorCode::kCorrupt, "line {}: port {} of layer {} has an edge",
                tag.line, to_port, to);
  }
  layer.is_connected[to_port] = true;
  layer.node.inputs[to_port] = {
      .node = static_cast<uint32_t>(from),
      .output = static_cast<uint32_t>(from_port - layers_[from].inputs.size())};
  return {};
}

Status IrReader::ReadInfo() {
  TC_RETURN_IF_ERROR(Open("nncf"));
  TC_RETURN_IF_ERROR(Open("weight_compression"));
  TC_ASSIGN_OR_RETURN(const XmlTag mode, scanner_.Next());
  TC_ASSIGN_OR_RETURN(const XmlTag group, scanner_.Next());
  if (mode.name != "mode" || !mode.is_whole) return Unexpected(mode);
  if (group.name != "group_size" || !group.is_whole) return Unexpected(group);
  XmlAttributes attributes(group);
  TC_ASSIGN_OR_RETURN(graph_.weight_group, attributes.Number("value"));
  if (graph_.weight_group != -1) {
    TC_RETURN_IF_ERROR(attributes.Number("value", kMostGroup));
  }
  TC_RETURN_IF_ERROR(Close("weight_compression"));
  TC_RETURN_IF_ERROR(Close("nncf"));
  return Close("rt_info");
}

// A tensor is found by the names of its port, which have to be ours.
Status IrReader::TakeName(const Node& node, IrPort& port) {
  if (port.names != NameInList(node.name)) {
    return Fail(ErrorCode::kCorrupt, "its tensor is named {}",
                Quote(port.names));
  }
  port.names.clear();
  return {};
}

Status IrReader::AddLayer(IrLayer& layer) {
  const Node& node = layer.node;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (!layer.is_connected[i]) {
      return Fail(ErrorCode::kCorrupt, "port {} has no edge", i);
    }
    const Type& type = graph_.type(node.inputs[i]);
    if (type != layer.inputs[i]) {
      return Fail(ErrorCode::kCorrupt, "port {} is {}, but reads {}", i,
                  ToString(layer.inputs[i]), ToString(type));
    }
  }
  TC_ASSIGN_OR_RETURN(const Value value, graph_.Add(node));
  const std::vector<Type>& types = graph_.node(value).outputs;
  const bool is_said =
      std::ranges::equal(types, layer.outputs, {}, {}, &IrPort::type);
  if (!is_said) {
    return Fail(ErrorCode::kCorrupt, "its outputs are not {}",
                types.empty() ? "none" : ToString(types[0]));
  }
  if (node.op == Op::kConstant && layer.num_bytes != NumBytes(types[0])) {
    return Fail(ErrorCode::kCorrupt, "{} bytes as {}", layer.num_bytes,
                ToString(types[0]));
  }
  if (node.op == Op::kParameter) return TakeName(node, layer.outputs[0]);
  if (node.op != Op::kResult) return {};
  const Value& from = node.inputs[0];
  return TakeName(node, layers_[from.node].outputs[from.output]);
}

Result<Graph> IrReader::Read(std::vector<std::byte> data) {
  graph_.SetData(std::move(data));
  TC_RETURN_IF_ERROR(scanner_.SkipDeclaration());
  TC_ASSIGN_OR_RETURN(const XmlTag net, Open("net"));
  XmlAttributes attributes(net);
  TC_ASSIGN_OR_RETURN(graph_.title, attributes.Text("name"));
  TC_RETURN_IF_ERROR(attributes.Expect("version", "11"));
  TC_RETURN_IF_ERROR(attributes.ExpectAllTaken());
  TC_RETURN_IF_ERROR(ReadLayers());
  TC_ASSIGN_OR_RETURN(XmlTag next, ReadEdges());
  if (Opens(next, "rt_info")) {
    TC_RETURN_IF_ERROR(ReadInfo());
    TC_ASSIGN_OR_RETURN(next, scanner_.Next());
  }
  if (!Closes(next, "net")) return Unexpected(next);
  TC_RETURN_IF_ERROR(scanner_.ExpectEnd());
  for (IrLayer& layer : layers_) {
    const Status status = AddLayer(layer);
    if (!status.has_value()) {
      return Annotate(fmt::format("line {}", layer.line), status.error());
    }
  }
  for (const IrLayer& layer : layers_) {
    for (const IrPort& port : layer.outputs) {
      if (port.names.empty()) continue;
      return Fail(ErrorCode::kCorrupt,
                  "line {}: a tensor {}, which is no result", layer.line,
                  Quote(port.names));
    }
  }
  return std::move(graph_);
}

}  // namespace

Result<Graph> ReadIr(std::string_view xml, std::vector<std::byte> data) {
  return IrReader(xml).Read(std::move(data));
}

}  // namespace thermocline::npu
