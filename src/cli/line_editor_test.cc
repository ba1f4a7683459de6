#include "cli/line_editor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "cli/signals.h"

namespace thermocline::cli {
namespace {

// A pseudo-terminal in place of standard input and standard error.
class LineEditorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    InstallSignalHandlers();
    primary_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(primary_, 0);
    ASSERT_EQ(::grantpt(primary_), 0);
    ASSERT_EQ(::unlockpt(primary_), 0);
    const int terminal = ::open(::ptsname(primary_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal, 0);
    for (const int fd : {STDIN_FILENO, STDERR_FILENO}) {
      saved_[fd] = ::dup(fd);
      ::dup2(terminal, fd);
    }
    ::close(terminal);
    ::setenv("TERM", "xterm", 1);
  }

  void TearDown() override {
    for (const int fd : {STDIN_FILENO, STDERR_FILENO}) {
      ::dup2(saved_[fd], fd);
      ::close(saved_[fd]);
    }
    ::close(primary_);
  }

  // What Read gives when `keys` are typed at its prompt: not at what an earlier
  // Read has shown of it, when the terminal would still take some as its own.
  Input Type(LineEditor& editor, std::string_view keys, bool goes_on = false) {
    std::thread typist([&] {
      std::string seen;
      char byte = 0;
      while (seen.find(kBegin) == seen.npos ||
             !seen.ends_with(goes_on ? ". " : "> ")) {
        if (::read(primary_, &byte, 1) != 1) return;
        seen += byte;
      }
      EXPECT_EQ(::write(primary_, keys.data(), keys.size()),
                static_cast<ssize_t>(keys.size()));
    });
    const Result<Input> input = editor.Read(goes_on);
    typist.join();
    EXPECT_TRUE(input.has_value());
    return input.value_or(Input{InputEvent::kEnd, "error"});
  }

  // What Read shows first: that pastes are to be marked.
  static constexpr std::string_view kBegin = "\x1b[?2004h";

  int primary_ = -1;
  int saved_[3] = {};
};

TEST_F(LineEditorTest, EditsALine) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  EXPECT_EQ(Type(*editor, "hello\r").text, "hello");
  EXPECT_EQ(Type(*editor, "\r").text, "");
  EXPECT_EQ(Type(*editor, "ello\x01H\r").text, "Hello");  // Ctrl-A
  EXPECT_EQ(Type(*editor,
                 "ab\x7f"
                 "c\r")
                .text,
            "ac");                                              // backspace
  EXPECT_EQ(Type(*editor, "ac\x1b[Db\r").text, "abc");          // left
  EXPECT_EQ(Type(*editor, "one two\x17x\r").text, "one x");     // Ctrl-W
  EXPECT_EQ(Type(*editor, "bc\x1b[Ha\x1b[Fd\r").text, "abcd");  // Home, End
  EXPECT_EQ(Type(*editor, "a\tb\r").text, "a\tb");
  EXPECT_EQ(Type(*editor, "more\r", /*goes_on=*/true).text, "more");
}

TEST_F(LineEditorTest, CharactersAreUtf8WhateverTheLocale) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  const std::string text = "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80";
  EXPECT_EQ(Type(*editor, text + "\r").text, text);
  EXPECT_EQ(Type(*editor, text + "\x7f\x7f!\r").text,
            "h\xc3\xa9 \xe2\x82\xac!");  // whole characters go
  EXPECT_EQ(Type(*editor,
                 "a\xff\xc3"
                 "b\xe2\x82"
                 "c\r")
                .text,
            "abc");
}

TEST_F(LineEditorTest, HistoryBringsBackWhatWasRemembered) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  editor->Remember("first");
  editor->Remember("caf\xc3\xa9\ntwo");
  EXPECT_EQ(Type(*editor, "\x1b[A\r").text, "caf\xc3\xa9\ntwo");
  EXPECT_EQ(Type(*editor, "\x1b[A\x1b[A!\r").text, "first!");
  EXPECT_EQ(Type(*editor,
                 "\x12"
                 "fir\x05\r")
                .text,
            "first");  // Ctrl-R
}

TEST_F(LineEditorTest, APasteIsOneText) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  EXPECT_EQ(
      Type(*editor, "a\x1b[200~one\r\ntwo\rthr\x1b[31mee\tx\n\x1b[201~b\r")
          .text,
      "aone\ntwo\nthr[31mee\txb");
  EXPECT_EQ(Type(*editor, "\x1b[200~\x1b[201~\r").text, "");
}

TEST_F(LineEditorTest, CtrlDEndsOnAnEmptyLineOnly) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  EXPECT_EQ(Type(*editor, "\x04").event, InputEvent::kEnd);
  EXPECT_EQ(Type(*editor, "ab\x01\x04\r").text, "b");
  EXPECT_EQ(Type(*editor, "x\r").text, "x");  // and Read works again
}

TEST_F(LineEditorTest, SignalsEndTheLineAndLeaveTheTerminalAsItWas) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  const CatchCtrlC scope;
  std::raise(SIGINT);
  const Result<Input> input = editor->Read(false);
  ASSERT_TRUE(input.has_value());
  EXPECT_EQ(input->event, InputEvent::kCtrlC);
  EXPECT_FALSE(CancelFlag()->load());
  const std::string prompt = "\x1b[?2004h> ";
  std::string seen;
  while (seen.size() < prompt.size()) {  // it comes in pieces
    char byte = 0;
    ASSERT_EQ(::read(primary_, &byte, 1), 1);
    seen += byte;
  }
  EXPECT_EQ(seen, prompt);
  // Echo is on: the terminal edits lines itself again.
  ASSERT_EQ(::write(primary_, "z", 1), 1);
  while (seen.back() != 'z') {
    char byte = 0;
    ASSERT_EQ(::read(primary_, &byte, 1), 1);
    seen += byte;
  }
  EXPECT_NE(seen.find("\x1b[?2004l"), std::string::npos);
}

TEST_F(LineEditorTest, CtrlCGivesWhatWasTyped) {
  const auto editor = LineEditor::Create();
  ASSERT_NE(editor, nullptr);
  const CatchCtrlC scope;
  for (const std::string typed : {"h\xc3\xa9llo", " ", ""}) {
    std::thread typist([&] {
      // Raised once the editor has shown the last of what was typed.
      std::string seen;
      char byte = 0;
      const auto read_until = [&](const std::string& text) {
        while (!seen.ends_with(text) && ::read(primary_, &byte, 1) == 1) {
          seen += byte;
        }
      };
      read_until("> ");
      EXPECT_EQ(::write(primary_, typed.data(), typed.size()),
                static_cast<ssize_t>(typed.size()));
      if (!typed.empty()) {
        seen.clear();
        read_until(typed.substr(typed.size() - 1));
      }
      ::kill(::getpid(), SIGINT);
    });
    const Result<Input> input = editor->Read(false);
    typist.join();
    ASSERT_TRUE(input.has_value());
    EXPECT_EQ(input->event, InputEvent::kCtrlC);
    EXPECT_EQ(input->text, typed);
  }
}

TEST_F(LineEditorTest, NoneWhereThereIsNoTerminalToEditAt) {
  for (const char* term : {"dumb", ""}) {
    ::setenv("TERM", term, 1);
    EXPECT_EQ(LineEditor::Create(), nullptr);
  }
  ::unsetenv("TERM");
  EXPECT_EQ(LineEditor::Create(), nullptr);
  ::setenv("TERM", "xterm", 1);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  EXPECT_EQ(LineEditor::Create(), nullptr);
  ::close(null);
}

}  // namespace
}  // namespace thermocline::cli
