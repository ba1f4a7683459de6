#include "decode/stop_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thermocline::decode {
namespace {

// All text, `piece_size` bytes at a time; "|" where the match was.
std::string Through(const std::vector<std::string>& stops,
                    const std::string& text, size_t piece_size) {
  StopMatcher matcher(stops);
  std::string shown;
  for (size_t i = 0; i < text.size(); i += piece_size) {
    shown += matcher.Push(std::string_view(text).substr(i, piece_size));
    if (matcher.matched()) return shown + "|" + matcher.Flush();
  }
  return shown + matcher.Flush();
}

struct Case {
  std::vector<std::string> stops;
  std::string text;
  std::string shown;
};

TEST(StopMatcher, SameResultHoweverTheTextIsCut) {
  const std::vector<Case> cases = {
      {{}, "plain text", "plain text"},
      {{""}, "plain text", "plain text"},
      {{"END"}, "the END of it", "the |"},
      {{"END"}, "the EN", "the EN"},
      {{"END"}, "ENEND", "EN|"},
      {{"END"}, "EEENDD", "EE|"},
      {{"\n\n", "User:"}, "Hi.\nUser: yes", "Hi.\n|"},
      {{"aab"}, "aaab", "a|"},
      {{"abab"}, "abaabab", "aba|"},
      // Complete first wins, although another one began before it.
      {{"abcX", "b"}, "zabcX", "za|"},
      // Two that end together: the longer.
      {{"c", "abc"}, "zabc", "z|"},
      {{"x"}, "x", "|"},
      {{"\xc3\xa9"}, "caf\xc3\xa9!", "caf|"},
  };
  for (const Case& each : cases) {
    for (size_t piece_size = 1; piece_size <= each.text.size(); ++piece_size) {
      EXPECT_EQ(Through(each.stops, each.text, piece_size), each.shown)
          << each.text << " by " << piece_size;
      // Their order says nothing.
      EXPECT_EQ(Through({each.stops.rbegin(), each.stops.rend()}, each.text,
                        piece_size),
                each.shown)
          << each.text << " by " << piece_size;
    }
  }
}

TEST(StopMatcher, HoldsBackNoMoreThanItMust) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("abcE"), "abc");
  EXPECT_EQ(matcher.Push("N"), "");
  EXPECT_EQ(matcher.Push("x"), "ENx");
  EXPECT_EQ(matcher.Push("E"), "");
  EXPECT_EQ(matcher.Flush(), "E");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, NothingComesAfterAMatch) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("a END b"), "a ");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Push("c"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

}  // namespace
}  // namespace thermocline::decode
