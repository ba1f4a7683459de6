// For tests: graphs with numbers in them, and a program with memory bound to
// all its names.
#ifndef THERMOCLINE_NPU_TEST_GRAPH_H_
#define THERMOCLINE_NPU_TEST_GRAPH_H_

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "npu/graph.h"
#include "npu/static_device.h"
#include "tensor/float16.h"

namespace thermocline::npu {

// `values` as elements of kF32 or kF16, whole numbers as all others.
inline std::vector<std::byte> BytesOf(Element element,
                                      const std::vector<double>& values) {
  std::vector<std::byte> bytes(
      NumBytes({element, {static_cast<int64_t>(values.size())}}));
  const auto put = [&](size_t i, auto value) {
    std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const auto whole = static_cast<int64_t>(values[i]);
    switch (InfoOf(element).num_bits) {
      case 4:
        bytes[i / 2] |= static_cast<std::byte>((whole & 15) << (i % 2 * 4));
        break;
      case 8:
        put(i, static_cast<int8_t>(whole));
        break;
      case 16:
        put(i, F32ToF16(static_cast<float>(values[i])));
        break;
      case 32:
        put(i, static_cast<float>(values[i]));
        break;
      default:
        put(i, whole);
    }
  }
  return bytes;
}

// A constant of those numbers, zeros behind them.
inline Value Numbers(Graph& graph, Type type, std::vector<double> values) {
  values.resize(static_cast<size_t>(NumElements(type.dims)));
  const std::vector<std::byte> bytes = BytesOf(type.element, values);
  return graph.Constant(std::move(type), bytes);
}

inline std::vector<double> RandomNumbers(Random& random, const Dims& dims) {
  std::vector<double> values(static_cast<size_t>(NumElements(dims)));
  for (double& value : values) value = random.Uniform(-1.0f, 1.0f);
  return values;
}

// A compiled graph whose parameters and results lie in memory of its own, all
// zeros at first.
class BoundProgram {
 public:
  BoundProgram(StaticDevice& device, const Graph& graph,
               const CompileOptions& options = {.is_exact = true}) {
    auto program = device.Compile(graph, options);
    if (!program.has_value()) ADD_FAILURE() << program.error().message;
    TC_CHECK(program.has_value());
    program_ = *std::move(program);
    for (const Node* node : graph.parameters()) {
      Bind(node->name, node->outputs[0]);
    }
    for (const Node* node : graph.results()) {
      Bind(node->name, graph.type(node->inputs[0]));
    }
  }

  std::span<std::byte> bytes(const std::string& name) {
    Port& port = ports_.at(name);
    return {port.lines[0].bytes, NumBytes(port.type)};
  }
  void Set(const std::string& name, std::span<const std::byte> bytes_of) {
    TC_CHECK(bytes_of.size() == bytes(name).size());
    std::memcpy(bytes(name).data(), bytes_of.data(), bytes_of.size());
  }
  void Set(const std::string& name, const std::vector<double>& values) {
    Set(name, BytesOf(ports_.at(name).type.element, values));
  }
  // Of floats, or of whole numbers from 0.
  std::vector<float> Get(const std::string& name) {
    const std::span<std::byte> from = bytes(name);
    const size_t size = InfoOf(ports_.at(name).type.element).num_bits / 8;
    std::vector<float> values(from.size() / size);
    for (size_t i = 0; i < values.size(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, from.data() + i * size, size);
      values[i] = size == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                  : size == 2 ? F16ToF32(static_cast<uint16_t>(bits))
                              : static_cast<float>(bits);
    }
    return values;
  }

  StaticProgram& program() { return *program_; }
  Status Infer() { return program_->Infer(); }

 private:
  struct alignas(Graph::kAlignment) Line {
    std::byte bytes[Graph::kAlignment];
  };
  struct Port {
    Type type;
    std::vector<Line> lines;
  };

  void Bind(const std::string& name, const Type& type) {
    Port& port = ports_[name];
    port.type = type;
    port.lines.resize(NumBytes(type) / sizeof(Line) + 1);
    const Status status = program_->Bind(name, type, port.lines[0].bytes);
    EXPECT_TRUE(status.has_value()) << name;
  }

  std::unique_ptr<StaticProgram> program_;
  std::map<std::string, Port> ports_;
};

// What the reference says is the result `y`.
inline std::vector<float> ReferenceOf(const Graph& graph) {
  const auto device = MakeReferenceDevice();
  BoundProgram program(*device, graph);
  const Status status = program.Infer();
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
  return program.Get("y");
}

}  // namespace thermocline::npu

#endif  // THERMOCLINE_NPU_TEST_GRAPH_H_
