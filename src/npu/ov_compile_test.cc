#include "npu/ov_compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "npu/ir.h"
#include "npu/test_openvino.h"
#include "os/test_folder.h"
#include "os/test_no_threads.h"

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

// One that takes as long as the test lives; it goes on by itself then, and has
// nothing of the test's in its hands at the end.
class HungCompile {
 public:
  HungCompile() { EXPECT_EQ(mkfifo(log_.c_str(), 0600), 0); }
  ~HungCompile() {
    // Who writes to it waits for who reads.
    EXPECT_THAT(os::TestFolder::Read(log_), HasSubstr("compile CPU"));
    while (!runtime_.expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  Result<OvOwned<OvCompiled>> CompileWithin(
      const CompileOptions& options) const {
    auto job = JobOf(AddOne());
    runtime_ = job->runtime;
    return npu::CompileWithin(std::move(job), options);
  }

 private:
  const os::TestFolder folder_;
  const std::string log_ = folder_ / "log";
  const TestEnvironment fake_{{"FAKE_OV_LOG", log_}};
  mutable std::weak_ptr<const OvRuntime> runtime_;
};

TEST(OvCompileTest, ThereIsTimeForWhatIsInTime) {
  const auto compiled = CompileWithin(JobOf(AddOne()), {.most_seconds = 1e300});
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
}

TEST(OvCompileTest, WhatTakesTooLongIsLeftBehind) {
  const HungCompile hung;
  const auto compiled = hung.CompileWithin({.most_seconds = 0.05});
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(compiled.error().message,
              AllOf(HasSubstr("CPU"), HasSubstr("more than 0.05 s")));
}

TEST(OvCompileTest, ACancelEndsTheWait) {
  const std::atomic<bool> cancel = true;
  for (const double most_seconds : {0.0, 60.0}) {
    const HungCompile hung;
    const auto compiled =
        hung.CompileWithin({.most_seconds = most_seconds, .cancel = &cancel});
    ASSERT_FALSE(compiled.has_value());
    EXPECT_EQ(compiled.error().code, ErrorCode::kCancelled);
    EXPECT_EQ(compiled.error().message, "cancelled");
  }
}

TEST(OvCompileTest, WithoutAThreadThatIsSaid) {
  const auto job = JobOf(AddOne());
  const os::NoMoreThreads none;
  const auto compiled = CompileWithin(job, {.most_seconds = 60.0});
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(compiled.error().message,
              HasSubstr("cannot start a thread for compiling a graph on CPU"));
}

// Or its exit would take the library apart under the thread, or wait for it.
void ExitDuringACompile() {
  const TestEnvironment fake({{"FAKE_OV_HANG", "60"}});
  const auto compiled = CompileWithin(JobOf(AddOne()), {.most_seconds = 0.05});
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
      const auto compiled =
          most_seconds > 0.0
              ? CompileWithin(job, {.most_seconds = most_seconds})
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
