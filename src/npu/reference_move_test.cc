#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

// Moves of whole numbers, counted from 0, that come out as floats.
struct MoveCase {
  const char* what;
  Dims dims;
  std::function<Value(Graph&, Value)> build;
  std::vector<double> expected;
};

std::vector<MoveCase> OrderCases() {
  return {
      {"reshape",
       {2, 3},
       [](Graph& g, Value x) { return g.Reshape(x, {3, 1, 2}); },
       {0, 1, 2, 3, 4, 5}},
      {"transpose of two",
       {2, 3},
       [](Graph& g, Value x) { return g.Transpose(x, {1, 0}); },
       {0, 3, 1, 4, 2, 5}},
      {"heads before rows",
       {1, 2, 2, 3},
       [](Graph& g, Value x) { return g.Transpose(x, {0, 2, 1, 3}); },
       {0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11}},
      {"concat of rows",
       {1, 3},
       [](Graph& g, Value x) { return g.Concat({x, x}, 0); },
       {0, 1, 2, 0, 1, 2}},
      {"concat of columns",
       {2, 2},
       [](Graph& g, Value x) { return g.Concat({g.Slice(x, 1, 1, 2), x}, -1); },
       {1, 0, 1, 3, 2, 3}},
  };
}

std::vector<MoveCase> CutCases() {
  return {
      {"a part of a split",
       {2, 3},
       [](Graph& g, Value x) { return g.Split(x, -1, {1, 2})[1]; },
       {1, 2, 4, 5}},
      {"a slice",
       {3, 1, 2},
       [](Graph& g, Value x) { return g.Slice(x, 0, 1, 3); },
       {2, 3, 4, 5}},
      {"rows, one twice",
       {3, 2},
       [](Graph& g, Value x) { return g.Gather(x, g.Ints({2, 0, 2}), 0); },
       {4, 5, 0, 1, 4, 5}},
      {"rows replaced",
       {3, 1},
       [](Graph& g, Value x) {
         return g.ScatterUpdate(x, g.Ints({2}), g.Slice(x, 0, 0, 1), 0);
       },
       {0, 1, 0}},
      {"columns replaced, the last of two stays",
       {2, 3},
       [](Graph& g, Value x) {
         return g.ScatterUpdate(x, g.Ints({0, 0}), g.Slice(x, 1, 1, 3), 1);
       },
       {2, 1, 2, 5, 4, 5}},
  };
}

void ExpectMoves(const std::vector<MoveCase>& cases) {
  for (const MoveCase& a_case : cases) {
    for (const Element element :
         {Element::kF32, Element::kF16, Element::kI64, Element::kI8,
          Element::kU8, Element::kI4, Element::kU4}) {
      std::vector<double> values;
      for (int i = 0; i < NumElements(a_case.dims); ++i) values.push_back(i);
      std::vector<double> expected = a_case.expected;
      if (element == Element::kI4) {  // 8 is -8
        for (double& value : expected) value -= value > 7 ? 16 : 0;
      }
      Graph graph;
      const Value x = Numbers(graph, {element, a_case.dims}, values);
      graph.Output(graph.Convert(a_case.build(graph, x), Element::kF32), "y");
      const std::vector<float> y = ReferenceOf(graph);
      EXPECT_EQ(std::vector<double>(y.begin(), y.end()), expected)
          << a_case.what << " of " << InfoOf(element).name;
    }
  }
}

TEST(ReferenceMoveTest, OfEveryElement) {
  ExpectMoves(OrderCases());
  ExpectMoves(CutCases());
}

TEST(ReferenceMoveTest, RowsThatAreNoneAreRefused) {
  for (const bool is_scatter : {false, true}) {
    Graph graph;
    const Value x = graph.Parameter("x", {Element::kF32, {3, 2}});
    const Value rows = graph.Parameter("rows", {Element::kI64, {2}});
    graph.Output(is_scatter
                     ? graph.ScatterUpdate(x, rows, graph.Slice(x, 0, 0, 2), 0)
                     : graph.Gather(x, rows, 0),
                 "y");
    const auto device = MakeReferenceDevice();
    BoundProgram program(*device, graph);
    for (const double row : {-1.0, 3.0, 9e18, -9e18}) {
      program.Set("rows", std::vector<double>{0, row});
      const Status status = program.Infer();
      ASSERT_FALSE(status.has_value()) << row;
      EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
      EXPECT_NE(status.error().message.find("of 3"), std::string::npos);
    }
    program.Set("rows", std::vector<double>{0, 2});
    EXPECT_TRUE(program.Infer().has_value());
  }
}

}  // namespace
}  // namespace thermocline::npu
