#include "npu/graph.h"

#include <gtest/gtest.h>

#include <vector>

namespace thermocline::npu {
namespace {

TEST(GraphTest, ElementsAndOperationsAreFoundByTheirNames) {
  for (int i = 0; i <= static_cast<int>(Element::kBool); ++i) {
    const ElementInfo& info = InfoOf(static_cast<Element>(i));
    EXPECT_EQ(info.element, static_cast<Element>(i));
    EXPECT_EQ(ParseElement(info.name), info.element);
    EXPECT_EQ(ParsePrecision(info.precision), info.element);
  }
  for (int i = 0; i <= static_cast<int>(Op::kAssign); ++i) {
    const OpInfo& info = InfoOf(static_cast<Op>(i));
    EXPECT_EQ(info.op, static_cast<Op>(i));
    EXPECT_EQ(ParseOp(info.type), info.op);
  }
  EXPECT_EQ(ParseElement("f64"), std::nullopt);
  EXPECT_EQ(ParseOp("LSTM"), std::nullopt);
}

TEST(GraphTest, FourBitsLieTwoToAByte) {
  EXPECT_EQ(NumBytes({Element::kI4, {3, 3}}), 5u);
  EXPECT_EQ(NumBytes({Element::kF16, {}}), 2u);
}

TEST(GraphTest, ConstantsLieAtMultiplesOfTheAlignment) {
  Graph graph;
  graph.Scalar(1.0f);
  const Value ints = graph.Ints({4, 5});
  EXPECT_EQ(graph.node(ints).offset, Graph::kAlignment);
  EXPECT_EQ(*graph.IntsOf(ints), (std::vector<int64_t>{4, 5}));
}

TEST(GraphTest, NamesOfTensorsAreTheirOwn) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  graph.Output(x, "y");
  for (const char* name : {"", "x", "y"}) {
    EXPECT_FALSE(graph.Add({.op = Op::kResult, .name = name, .inputs = {x}}));
  }
  EXPECT_EQ(graph.parameters().size(), 1u);
  EXPECT_EQ(graph.results().size(), 1u);
}

TEST(GraphTest, NamesAreOfPrintableCharacters) {
  Graph graph;
  const Value x = graph.Parameter("x <&\"'>,", {Element::kF32, {2}});
  for (const char* name : {"a\nb", "a\\b", "a\x7f"}) {
    const auto named =
        graph.Add({.op = Op::kSqrt, .name = name, .inputs = {x}});
    ASSERT_FALSE(named.has_value());
    EXPECT_NE(named.error().message.find("control"), std::string::npos);
    EXPECT_FALSE(
        graph.Add({.op = Op::kReadValue, .inputs = {x}, .variable = name}));
  }
}

TEST(GraphTest, EveryResultIsAValueOfItsOwn) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  const Value y = graph.Unary(Op::kRelu, x);
  graph.Output(y, "y");
  graph.Output(y, "again");
  graph.Output(x, "same");
  std::vector<Value> read;
  for (const Node* result : graph.results()) {
    read.push_back(result->inputs[0]);
  }
  EXPECT_EQ(read[0], y);
  EXPECT_EQ(graph.node(read[1]).op, Op::kReshape);
  EXPECT_EQ(graph.node(read[2]).op, Op::kReshape);
  for (const Value value : {x, y}) {
    EXPECT_FALSE(
        graph.Add({.op = Op::kResult, .name = "z", .inputs = {value}}));
  }
}

TEST(GraphTest, VariablesAreOfOneType) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  const Value other = graph.Parameter("other", {Element::kF32, {3}});
  graph.Assign(graph.ReadValue(x, "v"), "v");
  graph.ReadValue(x, "w");
  for (const Op op : {Op::kReadValue, Op::kAssign}) {
    EXPECT_FALSE(graph.Add({.op = op, .inputs = {x}, .variable = "v"}));
  }
  const auto wrong =
      graph.Add({.op = Op::kAssign, .inputs = {other}, .variable = "w"});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message.find("'w' is f32[2], not f32[3]"),
            std::string::npos);
}

}  // namespace
}  // namespace thermocline::npu
