#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

struct ComputeCase {
  const char* what;
  std::function<Value(Graph&)> build;
  std::vector<double> expected;
};

Value OfTwo(Graph& graph, Op op, Dims dims_a, const std::vector<double>& a,
            Dims dims_b, const std::vector<double>& b) {
  const Value left = Numbers(graph, {Element::kF32, std::move(dims_a)}, a);
  return graph.Binary(op, left,
                      Numbers(graph, {Element::kF32, std::move(dims_b)}, b));
}

Value OfOne(Graph& graph, Op op, Element element,
            const std::vector<double>& x) {
  const auto count = static_cast<int64_t>(x.size());
  return graph.Unary(op, Numbers(graph, {element, {count}}, x));
}

void ExpectCases(const std::vector<ComputeCase>& cases) {
  for (const ComputeCase& a_case : cases) {
    Graph graph;
    graph.Output(a_case.build(graph), "y");
    const std::vector<float> y = ReferenceOf(graph);
    ASSERT_EQ(y.size(), a_case.expected.size()) << a_case.what;
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_FLOAT_EQ(y[i], static_cast<float>(a_case.expected[i]))
          << a_case.what << ", element " << i;
    }
  }
}

TEST(ReferenceComputeTest, PairsAreBroadcast) {
  ExpectCases({
      {"a row to each of two",
       [](Graph& g) {
         return OfTwo(g, Op::kAdd, {2, 3}, {1, 2, 3, 4, 5, 6}, {3},
                      {10, 20, 30});
       },
       {11, 22, 33, 14, 25, 36}},
      {"a column and a row",
       [](Graph& g) {
         return OfTwo(g, Op::kSubtract, {2, 1}, {10, 20}, {1, 3}, {1, 2, 3});
       },
       {9, 8, 7, 19, 18, 17}},
      {"the middle repeats",
       [](Graph& g) {
         return OfTwo(g, Op::kMultiply, {2, 1, 2}, {1, 2, 3, 4}, {1, 2, 1},
                      {1, 10});
       },
       {1, 2, 10, 20, 3, 4, 30, 40}},
      {"the shorter first",
       [](Graph& g) { return OfTwo(g, Op::kDivide, {1}, {6}, {3}, {1, 2, 3}); },
       {6, 3, 2}},
      {"squares and roots",
       [](Graph& g) {
         return OfTwo(g, Op::kPower, {2, 1}, {3, 16}, {1, 2}, {2, 0.5});
       },
       {9, std::sqrt(3.0), 256, 4}},
      {"at least",
       [](Graph& g) {
         return OfTwo(g, Op::kGreaterEqual, {3}, {-1, 2, 3}, {1}, {2});
       },
       {0, 1, 1}},
  });
}

TEST(ReferenceComputeTest, EachElementOfOne) {
  const double gelu =
      0.5 * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979) * 1.044715));
  ExpectCases({
      {"sqrt",
       [](Graph& g) { return OfOne(g, Op::kSqrt, Element::kF32, {4, 9, 2}); },
       {2, 3, std::sqrt(2.0)}},
      {"relu",
       [](Graph& g) { return OfOne(g, Op::kRelu, Element::kF32, {-1, 0, 2}); },
       {0, 0, 2}},
      {"swish",
       [](Graph& g) {
         return OfOne(g, Op::kSwish, Element::kF32, {0, 1, -200});
       },
       {0, 1.0 / (1.0 + std::exp(-1.0)), 0}},
      {"gelu",
       [](Graph& g) {
         return OfOne(g, Op::kGelu, Element::kF32, {0, 1, 30, -30});
       },
       {0, gelu, 30, 0}},
  });
}

TEST(ReferenceComputeTest, HalvesAreRounded) {
  ExpectCases({
      {"f16 is rounded to nearest, ties to even",
       [](Graph& g) {
         // (1 + 2^-10)^2 is 1 + 2 * 2^-10 and 2^-20.
         const Value x =
             Numbers(g, {Element::kF16, {2}}, {1.0 + 0x1p-10, 2049});
         return g.Binary(Op::kMultiply, x,
                         Numbers(g, {Element::kF16, {1}}, {1}));
       },
       {1.0 + 0x1p-10, 2048}},
      {"f16 overflows",
       [](Graph& g) {
         const Value x = Numbers(g, {Element::kF16, {1}}, {60000});
         return g.Binary(Op::kAdd, x, x);
       },
       {std::numeric_limits<double>::infinity()}},
  });
}

TEST(ReferenceComputeTest, SumsOverAnAxis) {
  const double e = std::exp(-1.0);
  ExpectCases({
      {"softmax of rows, of large numbers",
       [](Graph& g) {
         return g.Softmax(
             Numbers(g, {Element::kF32, {2, 2}}, {999, 1000, 0, -65504}), -1);
       },
       {e / (1 + e), 1 / (1 + e), 1, 0}},
      {"softmax of columns",
       [](Graph& g) {
         return g.Softmax(Numbers(g, {Element::kF32, {2, 2}}, {1, 5, 2, 5}), 0);
       },
       {e / (1 + e), 0.5, 1 / (1 + e), 0.5}},
      {"means of rows",
       [](Graph& g) {
         return g.ReduceMean(
             Numbers(g, {Element::kF32, {2, 3}}, {1, 2, 6, 0, 0, 1}), -1);
       },
       {3, 1.0 / 3}},
      {"means of columns",
       [](Graph& g) {
         return g.ReduceMean(Numbers(g, {Element::kF32, {2, 2}}, {1, 2, 3, 6}),
                             0);
       },
       {2, 4}},
      {"a mean over two axes",
       [](Graph& g) {
         const Value x = Numbers(g, {Element::kF32, {2, 1, 2}}, {1, 2, 3, 6});
         return g.Binary(Op::kReduceMean, x, g.Ints({0, 2}));
       },
       {3}},
  });
}

TEST(ReferenceComputeTest, EveryElementBecomesAFloat) {
  struct Case {
    Element from;
    std::vector<double> values;
  };
  const std::vector<Case> cases = {
      {Element::kF32, {1.5, -2, 3}},  {Element::kF16, {1.5, -2, 60000}},
      {Element::kI64, {-5, 0, 2000}}, {Element::kI8, {-128, 127, -1}},
      {Element::kU8, {0, 255, 128}},  {Element::kI4, {-8, 7, -1}},
      {Element::kU4, {0, 15, 8}},     {Element::kBool, {0, 1, 1}},
  };
  for (const Case& a_case : cases) {
    for (const Element to : {Element::kF32, Element::kF16}) {
      Graph graph;
      const Value x = Numbers(graph, {a_case.from, {3, 1}}, a_case.values);
      graph.Output(graph.Convert(x, to), "y");
      const std::vector<float> y = ReferenceOf(graph);
      EXPECT_EQ(std::vector<double>(y.begin(), y.end()), a_case.values)
          << InfoOf(a_case.from).name;
    }
  }
}

}  // namespace
}  // namespace thermocline::npu
