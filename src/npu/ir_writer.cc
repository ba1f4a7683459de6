#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "npu/ir.h"
#include "npu/ir_xml.h"

namespace thermocline::npu {
namespace {

// The tensor that a value is, by node and output.
using TensorNames = std::map<std::pair<uint32_t, uint32_t>, std::string>;

TensorNames NamesOfTensors(const Graph& graph) {
  TensorNames names;
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (node.op == Op::kParameter) names[{id, 0}] = NameInList(node.name);
    if (node.op != Op::kResult) continue;
    const Value& value = node.inputs[0];
    names[{value.node, value.output}] = NameInList(node.name);
  }
  return names;
}

std::string GivenAttributes(const Node& node) {
  const Type& type = node.outputs[0];
  std::string text =
      fmt::format("element_type=\"{}\" shape=\"{}\"", InfoOf(type.element).name,
                  fmt::join(type.dims, ","));
  if (node.op == Op::kConstant) {
    text +=
        fmt::format(" offset=\"{}\" size=\"{}\"", node.offset, NumBytes(type));
  }
  return text;
}

std::string VariableAttributes(const Node& node) {
  const std::string id =
      fmt::format("variable_id=\"{}\"", EscapeXml(node.variable));
  if (node.op == Op::kAssign) return id;
  const Type& type = node.outputs[0];
  return fmt::format("{} variable_type=\"{}\" variable_shape=\"{}\"", id,
                     InfoOf(type.element).name, fmt::join(type.dims, ","));
}

std::string AttributesOf(const Node& node) {
  switch (node.op) {
    case Op::kParameter:
    case Op::kConstant:
      return GivenAttributes(node);
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kPower:
    case Op::kGreaterEqual:
      return "auto_broadcast=\"numpy\"";
    case Op::kGelu:
      return "approximation_mode=\"TANH\"";
    case Op::kConvert:
      return fmt::format("destination_type=\"{}\"", InfoOf(node.to).name);
    case Op::kSoftmax:
    case Op::kConcat:
      return fmt::format("axis=\"{}\"", node.axis);
    case Op::kReduceMean:
      return "keep_dims=\"true\"";
    case Op::kMatMul:
      return fmt::format("transpose_a=\"{}\" transpose_b=\"{}\"",
                         node.transpose_a, node.transpose_b);
    case Op::kReshape:
      return "special_zero=\"false\"";
    case Op::kGather:
      return "batch_dims=\"0\"";
    case Op::kReadValue:
    case Op::kAssign:
      return VariableAttributes(node);
    default:
      return "";
  }
}

void AppendPort(size_t id, const Type& type, const std::string& names,
                std::string& xml) {
  const auto out = std::back_inserter(xml);
  fmt::format_to(out, "<port id=\"{}\" precision=\"{}\"", id,
                 InfoOf(type.element).precision);
  if (!names.empty()) fmt::format_to(out, " names=\"{}\"", EscapeXml(names));
  xml += '>';
  for (const int64_t extent : type.dims) {
    fmt::format_to(out, "<dim>{}</dim>", extent);
  }
  xml += "</port>";
}

// Ports are counted through inputs and outputs.
void AppendLayer(const Graph& graph, uint32_t id, const TensorNames& names,
                 std::string& xml) {
  const Node& node = graph.nodes()[id];
  const std::string name =
      node.name.empty() ? fmt::format("n{}", id) : EscapeXml(node.name);
  fmt::format_to(std::back_inserter(xml),
                 "<layer id=\"{}\" name=\"{}\" type=\"{}\" version=\"{}\">", id,
                 name, InfoOf(node.op).type, InfoOf(node.op).opset);
  const std::string attributes = AttributesOf(node);
  if (!attributes.empty()) xml += fmt::format("<data {}/>", attributes);
  if (!node.inputs.empty()) {
    xml += "<input>";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      AppendPort(i, graph.type(node.inputs[i]), "", xml);
    }
    xml += "</input>";
  }
  if (!node.outputs.empty()) {
    xml += "<output>";
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      const auto found = names.find({id, i});
      AppendPort(node.inputs.size() + i, node.outputs[i],
                 found == names.end() ? "" : found->second, xml);
    }
    xml += "</output>";
  }
  xml += "</layer>\n";
}

void AppendEdges(const Graph& graph, std::string& xml) {
  for (size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& from = node.inputs[i];
      fmt::format_to(std::back_inserter(xml),
                     "<edge from-layer=\"{}\" from-port=\"{}\" to-layer=\"{}\" "
                     "to-port=\"{}\"/>\n",
                     from.node, graph.node(from).inputs.size() + from.output,
                     id, i);
    }
  }
}

// "int4_sym": of the narrowest weights; what OpenVINO's own tool would write.
std::string_view WeightMode(const Graph& graph) {
  const auto has = [&](Element element) {
    return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
      const bool is_given =
          node.op == Op::kConstant || node.op == Op::kParameter;
      return is_given && node.outputs[0].element == element;
    });
  };
  if (has(Element::kU4)) return "int4_asym";
  if (has(Element::kI4)) return "int4_sym";
  return has(Element::kU8) ? "int8_asym" : "int8_sym";
}

}  // namespace

std::string WriteIr(const Graph& graph) {
  std::string xml = fmt::format(
      "<?xml version=\"1.0\"?>\n<net name=\"{}\" version=\"11\">\n<layers>\n",
      EscapeXml(graph.title));
  const TensorNames names = NamesOfTensors(graph);
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    AppendLayer(graph, id, names, xml);
  }
  xml += "</layers>\n<edges>\n";
  AppendEdges(graph, xml);
  xml += "</edges>\n";
  if (graph.weight_group != 0) {
    xml += fmt::format(
        "<rt_info><nncf><weight_compression><mode value=\"{}\"/>"
        "<group_size value=\"{}\"/></weight_compression></nncf></rt_info>\n",
        WeightMode(graph), graph.weight_group);
  }
  xml += "</net>\n";
  return xml;
}

}  // namespace thermocline::npu
