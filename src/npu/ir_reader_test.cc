#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "npu/ir.h"
#include "npu/test_random_graph.h"

namespace thermocline::npu {
namespace {

std::vector<std::byte> ConstantsOf(const Graph& graph) {
  return {graph.data().begin(), graph.data().end()};
}

// A graph whose text has all kinds of attributes.
Graph IrOfEverything() {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2, 4}});
  const Value ids = graph.Parameter("ids", {Element::kI64, {2}});
  const Value w = Numbers(graph, {Element::kI4, {3, 4}}, {1, 2, 3});
  const Value product = graph.MatMul(x, graph.Convert(w, Element::kF32), true);
  const Value past = graph.ReadValue(
      Numbers(graph, {Element::kF32, {2, 3}}, {1, 2, 3, 4, 5, 6}), "v");
  const Value sum = graph.Binary(Op::kAdd, product, past);
  graph.Assign(sum, "v");
  const Value rows = graph.Gather(graph.Unary(Op::kGelu, sum), ids, 0);
  const std::vector<Value> parts = graph.Split(rows, 1, {1, 2});
  graph.Output(graph.ReduceMean(graph.Softmax(parts[1], 1), -1), "y");
  graph.Output(graph.Concat({parts[0], rows}, 1), "z");
  graph.weight_group = -1;
  return graph;
}

// The same attributes in texts of their own, for cases that read one for each
// of its bytes.
std::vector<Graph> PiecesOfEverything() {
  std::vector<Graph> graphs(4);
  const auto x_of = [](Graph& graph) {
    return graph.Parameter("x", {Element::kF32, {2, 4}});
  };
  const Value w = Numbers(graphs[0], {Element::kI4, {3, 4}}, {1, 2, 3});
  graphs[0].Output(graphs[0].MatMul(x_of(graphs[0]),
                                    graphs[0].Convert(w, Element::kF32), true),
                   "y");
  graphs[0].weight_group = -1;
  const Value past =
      graphs[1].ReadValue(Numbers(graphs[1], {Element::kF32, {1}}, {1}), "v");
  graphs[1].Assign(past, "v");
  graphs[1].Output(graphs[1].Binary(Op::kAdd, x_of(graphs[1]), past), "y");
  const Value ids = graphs[2].Parameter("ids", {Element::kI64, {2}});
  graphs[2].Output(
      graphs[2].Gather(graphs[2].Unary(Op::kGelu, x_of(graphs[2])), ids, 0),
      "y");
  const std::vector<Value> parts = graphs[3].Split(x_of(graphs[3]), 1, {1, 3});
  graphs[3].Output(graphs[3].ReduceMean(graphs[3].Softmax(parts[1], 1), -1),
                   "y");
  graphs[3].Output(graphs[3].Concat({parts[0], parts[1]}, 1), "z");
  return graphs;
}

void ExpectSameAfterReading(const Graph& graph) {
  const std::string xml = WriteIr(graph);
  const auto again = ReadIr(xml, ConstantsOf(graph));
  ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << xml;
  EXPECT_EQ(WriteIr(*again), xml);
  EXPECT_EQ(ConstantsOf(*again), ConstantsOf(graph));
}

TEST(IrReaderTest, WhatIsWrittenIsReadBack) {
  ExpectSameAfterReading(IrOfEverything());
  for (const Graph& piece : PiecesOfEverything()) ExpectSameAfterReading(piece);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    ExpectSameAfterReading(RandomGraph(seed).graph());
  }
}

TEST(IrReaderTest, AndComputesTheSame) {
  const auto device = MakeReferenceDevice();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const RandomGraph random(seed);
    const auto again =
        ReadIr(WriteIr(random.graph()), ConstantsOf(random.graph()));
    ASSERT_TRUE(again.has_value());
    BoundProgram first(*device, random.graph());
    BoundProgram second(*device, *again);
    ASSERT_TRUE(first.Infer().has_value());
    ASSERT_TRUE(second.Infer().has_value());
    for (const Node* result : again->results()) {
      const auto a = first.bytes(result->name);
      const auto b = second.bytes(result->name);
      EXPECT_TRUE(std::ranges::equal(a, b)) << result->name;
    }
  }
}

