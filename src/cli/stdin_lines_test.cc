#include "cli/stdin_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <string_view>

#include "cli/signals.h"

namespace thermocline::cli {
namespace {

// A pipe in place of standard input.
class StdinLinesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    InstallSignalHandlers();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    saved_ = ::dup(STDIN_FILENO);
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    writer_ = ends[1];
  }
  void TearDown() override {
    Close();
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
  }
  void Write(std::string_view text) const {
    ASSERT_EQ(::write(writer_, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  void Close() {
    if (writer_ >= 0) ::close(writer_);
    writer_ = -1;
  }
  // "text", "<end>", "<^C>", or the error.
  static std::string Next(StdinLines& lines) {
    const Result<Input> input = lines.Read(false);
    if (!input.has_value()) return input.error().message;
    switch (input->event) {
      case InputEvent::kText:
      case InputEvent::kCommand:
        return input->text;
      case InputEvent::kEnd:
        return "<end>";
      case InputEvent::kCtrlC:
        return "<^C>";
    }
    return "";
  }

  int saved_ = -1;
  int writer_ = -1;
};

TEST_F(StdinLinesTest, LinesAsTheyCome) {
  StdinLines lines(/*at_terminal=*/false);
  Write("one\n\ntw");
  EXPECT_EQ(Next(lines), "one");
  EXPECT_EQ(Next(lines), "");
  Write("o\nthree");
  Close();
  EXPECT_EQ(Next(lines), "two");
  EXPECT_EQ(Next(lines), "three");
  EXPECT_EQ(Next(lines), "<end>");
  EXPECT_EQ(Next(lines), "<end>");
}

TEST_F(StdinLinesTest, AByteOrderMarkInFrontIsDropped) {
  StdinLines lines(/*at_terminal=*/false);
  Write("\xEF\xBB\xBF/exit\r\n\xEF\xBB\xBFtwo\n");
  EXPECT_EQ(Next(lines), "/exit");
  EXPECT_EQ(Next(lines), "\xEF\xBB\xBFtwo");
}

TEST_F(StdinLinesTest, CrLfIsALineEnd) {
  StdinLines lines(/*at_terminal=*/false);
  Write("one\r\n\r\ntwo\rthree\r\r\nfour\r");
  Close();
  EXPECT_EQ(Next(lines), "one");
  EXPECT_EQ(Next(lines), "");
  EXPECT_EQ(Next(lines), "two\rthree\r");
  EXPECT_EQ(Next(lines), "four");
  EXPECT_EQ(Next(lines), "<end>");
}

TEST_F(StdinLinesTest, LinesLongerThanARead) {
  StdinLines lines(/*at_terminal=*/false);
  const std::string half(40'000, 'x');
  Write(half);
  Write("\n");
  EXPECT_EQ(Next(lines), half);
}

TEST_F(StdinLinesTest, PromptsOnlyAtATerminal) {
  Write("one\ntwo\nthree\n");
  ::testing::internal::CaptureStderr();
  StdinLines plain(/*at_terminal=*/false);
  Next(plain);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  Close();
  ::testing::internal::CaptureStderr();
  StdinLines lines(/*at_terminal=*/true);
  Next(lines);
  (void)lines.Read(/*goes_on=*/true);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "> . ");
}

TEST_F(StdinLinesTest, CtrlCGivesUpALineAtATerminalAndEndsElsewhere) {
  const CatchCtrlC scope;
  ::testing::internal::CaptureStderr();
  StdinLines person(/*at_terminal=*/true);
  std::raise(SIGINT);
  EXPECT_EQ(Next(person), "<^C>");
  StdinLines program(/*at_terminal=*/false);
  std::raise(SIGINT);
  EXPECT_EQ(Next(program), "interrupted");
  EXPECT_TRUE(TakeCtrlC());  // for the tests that follow
  Write("one\n");
  EXPECT_EQ(Next(program), "one");
  ::testing::internal::GetCapturedStderr();
}

TEST_F(StdinLinesTest, ErrorsAreNamed) {
  Close();
  ::close(STDIN_FILENO);
  StdinLines lines(/*at_terminal=*/false);
  EXPECT_EQ(Next(lines), "cannot read standard input: Bad file descriptor");
}

}  // namespace
}  // namespace thermocline::cli
