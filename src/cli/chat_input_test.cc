#include "cli/chat_input.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/test_lines.h"

namespace thermocline::cli {
namespace {

// All messages of these lines, "^C" where a line was given up.
std::vector<std::string> Messages(std::vector<std::string> lines,
                                  bool end_ends_message = true) {
  TestLines source(std::move(lines));
  std::vector<std::string> messages;
  while (true) {
    const Result<Input> input = ReadMessage(source, end_ends_message);
    EXPECT_TRUE(input.has_value());
    if (!input.has_value() || input->event == InputEvent::kEnd) return messages;
    const bool is_command = input->event == InputEvent::kCommand;
    messages.push_back(input->event == InputEvent::kCtrlC
                           ? "^C"
                           : (is_command ? "command " : "") + input->text);
  }
}

using Texts = std::vector<std::string>;

TEST(ReadMessageTest, ALineIsAMessage) {
  EXPECT_EQ(Messages({"one", "", " two ", "a \"quoted\" word"}),
            (Texts{"one", "", " two ", "a \"quoted\" word"}));
  EXPECT_EQ(Messages({}), Texts{});
}

TEST(ReadMessageTest, ABackslashAtTheEndGoesOn) {
  EXPECT_EQ(Messages({"one\\", "two\\", "three", "four"}),
            (Texts{"one\ntwo\nthree", "four"}));
  EXPECT_EQ(Messages({"\\", "\\", ""}), Texts{"\n\n"});
  EXPECT_EQ(Messages({"a\\b"}), Texts{"a\\b"});
  EXPECT_EQ(Messages({"one\\"}), Texts{"one"});  // the end ends it
}

TEST(ReadMessageTest, QuotesHoldSeveralLines) {
  EXPECT_EQ(
      Messages({"\"\"\"", "one", "", "two\\", "/three", "\"\"\"", "four"}),
      (Texts{"one\n\ntwo\\\n/three", "four"}));
  EXPECT_EQ(Messages({"\"\"\"one", "two\"\"\""}), Texts{"one\ntwo"});
  EXPECT_EQ(Messages({"\"\"\"one\"\"\""}), Texts{"one"});
  EXPECT_EQ(Messages({"\"\"\"\"\"\""}), Texts{""});
  EXPECT_EQ(Messages({"\"\"\"", "one"}), Texts{"one"});
  // Four and five quotes open, and do not close too.
  EXPECT_EQ(Messages({"\"\"\"\"", "\"\"\""}), Texts{"\""});
}

TEST(ReadMessageTest, CommandsNeverGoOn) {
  EXPECT_EQ(Messages({"/save a\\", "b"}), (Texts{"command /save a\\", "b"}));
  EXPECT_EQ(Messages({" /save\\", "b"}), (Texts{" /save\nb"}));
}

TEST(ReadMessageTest, APastedTextIsOneMessage) {
  EXPECT_EQ(Messages({"one\ntwo", "three"}), (Texts{"one\ntwo", "three"}));
  EXPECT_EQ(Messages({"/one\ntwo"}), Texts{"/one\ntwo"});
}

TEST(ReadMessageTest, GivingUpALineGivesUpTheMessage) {
  EXPECT_EQ(Messages({"one\\", "^C", "two"}), (Texts{"^C", "two"}));
  EXPECT_EQ(Messages({"\"\"\"", "one", "^C", "^C"}), (Texts{"^C", "^C"}));
}

TEST(ReadMessageTest, WhatWasGivenUpIsNotEmptyInsideAMessage) {
  for (const char* first : {"one\\", "\\", "\"\"\""}) {
    TestLines source({first, "^C", "^C"});
    const Result<Input> inside = ReadMessage(source, true);
    ASSERT_TRUE(inside.has_value());
    EXPECT_EQ(inside->event, InputEvent::kCtrlC);
    EXPECT_NE(inside->text, "");
    const Result<Input> outside = ReadMessage(source, true);
    ASSERT_TRUE(outside.has_value());
    EXPECT_EQ(outside->text, "");
  }
}

TEST(ReadMessageTest, TheEndInsideAMessageGivesItUpOrSendsIt) {
  for (const char* first : {"one\\", "\"\"\"one"}) {
    EXPECT_EQ(Messages({first}, /*end_ends_message=*/true), Texts{"one"});
    EXPECT_EQ(Messages({first}, /*end_ends_message=*/false), Texts{});
  }
  EXPECT_EQ(Messages({"one"}, /*end_ends_message=*/false), Texts{"one"});
}

TEST(ReadMessageTest, TellsWhereALineGoesOn) {
  TestLines source({"one\\", "two", "three"});
  ASSERT_TRUE(ReadMessage(source, true).has_value());
  EXPECT_EQ(source.num_first, 1);
  EXPECT_EQ(source.num_further, 1);
}

TEST(ReadMessageTest, ErrorsPassThrough) {
  TestLines source({"one\\", "!"});
  const Result<Input> input = ReadMessage(source, true);
  ASSERT_FALSE(input.has_value());
  EXPECT_EQ(input.error().message, "no line");
}

}  // namespace
}  // namespace thermocline::cli
