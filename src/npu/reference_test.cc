#include <gtest/gtest.h>

#include <vector>

#include "npu/static_device.h"
#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

TEST(ReferenceTest, SaysWhatItIs) {
  const auto device = MakeReferenceDevice();
  EXPECT_EQ(device->name(), "reference");
  EXPECT_FALSE(device->Describe().empty());
}

TEST(ReferenceTest, NamesAndTypesAreChecked) {
  Graph graph;
  graph.Output(graph.Parameter("x", {Element::kF32, {2}}), "y");
  const auto device = MakeReferenceDevice();
  BoundProgram program(*device, graph);
  std::byte bytes[8];
  const Status unknown =
      program.program().Bind("z", {Element::kF32, {2}}, bytes);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  const Status other =
      program.program().Bind("y", {Element::kF32, {1, 2}}, bytes);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(other.error().message,
            "thermocline: tensor 'y' is f32[2], not f32[1,2]");
}

TEST(ReferenceTest, ResultsOfOneValueAndOfAParameter) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  const Value sum = graph.Binary(Op::kAdd, x, x);
  graph.Output(sum, "twice");
  graph.Output(sum, "twice again");
  graph.Output(x, "same");
  graph.Output(graph.Scalar(4.0f), "four");
  const auto device = MakeReferenceDevice();
  BoundProgram program(*device, graph);
  program.Set("x", std::vector<double>{1, 2});
  ASSERT_TRUE(program.Infer().has_value());
  EXPECT_EQ(program.Get("twice"), (std::vector<float>{2, 4}));
  EXPECT_EQ(program.Get("twice again"), (std::vector<float>{2, 4}));
  EXPECT_EQ(program.Get("same"), (std::vector<float>{1, 2}));
  EXPECT_EQ(program.Get("four"), (std::vector<float>{4}));
}

TEST(ReferenceTest, AResultMayLieWhereAParameterLies) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {2}});
  graph.Output(graph.Binary(Op::kMultiply, x, graph.Scalar(2.0f)), "y");
  graph.Output(graph.Binary(Op::kAdd, x, graph.Scalar(1.0f)), "z");
  graph.Output(x, "same");
  const auto device = MakeReferenceDevice();
  BoundProgram program(*device, graph);
  ASSERT_TRUE(program.program()
                  .Bind("y", {Element::kF32, {2}}, program.bytes("x").data())
                  .has_value());
  program.Set("x", std::vector<double>{1, 2});
  ASSERT_TRUE(program.Infer().has_value());
  EXPECT_EQ(program.Get("x"), (std::vector<float>{2, 4}));
  EXPECT_EQ(program.Get("z"), (std::vector<float>{2, 3}));
  EXPECT_EQ(program.Get("same"), (std::vector<float>{1, 2}));
}

TEST(ReferenceTest, TheGraphMayGo) {
  const auto device = MakeReferenceDevice();
  auto graph = std::make_unique<Graph>();
  graph->Output(Numbers(*graph, {Element::kF32, {2}}, {3, 4}), "y");
  BoundProgram program(*device, *graph);
  graph.reset();
  ASSERT_TRUE(program.Infer().has_value());
  EXPECT_EQ(program.Get("y"), (std::vector<float>{3, 4}));
}

TEST(ReferenceTest, VariablesLastUntilReset) {
  Graph graph;
  const Value x = graph.Parameter("x", {Element::kF32, {1}});
  const Value last =
      graph.ReadValue(Numbers(graph, {Element::kF32, {1}}, {100}), "sum");
  const Value sum = graph.Binary(Op::kAdd, last, x);
  graph.Assign(sum, "sum");
  graph.Output(graph.Reshape(last, {1, 1}), "y");
  // What is assigned lies in the caller's memory.
  graph.Output(graph.ReadValue(graph.Scalar(0.0f), "x"), "before");
  graph.Assign(x, "x");
  const auto device = MakeReferenceDevice();
  BoundProgram program(*device, graph);
  const auto next = [&](double value) {
    program.Set("x", std::vector<double>{value});
    EXPECT_TRUE(program.Infer().has_value());
    return std::vector<float>{program.Get("y")[0], program.Get("before")[0]};
  };
  EXPECT_EQ(next(1), (std::vector<float>{100, 0}));
  EXPECT_EQ(next(2), (std::vector<float>{101, 1}));
  EXPECT_EQ(next(3), (std::vector<float>{103, 2}));
  ASSERT_TRUE(program.program().Reset().has_value());
  EXPECT_EQ(next(4), (std::vector<float>{100, 0}));
  EXPECT_EQ(next(5), (std::vector<float>{104, 4}));
}

}  // namespace
}  // namespace thermocline::npu
