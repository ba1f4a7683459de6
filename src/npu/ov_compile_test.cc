#include "npu/ov_compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "npu/ir.h"
#include "npu/test_openvino.h"

namespace thermocline::npu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<OvJob> JobOf(const Graph& graph) {
  auto job = std::make_shared<OvJob>();
  job->runtime = *StartOv(TC_FAKE_OPENVINO);
  job->device = ParseOvDevice("CPU");
  job->xml = WriteIr(graph);
  job->weights = *CopyWeights(*job->runtime, graph.data());
  return job;
}

TEST(OvCompileTest, ThereIsTimeForWhatIsInTime) {
  const auto compiled = CompileWithin(JobOf(AddOne()), 1e300);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
}

TEST(OvCompileTest, WhatTakesTooLongIsLeftBehind) {
  const TestEnvironment fake({{"FAKE_OV_HANG", "0.5"}});
  const Stopwatch watch;
  const auto compiled = CompileWithin(JobOf(AddOne()), 0.05);
  EXPECT_LT(watch.Seconds(), 0.45);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(compiled.error().message,
              AllOf(HasSubstr("CPU"), HasSubstr("more than 0.05 s")));
  // It ends by itself, with nothing of the test's in its hands.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
}

// Or its exit would take the library apart under the thread, or wait for it.
void ExitDuringACompile() {
  const TestEnvironment fake({{"FAKE_OV_HANG", "60"}});
  const auto compiled = CompileWithin(JobOf(AddOne()), 0.05);
  const bool is_cancelled =
      !compiled.has_value() && compiled.error().code == ErrorCode::kCancelled;
  std::exit(is_cancelled ? 7 : 8);
}

TEST(OvCompileDeathTest, TheProgramExitsWhileACompileHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Stopwatch watch;
  EXPECT_EXIT(ExitDuringACompile(), ::testing::ExitedWithCode(7), "");
  EXPECT_LT(watch.Seconds(), 30.0);
}

TEST(OvCompileTest, EveryStepSaysWhatFailed) {
  struct Case {
    const char* fail;
    ErrorCode code;
    const char* message;
  };
  for (const Case& c :
       {Case{"ov_core_compile_model=vpux::Exception", ErrorCode::kUnsupported,
             "CPU: compiling a graph: the NPU's compiler does not take the "
             "graph (vpux::Exception)"},
        Case{"ov_core_compile_model=std::bad_alloc",
             ErrorCode::kResourceExhausted, "no more memory"}}) {
    const auto job = JobOf(AddOne());
    const TestEnvironment fake({{"FAKE_OV_FAIL", c.fail}});
    for (const double most_seconds : {0.0, 60.0}) {
      const auto compiled = most_seconds > 0.0
                                ? CompileWithin(job, most_seconds)
                                : CompileHere(*job);
      ASSERT_FALSE(compiled.has_value());
      EXPECT_EQ(compiled.error().code, c.code);
      EXPECT_THAT(compiled.error().message, HasSubstr(c.message));
    }
  }
}

TEST(OvCompileTest, MemoryThatIsNotThereIsSaid) {
  const auto runtime = *StartOv(TC_FAKE_OPENVINO);
  const TestEnvironment fake({{"FAKE_OV_FAIL", "ov_tensor_create=none left"}});
  const auto weights = CopyWeights(*runtime, {});
  ASSERT_FALSE(weights.has_value());
  EXPECT_EQ(weights.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(weights.error().message, HasSubstr("none left"));
}

TEST(OvCompileTest, AnOpenVinoThatDoesNotStartIsAnError) {
  const TestEnvironment fake({{"FAKE_OV_FAIL", "ov_core_create=no plugins"}});
  const auto runtime = StartOv(TC_FAKE_OPENVINO);
  ASSERT_FALSE(runtime.has_value());
  EXPECT_EQ(runtime.error().code, ErrorCode::kIo);
  EXPECT_THAT(runtime.error().message,
              HasSubstr("OpenVINO 2026.4.1: starting: no plugins"));
}

}  // namespace
}  // namespace thermocline::npu
