#include "npu/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "npu/test_openvino.h"
#include "os/test_folder.h"

namespace thermocline::npu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ChildEnd RunShell(const std::string& script, const std::string& log_path,
                  double most_seconds) {
  const auto end = RunChild({"sh", "-c", script}, log_path, most_seconds);
  EXPECT_TRUE(end.has_value()) << end.error().message;
  return end.value_or(ChildEnd{});
}

TEST(ChildProcessTest, EndsAreTold) {
  const os::TestFolder folder;
  for (const double most_seconds : {0.0, 60.0}) {
    EXPECT_EQ(RunShell("exit 0", folder / "log", most_seconds).exit_code, 0);
    EXPECT_EQ(RunShell("exit 7", folder / "log", most_seconds).exit_code, 7);
    const ChildEnd killed =
        RunShell("kill -9 $$", folder / "log", most_seconds);
    EXPECT_EQ(killed.signal, SIGKILL);
    EXPECT_FALSE(killed.is_timed_out);
  }
}

TEST(ChildProcessTest, WhatItWritesIsInTheLog) {
  const os::TestFolder folder;
  RunShell("echo one; echo two >&2; cat", folder / "log", 60.0);
  EXPECT_EQ(os::TestFolder::Read(folder / "log"), "one\ntwo\n");
}

TEST(ChildProcessTest, WithItsTimeOverAllOfItIsKilled) {
  const os::TestFolder folder;
  const Stopwatch watch;
  const ChildEnd end =
      RunShell("sleep 30 & echo $! >" + (folder / "pid") + "; wait",
               folder / "log", 0.2);
  EXPECT_TRUE(end.is_timed_out);
  EXPECT_LT(watch.Seconds(), 10.0);
  const std::string pid = os::TestFolder::Read(folder / "pid");
  ASSERT_FALSE(pid.empty());
  // Gone, or waiting for who adopted it to notice; a kill takes a moment.
  const auto is_over = [&pid] {
    const std::string stat = os::TestFolder::Read(
        "/proc/" + std::to_string(std::stoi(pid)) + "/stat");
    return stat.empty() || stat.find(") Z") != std::string::npos;
  };
  while (!is_over() && watch.Seconds() < 20.0) usleep(1000);
  EXPECT_TRUE(is_over());
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsNamed) {
  const os::TestFolder folder;
  const auto end = RunChild({folder / "none"}, folder / "log", 1.0);
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kIo);
  EXPECT_THAT(end.error().message, HasSubstr(folder / "none"));
}

// Of a child whose parent was gone before it could ask, the parent is another.
TEST(ChildProcessDeathTest, AChildWithoutItsParentDies) {
  EXPECT_EXIT(DieWithParent(getpid()), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(
      {
        DieWithParent(getppid());
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(PrivateFolderTest, ItIsOnesOwnAndGoes) {
  std::string path;
  {
    auto made = PrivateFolder::Create();
    ASSERT_TRUE(made.has_value());
    const PrivateFolder folder = *std::move(made);
    path = folder.path();
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0700u);
    EXPECT_EQ(folder / "x", path + "/x");
    std::filesystem::create_directory(folder / "below");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PrivateFolderTest, WithoutAPlaceForItThatIsSaid) {
  const os::TestFolder folder;
  const TestEnvironment environment({{"TMPDIR", folder / "none"}});
  const auto made = PrivateFolder::Create();
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kIo);
  EXPECT_THAT(made.error().message,
              AllOf(HasSubstr("'" + (folder / "none") + "', which $TMPDIR"),
                    HasSubstr("no temporary folder can be made")));
}

TEST(PrivateFolderTest, WhatHasNoRoomThereIsSaid) {
  const os::TestFolder folder;
  const TestEnvironment environment({{"TMPDIR", folder.path()}});
  const auto made = PrivateFolder::Create();
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(made->CheckRoom(0));
  const Status status = made->CheckRoom(uint64_t{1} << 62);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("'" + folder.path() + "', which $TMPDIR names"),
                    HasSubstr("4.00 EiB"), HasSubstr("are free")));
}

}  // namespace
}  // namespace thermocline::npu
