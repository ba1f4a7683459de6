#include "cli/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

TEST(FormatProgressTest, RoundsAndSurvivesZero) {
  EXPECT_EQ(FormatProgress("prefill", 1, 3), "prefill  33 %  (1 of 3)");
  EXPECT_EQ(FormatProgress("scan", 0, 0), "scan  100 %  (0 of 0)");
}

TEST(StderrTakesColourTest, NoColourWins) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(StderrTakesColour());
  ::unsetenv("NO_COLOR");
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