TEST(IrReaderTest, NoPartOfATextIsAGraph) {
  for (const Graph& graph : PiecesOfEverything()) {
    const std::string xml = WriteIr(graph);
    for (size_t size = 0; size + 1 < xml.size(); ++size) {
      const auto part =
          ReadIr(std::string_view(xml).substr(0, size), ConstantsOf(graph));
      ASSERT_FALSE(part.has_value()) << size;
      EXPECT_EQ(part.error().code, ErrorCode::kCorrupt) << part.error().message;
      EXPECT_NE(part.error().message.find("line "), std::string::npos);
    }
  }
}

TEST(IrReaderTest, AnyOtherByteIsRefusedOrAGraph) {
  for (const Graph& graph : PiecesOfEverything()) {
    const std::string xml = WriteIr(graph);
    for (size_t at = 0; at < xml.size(); ++at) {
      for (const char c : {'9', '"', '<'}) {
        std::string other = xml;
        other[at] = c;
        const auto read = ReadIr(other, ConstantsOf(graph));
        if (read.has_value()) ExpectSameAfterReading(*read);
      }
    }
  }
}

TEST(IrReaderTest, ConstantsLieInTheirBytes) {
  const Graph graph = IrOfEverything();
  std::vector<std::byte> data = ConstantsOf(graph);
  data.pop_back();
  const auto read = ReadIr(WriteIr(graph), data);
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find("beyond the"), std::string::npos);
}

// What becomes of a text in which `from` is `to`.
struct IrChange {
  const char* from;
  const char* to;
  ErrorCode code;
  const char* words;
};

void ExpectIrRefused(const std::vector<IrChange>& changes) {
  const Graph graph = IrOfEverything();
  for (const IrChange& change : changes) {
    std::string xml = WriteIr(graph);
    const size_t at = xml.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.from;
    xml.replace(at, std::string(change.from).size(), change.to);
    const auto read = ReadIr(xml, ConstantsOf(graph));
    ASSERT_FALSE(read.has_value()) << change.to;
    EXPECT_EQ(read.error().code, change.code) << read.error().message;
    EXPECT_NE(read.error().message.find(change.words), std::string::npos)
        << change.to << ": " << read.error().message;
    EXPECT_TRUE(read.error().message.starts_with("line "));
  }
}

TEST(IrReaderTest, WrongTagsAndAttributes) {
  ExpectIrRefused({
      {"<net ", "<not ", ErrorCode::kCorrupt, "\"not\" is not expected"},
      {"version=\"11\"", "version=\"10\"", ErrorCode::kUnsupported, "only 11"},
      {"<layers>", "<layers/>", ErrorCode::kCorrupt,
       "\"layers\" is not expected"},
      {"</net>", "</net><net>", ErrorCode::kCorrupt, "behind the end"},
      {"type=\"MatMul\"", "type=\"LSTM\"", ErrorCode::kUnsupported, "LSTM"},
      {"version=\"opset8\"", "version=\"opset9\"", ErrorCode::kUnsupported,
       "opset8"},
      {"<layer id=\"1\"", "<layer id=\"2\"", ErrorCode::kCorrupt,
       "layer 1 is next"},
      {"<data elem", "<data more=\"1\" elem", ErrorCode::kUnsupported,
       "\"more\""},
      {"TANH", "ERF", ErrorCode::kUnsupported, "ERF"},
      {"keep_dims=\"true\"", "keep_dims=\"false\"", ErrorCode::kUnsupported,
       "keep_dims"},
      {"transpose_b=\"true\"", "transpose_b=\"1\"", ErrorCode::kCorrupt,
       "true or false"},
      {"batch_dims=\"0\"", "batch_dims=\"1\"", ErrorCode::kUnsupported,
       "batch_dims"},
      {"<data axis=\"1\"/>", "", ErrorCode::kCorrupt, "without attribute axis"},
      {"axis=\"1\"", "axis=\"x\"", ErrorCode::kCorrupt, "no whole number"},
      {"axis=\"1\"", "axis=\"2\"", ErrorCode::kCorrupt, "dimension 2 of 2"},
      {"group_size value=\"-1\"", "group_size value=\"-2\"",
       ErrorCode::kCorrupt, "not from 0"},
      {"<mode ", "<mood ", ErrorCode::kCorrupt, "\"mood\""},
      {"variable_shape=\"2,3\"", "variable_shape=\"3,2\"", ErrorCode::kCorrupt,
       "as another type"},
  });
}

