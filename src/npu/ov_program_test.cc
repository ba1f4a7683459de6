#include "npu/ov_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npu/test_openvino.h"

namespace thermocline::npu {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<StaticProgram> CompileOnFake(const Graph& graph) {
  auto device = LoadFake()->Open("CPU");
  EXPECT_TRUE(device.has_value());
  auto program = (*device)->Compile(graph, {});
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return *std::move(program);
}

TEST(OvProgramTest, TensorsAreTheCallersMemory) {
  const auto program = CompileOnFake(AddOne());
  EXPECT_EQ(RunAddOne(*program), (std::vector<float>{2.0f, 3.0f}));
  // Where it lies from now on.
  EXPECT_EQ(RunAddOne(*program), (std::vector<float>{2.0f, 3.0f}));
}

TEST(OvProgramTest, OnlyTheGraphsTensorsBind) {
  const auto program = CompileOnFake(AddOne());
  TestTensor<float> x(2);
  const auto unknown = program->Bind("z", {Element::kF32, {2}}, x.bytes());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("CPU"));
  for (const Type& type :
       {Type{Element::kF16, {2}}, Type{Element::kF32, {1, 2}}}) {
    const auto other = program->Bind("x", type, x.bytes());
    EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(other.error().message, HasSubstr("f32[2], not"));
  }
}

TEST(OvProgramTest, FailuresOfTheDeviceAreIts) {
  for (const char* function :
       {"ov_infer_request_infer", "ov_infer_request_set_tensor",
        "ov_tensor_create_from_host_ptr"}) {
    const auto program = CompileOnFake(AddOne());
    RunAddOne(*program);
    const TestEnvironment fail(
        {{"FAKE_OV_FAIL", std::string(function) + "=ZE_RESULT_ERROR_X"}});
    TestTensor<float> x(2);
    Status status = program->Bind("x", {Element::kF32, {2}}, x.bytes());
    if (status.has_value()) status = program->Infer();
    ASSERT_FALSE(status.has_value()) << function;
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_THAT(status.error().message, HasSubstr("ZE_RESULT_ERROR_X"));
  }
}

TEST(OvProgramTest, ARequestThatIsNotMadeFailsTheCompile) {
  auto device = *LoadFake()->Open("CPU");
  const TestEnvironment fail(
      {{"FAKE_OV_FAIL", "ov_compiled_model_create_infer_request=no"}});
  const auto program = device->Compile(AddOne(), {});
  EXPECT_EQ(program.error().code, ErrorCode::kIo);
}

// sum = what was there + x, and the sum is there from then on.
Graph Accumulator() {
  Graph graph;
  const Type type = {Element::kF32, {1}};
  const Value x = graph.Parameter("x", type);
  const Value before = graph.ReadValue(graph.Scalar(0.0f), "total");
  const Value sum = graph.Binary(Op::kAdd, before, x);
  graph.Assign(sum, "total");
  graph.Output(sum, "sum");
  return graph;
}

TEST(OvProgramTest, ResetGivesVariablesBackAndKeepsBindings) {
  const auto program = CompileOnFake(Accumulator());
  // Before anything is bound too.
  ASSERT_TRUE(program->Reset().has_value());
  TestTensor<float> x(1);
  TestTensor<float> sum(1);
  x[0] = 2.0f;
  ASSERT_TRUE(program->Bind("x", {Element::kF32, {1}}, x.bytes()));
  ASSERT_TRUE(program->Bind("sum", {Element::kF32, {1}}, sum.bytes()));
  for (const float wanted : {2.0f, 4.0f, 6.0f}) {
    ASSERT_TRUE(program->Infer().has_value());
    EXPECT_EQ(sum[0], wanted);
  }
  ASSERT_TRUE(program->Reset().has_value());
  ASSERT_TRUE(program->Infer().has_value());
  EXPECT_EQ(sum[0], 2.0f);
}

TEST(OvProgramDeathTest, NothingIsComputedBeforeAllIsBound) {
  const auto program = CompileOnFake(AddOne());
  EXPECT_DEATH((void)program->Infer(), "check failed");
}

}  // namespace
}  // namespace thermocline::npu
