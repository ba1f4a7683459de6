#include "text/regex.h"

#include <gtest/gtest.h>

#include <string>

namespace thermocline::text {
namespace {

// "begin-end", "none", or the error.
std::string Find(std::string_view pattern, std::string_view subject,
                 size_t start = 0, RegexLimits limits = RegexLimits::kNone) {
  const auto regex = Regex::Compile(pattern, limits);
  if (!regex) return regex.error().message;
  RegexScratch scratch;
  const auto match = regex->Find(subject, start, scratch);
  if (!match) return match.error().message;
  if (!*match) return "none";
  return std::to_string((*match)->begin) + "-" + std::to_string((*match)->end);
}

TEST(RegexTest, FindsInUtf8) {
  EXPECT_EQ(Find(R"(\p{L}+)", "1 größe 2"), "2-9");
  EXPECT_EQ(Find(R"(\p{L}+)", "ab cd", 2), "3-5");
  EXPECT_EQ(Find(R"(\p{L}+)", "123"), "none");
  EXPECT_EQ(Find("b", std::string_view("a\0b", 3)), "2-3");
}

TEST(RegexTest, SubjectEndsWhereItEnds) {
  const std::string text = "a  b";
  EXPECT_EQ(Find(R"(\s+(?!\S))", text), "1-2");
  EXPECT_EQ(Find(R"(\s+(?!\S))", std::string_view(text).substr(0, 3)), "1-3");
  EXPECT_EQ(Find("a$", "a\n"), "none");
}

TEST(RegexTest, BadPatternIsAnError) {
  const auto regex = Regex::Compile("(", RegexLimits::kNone);
  ASSERT_FALSE(regex);
  EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported);
}

// A repeated group needs memory for each turn: more than compiled code has.
TEST(RegexTest, DeepMatchesFallBackToTheHeap) {
  const std::string text(200'000, 'a');
  EXPECT_EQ(Find("(?:a|b)+c|(?:a|b)+", text), "0-200000");
}

// 19 letters can be cut in three, and those cut on, in millions of ways.
TEST(RegexTest, APatternOfSomeonesThatBacktracksWithoutEndGivesUp) {
  const std::string text(19, 'a');
  const char* pattern = "^(.+)+(.+)+(.+)+[^a]$";
  EXPECT_EQ(Find(pattern, text), "none");
  EXPECT_EQ(Find(pattern, text, 0, RegexLimits::kUsual),
            "searching a text of 19 bytes failed: match limit exceeded");
}

}  // namespace
}  // namespace thermocline::text
