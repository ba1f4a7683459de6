#include <cstring>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "npu/reference_ops.h"
#include "npu/reference_tensor.h"
#include "npu/static_device.h"

namespace thermocline::npu {
namespace {

// For each node the last one that reads it; itself, if none does.
std::vector<size_t> LastReaders(const Graph& graph) {
  std::vector<size_t> last(graph.nodes().size());
  for (size_t id = 0; id < last.size(); ++id) {
    last[id] = id;
    for (const Value& input : graph.nodes()[id].inputs) last[input.node] = id;
  }
  return last;
}

HostTensor Owned(const HostTensor& tensor) {
  return tensor.owner ? tensor : CopyOf(tensor);
}

class ReferenceProgram : public StaticProgram {
 public:
  explicit ReferenceProgram(const Graph& graph)
      : graph_(graph), last_readers_(LastReaders(graph_)) {
    for (const Node* node : graph_.parameters()) {
      ports_[node->name] = {.type = node->outputs[0]};
    }
    for (const Node* node : graph_.results()) {
      ports_[node->name] = {.type = graph_.type(node->inputs[0])};
    }
  }

  Status Bind(std::string_view name, const Type& type,
              std::byte* data) override {
    const auto found = ports_.find(name);
    if (found == ports_.end()) {
      return Fail(ErrorCode::kNotFound, "{}: no tensor '{}'", graph_.title,
                  name);
    }
    Port& port = found->second;
    if (port.type != type) {
      return Fail(ErrorCode::kInvalidArgument, "{}: tensor '{}' is {}, not {}",
                  graph_.title, name, ToString(port.type), ToString(type));
    }
    port.data = data;
    return {};
  }

  Status Infer() override {
    for (const auto& [name, port] : ports_) TC_CHECK(port.data != nullptr);
    try {
      return Run();
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kResourceExhausted, "{}: no memory for its values",
                  graph_.title);
    }
  }

  Status Reset() override {
    variables_.clear();
    return {};
  }

 private:
  struct Port {
    Type type;
    std::byte* data = nullptr;
  };
  using Tensors = std::vector<HostTensor>;
  // What an Infer changes, when all of it is known: a result may lie where a
  // parameter lies.
  struct Changes {
    std::map<std::string, HostTensor> variables;
    std::vector<std::pair<HostTensor, std::byte*>> results;
  };

  Status Run();
  Result<Tensors> RunNode(const Node& node, const Tensors& inputs,
                          Changes& changes);

  Graph graph_;
  std::vector<size_t> last_readers_;
  std::map<std::string, Port, std::less<>> ports_;
  std::map<std::string, HostTensor> variables_;
};

Status ReferenceProgram::Run() {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<Tensors> values(nodes.size());
  Changes changes;
  for (size_t id = 0; id < nodes.size(); ++id) {
    Tensors inputs;
    for (const Value& input : nodes[id].inputs) {
      inputs.push_back(values[input.node][input.output]);
    }
    auto outputs = RunNode(nodes[id], inputs, changes);
    if (!outputs.has_value()) {
      return Annotate(fmt::format("{}: node {} ({})", graph_.title, id,
                                  InfoOf(nodes[id].op).type),
                      outputs.error());
    }
    if (last_readers_[id] != id) values[id] = *std::move(outputs);
    for (const Value& input : nodes[id].inputs) {
      if (last_readers_[input.node] == id) values[input.node].clear();
    }
  }
  for (const auto& [name, tensor] : changes.variables) {
    variables_[name] = Owned(tensor);
  }
  for (const auto& [tensor, data] : changes.results) {
    std::memmove(data, tensor.data, tensor.bytes().size());
  }
  return {};
}

Result<ReferenceProgram::Tensors> ReferenceProgram::RunNode(
    const Node& node, const Tensors& inputs, Changes& changes) {
  switch (node.op) {
    case Op::kParameter:
      return Tensors{{node.outputs[0], ports_.find(node.name)->second.data}};
    case Op::kConstant:
      return Tensors{{node.outputs[0], graph_.bytes_of(node).data()}};
    case Op::kResult:
      // What has no owner may lie where another result is written.
      changes.results.emplace_back(Owned(inputs[0]),
                                   ports_.find(node.name)->second.data);
      return Tensors{};
    case Op::kReadValue: {
      const auto found = variables_.find(node.variable);
      return Tensors{found == variables_.end() ? inputs[0] : found->second};
    }
    case Op::kAssign:
      changes.variables[node.variable] = inputs[0];
      return inputs;
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kConcat:
    case Op::kVariadicSplit:
    case Op::kSlice:
    case Op::kGather:
    case Op::kScatterUpdate:
      return Move(graph_, node, inputs);
    default:
      return Tensors{Compute(node, inputs)};
  }
}

class ReferenceDevice : public StaticDevice {
 public:
  std::string name() const override { return "reference"; }
  std::string Describe() const override { return "reference on the host"; }

  Result<std::unique_ptr<StaticProgram>> Compile(
      const Graph& graph, const CompileOptions& /*options*/) override {
    try {
      return std::make_unique<ReferenceProgram>(graph);
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kResourceExhausted,
                  "{}: no memory for a copy of its {} bytes", graph.title,
                  graph.data().size());
    }
  }
};

}  // namespace

std::unique_ptr<StaticDevice> MakeReferenceDevice() {
  return std::make_unique<ReferenceDevice>();
}

}  // namespace thermocline::npu