TEST(IrReaderTest, WrongShapes) {
  ExpectIrRefused({
      {"element_type=\"f32\"", "element_type=\"f64\"", ErrorCode::kUnsupported,
       "f64"},
      {"shape=\"2,4\"", "shape=\"2,5\"", ErrorCode::kCorrupt,
       "its outputs are not"},
      {"shape=\"2,4\"", "shape=\"0,4\"", ErrorCode::kCorrupt,
       "not one of a tensor"},
      {"shape=\"2,4\"", "shape=\"9999999999999,9999999999999\"",
       ErrorCode::kCorrupt, "not one of a tensor"},
      {"precision=\"FP32\"", "precision=\"FP64\"", ErrorCode::kCorrupt, "FP64"},
      {"<dim>2</dim>", "<dim>-2</dim>", ErrorCode::kCorrupt, "no whole number"},
      {"<dim>2</dim>", "<dim>99999999999999999999</dim>", ErrorCode::kCorrupt,
       "no whole number"},
      {"size=\"6\"", "size=\"7\"", ErrorCode::kCorrupt, "7 bytes as i4[3,4]"},
      {"offset=\"0\"", "offset=\"18446744073709551615\"", ErrorCode::kCorrupt,
       "no whole number"},
      {"offset=\"0\"", "offset=\"9223372036854775807\"", ErrorCode::kCorrupt,
       "beyond"},
      {"offset=\"0\"", "offset=\"1\"", ErrorCode::kCorrupt,
       "no multiple of 64"},
  });
}

TEST(IrReaderTest, WrongEdgesAndNames) {
  ExpectIrRefused({
      {"from-layer=\"2\"", "from-layer=\"9\"", ErrorCode::kCorrupt,
       "not forwards"},
      {"from-layer=\"2\"", "from-layer=\"3\"", ErrorCode::kCorrupt,
       "not forwards"},
      {"from-layer=\"2\" from-port=\"0\"", "from-layer=\"2\" from-port=\"1\"",
       ErrorCode::kCorrupt, "no such ports"},
      {"to-layer=\"4\" to-port=\"1\"", "to-layer=\"4\" to-port=\"0\"",
       ErrorCode::kCorrupt, "has an edge"},
      {"to-layer=\"4\" to-port=\"1\"", "to-layer=\"4\" to-port=\"2\"",
       ErrorCode::kCorrupt, "no such ports"},
      {"to-layer=\"4\"", "to-layer=\"999\"", ErrorCode::kCorrupt,
       "no such ports"},
      {"<edge from-layer=\"2\" from-port=\"0\" to-layer=\"3\" to-port=\"0\"/>",
       "", ErrorCode::kCorrupt, "port 0 has no edge"},
      {"names=\"ids\"", "names=\"x\"", ErrorCode::kCorrupt,
       "its tensor is named"},
      {"name=\"ids\"", "name=\"x\"", ErrorCode::kCorrupt, "no name of its own"},
      {"names=\"y\"", "names=\"w\"", ErrorCode::kCorrupt,
       "its tensor is named"},
      {"id=\"1\" precision=\"FP32\">",
       "id=\"1\" precision=\"FP32\" names=\"w\">", ErrorCode::kCorrupt,
       "no result"},
  });
}

}  // namespace
}  // namespace thermocline::npu
