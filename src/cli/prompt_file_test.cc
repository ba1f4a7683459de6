#include "cli/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thermocline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::pair<size_t, std::string>> Parsed(std::string_view text) {
  const auto prompts = ParsePrompts(text, "p.txt");
  EXPECT_TRUE(prompts) << prompts.error().message;
  std::vector<std::pair<size_t, std::string>> pairs;
  for (const Prompt& prompt : *prompts) {
    pairs.emplace_back(prompt.line, prompt.text);
  }
  return pairs;
}

std::string Refused(std::string_view text) {
  const auto prompts = ParsePrompts(text, "p.txt");
  return prompts.has_value() ? "" : prompts.error().message;
}

TEST(ParsePromptsTest, Lines) {
  EXPECT_THAT(
      Parsed("one\r\n\n \t\n  two {\"a\"} \nthree"),
      ElementsAre(Pair(1, "one"), Pair(4, "  two {\"a\"} "), Pair(5, "three")));
}

TEST(ParsePromptsTest, Json) {
  EXPECT_THAT(
      Parsed("{\"id\": 1, \"prompt\": \"a\\n\"}\r\n\n"
             "{\"turns\": [\"b\", \"c\"]}\n {\"instruction\": \"d\"}\n"
             "{\"question\": \"e\", \"text\": \"f\"}"),
      ElementsAre(Pair(1, "a\n"), Pair(3, "b"), Pair(4, "d"), Pair(5, "f")));
}

TEST(ParsePromptsTest, AByteOrderMarkIsNoPartOfTheFirstLine) {
  EXPECT_THAT(Parsed("\xEF\xBB\xBF{\"prompt\": \"a\"}\n"),
              ElementsAre(Pair(1, "a")));
  EXPECT_THAT(Parsed("\xEF\xBB\xBF one\n\xEF\xBB\xBFtwo"),
              ElementsAre(Pair(1, " one"), Pair(2, "\xEF\xBB\xBFtwo")));
  EXPECT_EQ(Refused("\xEF\xBB\xBF\n"), "p.txt: holds no prompt");
}

TEST(ParsePromptsTest, SaysWhatIsWrong) {
  EXPECT_EQ(Refused(" \n\n"), "p.txt: holds no prompt");
  EXPECT_EQ(Refused(""), "p.txt: holds no prompt");
  EXPECT_THAT(Refused("{\"prompt\": \"a\"}\n\nb"),
              HasSubstr("p.txt: line 3: is no JSON object"));
  EXPECT_THAT(Refused("{\"prompt\": "), HasSubstr("line 1: is no JSON"));
  for (const char* record :
       {"{}", "{\"prompt\": 1}", "{\"prompt\": \" \"}", "{\"turns\": []}",
        "{\"turns\": [1]}", "{\"turns\": \"a\"}"}) {
    EXPECT_THAT(Refused(record), HasSubstr("line 1: has no prompt")) << record;
  }
  EXPECT_THAT(Refused("{\"prompt\": \"\xff\"}"), HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace thermocline::cli
