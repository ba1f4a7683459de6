// Any text as IR, then a zero byte and any constants: refused, or a graph that
// is written and read back as the same text, and that the reference carries out
// if it is small. (A row number that is none is its input's fault.)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "npu/ir.h"
#include "npu/static_device.h"

namespace thermocline::npu {
namespace {

// Of all values of a graph that is worth carrying out here.
constexpr int64_t kMostElements = 1 << 12;

bool IsSmall(const Graph& graph) {
  int64_t count = 0;
  for (const Node& node : graph.nodes()) {
    for (const Type& type : node.outputs) {
      const int64_t elements = NumElements(type.dims);
      if (elements > kMostElements) return false;
      count += elements;
    }
  }
  return count <= kMostElements;
}

void CarryOut(const Graph& graph) {
  auto program = MakeReferenceDevice()->Compile(graph, {});
  TC_CHECK(program.has_value());
  alignas(Graph::kAlignment) static std::byte memory[8 * kMostElements];
  for (const Node* node : graph.parameters()) {
    TC_CHECK((*program)->Bind(node->name, node->outputs[0], memory));
  }
  for (const Node* node : graph.results()) {
    TC_CHECK((*program)->Bind(node->name, graph.type(node->inputs[0]), memory));
  }
  for (int i = 0; i < 2; ++i) {
    const Status status = (*program)->Infer();
    TC_CHECK(status || status.error().code == ErrorCode::kInvalidArgument);
  }
}

void CheckGraph(const Graph& graph) {
  const std::string xml = WriteIr(graph);
  const auto again = ReadIr(xml, {graph.data().begin(), graph.data().end()});
  TC_CHECK(again.has_value());
  TC_CHECK(WriteIr(*again) == xml);
  if (IsSmall(graph)) CarryOut(graph);
}

}  // namespace
}  // namespace thermocline::npu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thermocline::npu;
  const auto* end = std::find(data, data + size, uint8_t{0});
  const std::string_view xml(reinterpret_cast<const char*>(data),
                             static_cast<size_t>(end - data));
  std::vector<std::byte> constants;
  if (end != data + size) {
    const auto bytes = std::as_bytes(std::span(end + 1, data + size));
    constants.assign(bytes.begin(), bytes.end());
  }
  const auto graph = ReadIr(xml, std::move(constants));
  if (graph.has_value()) CheckGraph(*graph);
  return 0;
}
