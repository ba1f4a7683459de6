#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

struct MatMulCase {
  const char* what;
  std::string transposed;  // "a", "b"
  Dims a;
  Dims b;
  std::vector<float> expected;
};

std::vector<double> Counted(const Dims& dims) {
  std::vector<double> values;
  for (int i = 1; i <= NumElements(dims); ++i) values.push_back(i);
  return values;
}

TEST(ReferenceMatMulTest, AsComputedByHand) {
  const std::vector<MatMulCase> cases = {
      {"plain", "", {2, 3}, {3, 2}, {22, 28, 49, 64}},
      {"b's rows", "b", {2, 3}, {2, 3}, {14, 32, 32, 77}},
      {"a's columns", "a", {3, 2}, {3, 2}, {35, 44, 44, 56}},
      {"both", "ab", {2, 1}, {1, 2}, {5}},
      {"one b for two", "", {2, 1, 2}, {2, 2}, {7, 10, 15, 22}},
      {"one a for two", "b", {1, 1, 2}, {2, 1, 2}, {5, 11}},
      {"each its own", "", {2, 1, 2}, {2, 2, 1}, {5, 25}},
      {"all pairs", "", {2, 1, 1, 1}, {1, 3, 1, 1}, {1, 2, 3, 2, 4, 6}},
  };
  for (const MatMulCase& a_case : cases) {
    for (const Element element : {Element::kF32, Element::kF16}) {
      Graph graph;
      const Value a = Numbers(graph, {element, a_case.a}, Counted(a_case.a));
      const Value b = Numbers(graph, {element, a_case.b}, Counted(a_case.b));
      const auto y =
          graph.Add({.op = Op::kMatMul,
                     .inputs = {a, b},
                     .transpose_a = a_case.transposed.starts_with('a'),
                     .transpose_b = a_case.transposed.ends_with('b')});
      ASSERT_TRUE(y.has_value()) << a_case.what;
      graph.Output(*y, "y");
      EXPECT_EQ(ReferenceOf(graph), a_case.expected) << a_case.what;
    }
  }
}

// [rows, 37] by [19, 37] of one seed.
std::vector<float> SeededProduct(int64_t rows) {
  Random random(7);
  Graph graph;
  const Value b = Numbers(graph, {Element::kF32, {19, 37}},
                          RandomNumbers(random, {19, 37}));
  const Value a = Numbers(graph, {Element::kF32, {rows, 37}},
                          RandomNumbers(random, {rows, 37}));
  graph.Output(graph.MatMul(a, b, true), "y");
  return ReferenceOf(graph);
}

TEST(ReferenceMatMulTest, RowsDoNotDependOnTheirNumber) {
  const std::vector<float> most = SeededProduct(33);
  for (const int64_t rows : {1, 2, 17}) {
    const std::vector<float> fewer = SeededProduct(rows);
    const std::vector<float> first(
        most.begin(), most.begin() + static_cast<int64_t>(fewer.size()));
    EXPECT_EQ(fewer, first) << rows;
  }
}

TEST(ReferenceMatMulTest, OddSizesAreTheSumsInOrder) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kInner = 37;
  constexpr int64_t kColumns = 35;
  Random random(11);
  const std::vector<double> a = RandomNumbers(random, {kRows, kInner});
  const std::vector<double> b = RandomNumbers(random, {kInner, kColumns});
  Graph graph;
  const Value x = Numbers(graph, {Element::kF32, {kRows, kInner}}, a);
  const Value w = Numbers(graph, {Element::kF32, {kInner, kColumns}}, b);
  graph.Output(graph.MatMul(x, w, false), "y");
  const std::vector<float> y = ReferenceOf(graph);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      double sum = 0.0;
      for (int64_t k = 0; k < kInner; ++k) {
        sum += a[static_cast<size_t>(i * kInner + k)] *
               b[static_cast<size_t>(k * kColumns + j)];
      }
      EXPECT_EQ(y[static_cast<size_t>(i * kColumns + j)],
                static_cast<float>(sum));
    }
  }
}

}  // namespace
}  // namespace thermocline::npu
