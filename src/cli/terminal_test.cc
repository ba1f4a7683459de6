#include "cli/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace thermocline::cli {
namespace {

TEST(FormatErrorTest, IsOneLine) {
  EXPECT_EQ(FormatError("a.gguf: bad\nmagic", false),
            "thermocline: error: a.gguf: bad magic\n");
  EXPECT_EQ(FormatWarning("old file", false),
            "thermocline: warning: old file\n");
}

TEST(FormatErrorTest, TheTextCannotSteerTheTerminal) {
  EXPECT_EQ(FormatError("a\x1b[2J\r\x7f\u009b2Jb", false),
            "thermocline: error: a [2J   2Jb\n");
  EXPECT_EQ(FormatWarning("\x1b[0m", true),
            "thermocline: \x1b[1;33mwarning:\x1b[0m  [0m\n");
}

TEST(FormatErrorTest, ColoursOnlyTheKind) {
  EXPECT_EQ(FormatError("x", true), "thermocline: \x1b[1;31merror:\x1b[0m x\n");
}

TEST(ForTerminalTest, KeepsLineEndsAndTabsOnly) {
  EXPECT_EQ(ForTerminal(""), "");
  EXPECT_EQ(ForTerminal("a\tb\n\nc\n"), "a\tb\n\nc\n");
  EXPECT_EQ(ForTerminal("\x1b[2J\r\x07\n\xc2\x9b"
                        "31m\x7f"),
            " [2J  \n 31m ");
  EXPECT_EQ(ForTerminal("h\xc3\xa9"), "h\xc3\xa9");
}

TEST(FormatProgressTest, RoundsAndSurvivesZero) {
  const auto count = ProgressUnit::kCount;
  EXPECT_EQ(FormatProgress("prefill", 1, 3, count, 2.0),
            "prefill  33 %  (1 of 3), 4 s left");
  EXPECT_EQ(FormatProgress("scan", 0, 0, count, 0.0),
            "scan  100 %  (0 of 0), 0 s left");
}

TEST(FormatProgressTest, EstimatesOnlyFromEnough) {
  const auto count = ProgressUnit::kCount;
  EXPECT_EQ(FormatProgress("scan", 9, 1000, count, 5.0),
            "scan  1 %  (9 of 1000)");
  EXPECT_EQ(FormatProgress("scan", 10, 1000, count, 10.0),
            "scan  1 %  (10 of 1000), 16 min left");
}

TEST(FormatProgressTest, Bytes) {
  EXPECT_EQ(FormatProgress("x", 1536, 3072, ProgressUnit::kBytes, 1.0),
            "x  50 %  (1.50 KiB of 3.00 KiB), 1 s left");
}

TEST(CutToWidthTest, LeavesTheLastColumnFree) {
  EXPECT_EQ(CutToWidth("prefill", 0), "prefill");
  EXPECT_EQ(CutToWidth("prefill", 8), "prefill");
  EXPECT_EQ(CutToWidth("prefill", 7), "prefil");
  EXPECT_EQ(CutToWidth("prefill", 1), "");
}

TEST(StderrTakesColourTest, NoColourWins) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(StderrTakesColour());
  ::unsetenv("NO_COLOR");
}

// A pseudo-terminal in the place of a descriptor.
class Terminal {
 public:
  explicit Terminal(int fd) : fd_(fd), saved_(::dup(fd)) {
    primary_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    EXPECT_EQ(::grantpt(primary_), 0);
    EXPECT_EQ(::unlockpt(primary_), 0);
    const int secondary = ::open(::ptsname(primary_), O_RDWR | O_NOCTTY);
    EXPECT_GE(secondary, 0);
    ::dup2(secondary, fd);
    ::close(secondary);
  }
  ~Terminal() {
    ::dup2(saved_, fd_);
    ::close(saved_);
    ::close(primary_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // What was shown since the last call.
  std::string Shown() {
    std::string shown(1024, '\0');
    const ssize_t size = ::read(primary_, shown.data(), shown.size());
    shown.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return shown;
  }

 private:
  int fd_;
  int saved_;
  int primary_;
};

TEST(WriteModelTextTest, NeverSteersATerminal) {
  const std::string text = "a\x1b[2J\x07\nb";
  ::testing::internal::CaptureStdout();
  ASSERT_TRUE(WriteModelText(text).has_value());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), text);
  Terminal terminal(STDOUT_FILENO);
  ASSERT_TRUE(WriteModelText(text).has_value());
  EXPECT_EQ(terminal.Shown(), "a [2J \r\nb");
}

TEST(ProgressLineTest, NewWorkIsSilentAnew) {
  ::setenv("TERM", "xterm", 1);
  Terminal terminal(STDERR_FILENO);
  ProgressLine line;
  line.Update("old", 1, 4);
  EXPECT_EQ(terminal.Shown(), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  line.Update("old", 2, 4);
  EXPECT_NE(terminal.Shown().find("old  50 %"), std::string::npos);
  line.Clear();
  EXPECT_EQ(terminal.Shown(), "\r\x1b[K");
  line.Update("new", 1, 4);
  EXPECT_EQ(terminal.Shown(), "");
}

TEST(ProgressLineTest, IsSilentWithoutATerminal) {
  ::testing::internal::CaptureStderr();  // a file, so no terminal
  {
    ProgressLine line;
    EXPECT_FALSE(line.callback());
    line.Update("x", 1, 2);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace thermocline::cli
