#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "npu/test_openvino.h"
#include "os/test_folder.h"

namespace thermocline::npu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// An NPU of the fake OpenVINO, whose temporary files are in a folder of the
// test's.
class OvChildTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<StaticProgram>> Compile(
      std::vector<std::string> command, double most_seconds = 60.0) {
    auto device = LoadFake(std::move(command))->Open("NPU");
    EXPECT_TRUE(device.has_value()) << device.error().message;
    return (*device)->Compile(AddOne(), {.most_seconds = most_seconds});
  }

  std::string Log() const { return os::TestFolder::Read(folder_ / "log"); }

  // A failure with these words; nothing of it is left.
  void ExpectFailure(const Result<std::unique_ptr<StaticProgram>>& program,
                     ErrorCode code, const std::string& words) {
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, code) << program.error().message;
    EXPECT_THAT(program.error().message,
                AllOf(HasSubstr("NPU"), HasSubstr(words)));
    ExpectNothingLeft();
  }
  void ExpectNothingLeft() {
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
  }

  const os::TestFolder folder_;
  const std::string made_ = folder_.Write("tmp/x", "");
  const bool is_empty_ = std::filesystem::remove(made_);
  const TestEnvironment environment_{{"FAKE_OV_DEVICES", "CPU,NPU"},
                                     {"FAKE_OV_LOG", folder_ / "log"},
                                     {"TMPDIR", folder_ / "tmp"}};
};

TEST_F(OvChildTest, WhatTheChildExportsIsImported) {
  auto program = Compile({TC_COMPILE_CHILD});
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(RunAddOne(**program), (std::vector<float>{2.0f, 3.0f}));
  EXPECT_THAT(Log(), AllOf(HasSubstr("compile NPU PERFORMANCE_HINT=LATENCY "
                                     "NPU_COMPILATION_MODE_PARAMS="),
                           HasSubstr("\nimport NPU\n")));
  ExpectNothingLeft();
}

TEST_F(OvChildTest, WithoutACommandItIsCompiledHere) {
  for (const double most_seconds : {0.0, 60.0}) {
    auto program = Compile({}, most_seconds);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_EQ(RunAddOne(**program), (std::vector<float>{2.0f, 3.0f}));
  }
  EXPECT_EQ(Log().find("import"), std::string::npos);
}

TEST_F(OvChildTest, AHangEndsWithItsTime) {
  const TestEnvironment hang({{"FAKE_OV_HANG", "60"}});
  const Stopwatch watch;
  ExpectFailure(Compile({TC_COMPILE_CHILD}, 0.5), ErrorCode::kCancelled,
                "took more than 0.5 s");
  EXPECT_LT(watch.Seconds(), 20.0);
}

TEST_F(OvChildTest, ACancelEndsTheCompile) {
  const TestEnvironment hang({{"FAKE_OV_HANG", "60"}});
  const Stopwatch watch;
  const std::atomic<bool> cancel = true;
  auto device = LoadFake({TC_COMPILE_CHILD})->Open("NPU");
  const auto program = (*device)->Compile(AddOne(), {.cancel = &cancel});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kCancelled);
  ExpectNothingLeft();
  EXPECT_LT(watch.Seconds(), 20.0);
}

// A parent that is killed leaves no weights behind.
TEST_F(OvChildTest, WhatTheChildHasReadGoesAtOnce) {
  const TestEnvironment hang({{"FAKE_OV_HANG", "60"}});
  std::atomic<bool> cancel = false;
  std::atomic<bool> is_over = false;  // too early
  std::vector<std::string> listed;
  auto device = LoadFake({TC_COMPILE_CHILD})->Open("NPU");
  std::thread looks([&] {
    while (Log().find("compile NPU") == std::string::npos && !is_over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    using Files = std::filesystem::recursive_directory_iterator;
    for (const auto& file : Files(folder_ / "tmp")) {
      listed.push_back(file.path().filename().string());
    }
    cancel = true;
  });
  const auto program = (*device)->Compile(AddOne(), {.cancel = &cancel});
  is_over = true;
  looks.join();
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(listed, Contains("job"));
  EXPECT_THAT(listed, Not(Contains(HasSubstr("graph."))));
}

TEST_F(OvChildTest, AFullDiskIsNamed) {
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {.rlim_cur = 10, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto program = Compile({TC_COMPILE_CHILD});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  (void)std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, ErrorCode::kIo);
  EXPECT_THAT(program.error().message,
              AllOf(HasSubstr(folder_ / "tmp"), HasSubstr("$TMPDIR")));
  ExpectNothingLeft();
}

TEST_F(OvChildTest, ACrashIsAnErrorWithTheChildsLastWords) {
  const TestEnvironment crash({{"FAKE_OV_CRASH", "1"}});
  ExpectFailure(Compile({TC_COMPILE_CHILD}), ErrorCode::kIo,
                "died of signal 6 (Aborted) (fake compiler: no way out)");
}

TEST_F(OvChildTest, TheChildsErrorsAreItsParents) {
  {
    const TestEnvironment fail(
        {{"FAKE_OV_FAIL", "ov_core_compile_model=vpux::no"}});
    ExpectFailure(Compile({TC_COMPILE_CHILD}), ErrorCode::kUnsupported,
                  "compiling a graph: the NPU's compiler does not take the "
                  "graph (vpux::no)");
  }
  {
    const TestEnvironment fail(
        {{"FAKE_OV_FAIL", "ov_compiled_model_export_model=disk is full"}});
    ExpectFailure(Compile({TC_COMPILE_CHILD}), ErrorCode::kIo,
                  "exporting a graph to a temporary file: disk is full");
  }
  const TestEnvironment fail(
      {{"FAKE_OV_FAIL", "ov_core_import_model=Device not found."}});
  ExpectFailure(Compile({TC_COMPILE_CHILD}), ErrorCode::kUnsupported,
                "importing a graph: there is no such device");
}

TEST_F(OvChildTest, ACommandThatDoesSomethingElseIsNamed) {
  ExpectFailure(Compile({"sh", "-c", "echo wrong; exit 3"}), ErrorCode::kIo,
                "ended with exit code 3 and no result (wrong)");
  ExpectFailure(Compile({"true"}), ErrorCode::kIo, "exit code 0 and no result");
  const auto none = Compile({folder_ / "none"});
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("cannot be started"));
  ExpectNothingLeft();
}

TEST_F(OvChildTest, AChildWithoutAJobSaysSo) {
  EXPECT_EQ(RunCompileChild(folder_ / "none").error().code,
            ErrorCode::kNotFound);
  for (const std::string& job :
       {std::string("x"), std::string("x\0", 2), std::string("x\0y\0", 4),
        std::string("x\0y\0z\0", 6),
        std::string("x\0y\0"
                    "0\0",
                    6),
        std::string("x\0y\0"
                    "1\0z\0",
                    8)}) {
    folder_.Write("jobs/job", job);
    EXPECT_EQ(RunCompileChild(folder_ / "jobs").error().code,
              ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace thermocline::npu
