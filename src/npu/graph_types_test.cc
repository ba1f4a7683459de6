#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "npu/graph.h"
#include "npu/test_graph.h"

namespace thermocline::npu {
namespace {

constexpr Element kFp32 = Element::kF32;
constexpr Element kFp16 = Element::kF16;
constexpr Element kInt64 = Element::kI64;

// A node that reads parameters of some types.
struct TypeCase {
  Op op;
  std::vector<Type> inputs;
  Node more;             // what it needs besides
  const char* expected;  // types, or a word of the refusal
  // Constants of whole numbers behind the inputs.
  std::vector<std::vector<double>> ints;
};

Result<std::vector<Type>> InferOf(const TypeCase& a_case) {
  Graph graph;
  Node node = a_case.more;
  node.op = a_case.op;
  for (const Type& type : a_case.inputs) {
    const std::string name = fmt::format("x{}", node.inputs.size());
    node.inputs.push_back(graph.Parameter(name, type));
  }
  for (const std::vector<double>& ints : a_case.ints) {
    const Type type = {kInt64, {static_cast<int64_t>(ints.size())}};
    node.inputs.push_back(Numbers(graph, type, ints));
  }
  return InferTypes(graph, node);
}

void ExpectTypes(const std::vector<TypeCase>& cases) {
  for (const TypeCase& a_case : cases) {
    const auto types = InferOf(a_case);
    ASSERT_TRUE(types.has_value())
        << InfoOf(a_case.op).type << ": " << types.error().message;
    std::string text;
    for (const Type& type : *types) text += ToString(type) + " ";
    if (!text.empty()) text.pop_back();
    EXPECT_EQ(text, a_case.expected) << InfoOf(a_case.op).type;
  }
}

void ExpectNoTypes(ErrorCode code, const std::vector<TypeCase>& cases) {
  for (const TypeCase& a_case : cases) {
    const auto types = InferOf(a_case);
    ASSERT_FALSE(types.has_value())
        << InfoOf(a_case.op).type << ", " << a_case.expected;
    EXPECT_EQ(types.error().code, code) << types.error().message;
    EXPECT_NE(types.error().message.find(a_case.expected), std::string::npos)
        << InfoOf(a_case.op).type << ": " << types.error().message;
  }
}

TEST(GraphTypesTest, WhatComputes) {
  const Type x = {kFp32, {2, 3, 4}};
  ExpectTypes({
      {Op::kParameter, {}, {.outputs = {x}}, "f32[2,3,4]", {}},
      {Op::kResult, {x}, {}, "", {}},
      {Op::kAdd, {x, {kFp32, {3, 1}}}, {}, "f32[2,3,4]", {}},
      {Op::kPower, {{kFp16, {}}, {kFp16, {5}}}, {}, "f16[5]", {}},
      {Op::kGreaterEqual, {x, {kFp32, {1}}}, {}, "boolean[2,3,4]", {}},
      {Op::kSwish, {x}, {}, "f32[2,3,4]", {}},
      {Op::kConvert, {{Element::kI4, {3}}}, {.to = kFp16}, "f16[3]", {}},
      {Op::kSoftmax, {x}, {.axis = -3}, "f32[2,3,4]", {}},
      {Op::kReduceMean, {x}, {}, "f32[1,3,1]", {{-1, 0}}},
      {Op::kMatMul, {x, {kFp32, {4, 5}}}, {}, "f32[2,3,5]", {}},
      {Op::kMatMul,
       {x, {kFp32, {1, 5, 4}}},
       {.transpose_b = true},
       "f32[2,3,5]",
       {}},
      {Op::kMatMul,
       {x, {kFp32, {7, 1, 3, 5}}},
       {.transpose_a = true},
       "f32[7,2,4,5]",
       {}},
      {Op::kReadValue, {x}, {.variable = "v"}, "f32[2,3,4]", {}},
      {Op::kAssign, {x}, {.variable = "v"}, "f32[2,3,4]", {}},
  });
}

TEST(GraphTypesTest, WhatMoves) {
  const Type x = {Element::kI8, {2, 3, 4}};
  ExpectTypes({
      {Op::kReshape, {x}, {}, "i8[24]", {{24}}},
      {Op::kTranspose, {x}, {}, "i8[4,2,3]", {{2, 0, 1}}},
      {Op::kConcat, {x}, {}, "i8[2,3,4]", {}},
      {Op::kConcat,
       {x, {Element::kI8, {2, 1, 4}}},
       {.axis = -2},
       "i8[2,4,4]",
       {}},
      {Op::kVariadicSplit, {x}, {}, "i8[2,3,1] i8[2,3,3]", {{-1}, {1, 3}}},
      {Op::kSlice, {x}, {}, "i8[2,2,4]", {{1}, {3}, {1}, {1}}},
      {Op::kGather, {x, {kInt64, {1, 5}}}, {}, "i8[1,5,3,4]", {{0}}},
      {Op::kScatterUpdate,
       {x, {kInt64, {1}}, {Element::kI8, {2, 3, 1}}},
       {},
       "i8[2,3,4]",
       {{2}}},
  });
}

TEST(GraphTypesTest, InputsThatComputingRefuses) {
  const Type x = {kFp32, {2, 3}};
  ExpectNoTypes(
      ErrorCode::kCorrupt,
      {
          {Op::kParameter, {}, {}, "0 outputs", {}},
          {Op::kParameter, {}, {.outputs = {{kFp32, {0}}}}, "shape", {}},
          {Op::kParameter, {}, {.outputs = {{kFp32, {-1}}}}, "shape", {}},
          {Op::kParameter,
           {},
           {.outputs = {{kFp32, {1 << 21, 1 << 21}}}},
           "shape",
           {}},
          {Op::kParameter,
           {},
           {.outputs = {{kFp32, {1, 1, 1, 1, 1, 1, 1, 1, 1}}}},
           "9 dimensions",
           {}},
          {Op::kConstant, {}, {.outputs = {x}}, "beyond", {}},
          {Op::kResult, {}, {}, "0 inputs", {}},
          {Op::kAdd, {x}, {}, "1 inputs", {}},
          {Op::kAdd, {x, x, x}, {}, "3 inputs", {}},
          {Op::kAdd, {x, {kFp16, {2, 3}}}, {}, "one float type", {}},
          {Op::kAdd, {{kInt64, {1}}, {kInt64, {1}}}, {}, "one float type", {}},
          {Op::kAdd, {x, {kFp32, {2}}}, {}, "do not broadcast", {}},
          {Op::kSqrt, {{Element::kI8, {2}}}, {}, "takes floats", {}},
          {Op::kSoftmax, {x}, {.axis = 2}, "dimension 2 of 2", {}},
          {Op::kSoftmax, {{kFp32, {}}}, {}, "dimension 0 of 0", {}},
          {Op::kReduceMean, {x}, {}, "dimension -3 of 2", {{-3}}},
          {Op::kMatMul, {x, {kFp32, {3}}}, {}, "no matrices", {}},
          {Op::kMatMul, {x, {kFp16, {3, 1}}}, {}, "no matrices", {}},
          {Op::kMatMul, {x, {kFp32, {2, 3}}}, {}, "extents 3 and 2", {}},
          {Op::kMatMul,
           {{kFp32, {2, 1, 1}}, {kFp32, {3, 1, 1}}},
           {},
           "do not broadcast",
           {}},
          {Op::kReadValue, {x}, {}, "without a name", {}},
      });
}

TEST(GraphTypesTest, InputsThatMovingRefuses) {
  const Type x = {kFp32, {2, 3}};
  ExpectNoTypes(
      ErrorCode::kCorrupt,
      {
          {Op::kReshape, {x}, {}, "does not become", {{5}}},
          {Op::kReshape, {x}, {}, "shape", {{-1, 6}}},
          {Op::kTranspose, {x}, {}, "no order", {{0, 0}}},
          {Op::kTranspose, {x}, {}, "no order", {{0}}},
          {Op::kConcat, {}, {}, "0 inputs", {}},
          {Op::kConcat, {x, {kFp32, {2}}}, {}, "beside", {}},
          {Op::kConcat, {x, {kFp32, {2, 4}}}, {}, "beside", {}},
          {Op::kConcat, {x, {kFp16, {2, 3}}}, {}, "beside", {}},
          {Op::kVariadicSplit, {x}, {}, "no single axis", {{0, 1}, {2}}},
          {Op::kVariadicSplit, {x}, {}, "make up", {{1}, {1, 1}}},
          {Op::kVariadicSplit, {x}, {}, "make up", {{1}, {4, -1}}},
          {Op::kVariadicSplit, {x}, {}, "make up", {{1}, {3, 1}}},
          {Op::kSlice, {x}, {}, "from 2 to 1", {{2}, {1}, {1}, {1}}},
          {Op::kSlice, {x}, {}, "from 0 to 4", {{0}, {4}, {1}, {1}}},
          {Op::kSlice, {x}, {}, "by 2", {{0}, {2}, {2}, {1}}},
          {Op::kScatterUpdate,
           {x, {kFp32, {1}}, x},
           {},
           "no row numbers",
           {{0}}},
          {Op::kScatterUpdate,
           {x, {kInt64, {1}}, x},
           {},
           "are not the rows",
           {{0}}},
      });
}

TEST(GraphTypesTest, ConstantsLieInTheDataAndAligned) {
  Graph graph;
  graph.SetData(std::vector<std::byte>(128));
  const auto words_at = [&](size_t offset, int64_t count) -> std::string {
    const auto types = InferTypes(
        graph,
        {.op = Op::kConstant, .outputs = {{kFp32, {count}}}, .offset = offset});
    return types.has_value() ? "" : types.error().message;
  };
  EXPECT_EQ(words_at(64, 16), "");
  EXPECT_EQ(words_at(0, 32), "");
  EXPECT_NE(words_at(8, 1).find("no multiple of 64"), std::string::npos);
  EXPECT_NE(words_at(64, 17).find("beyond the 128 bytes"), std::string::npos);
  EXPECT_NE(words_at(SIZE_MAX, 1).find("beyond"), std::string::npos);
}

TEST(GraphTypesTest, WhatWeDoNotHave) {
  const Type x = {kFp32, {2, 3}};
  ExpectNoTypes(
      ErrorCode::kUnsupported,
      {
          {Op::kConvert, {x}, {.to = Element::kI8}, "no float", {}},
          {Op::kReshape, {x, {kInt64, {1}}}, {}, "no constant", {}},
          {Op::kReduceMean, {x, {kInt64, {1}}}, {}, "no constant", {}},
          {Op::kSlice,
           {x},
           {},
           "several dimensions",
           {{0, 0}, {1, 1}, {1, 1}, {0, 1}}},
          {Op::kGather, {x, {kInt64, {1}}}, {}, "only rows", {{1}}},
          {Op::kGather, {x, {kFp32, {1}}}, {}, "only rows", {{0}}},
      });
}

TEST(GraphTypesTest, AnAxisCountsFromEitherEnd) {
  EXPECT_EQ(*AxisOf(-1, 3), 2u);
  EXPECT_EQ(*AxisOf(0, 3), 0u);
  for (const int64_t axis : {int64_t{3}, int64_t{-4}, INT64_MIN, INT64_MAX}) {
    EXPECT_FALSE(AxisOf(axis, 3).has_value());
  }
}

}  // namespace
}  // namespace thermocline::npu
