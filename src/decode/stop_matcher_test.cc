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

// Each piece on its own; those in <> are hidden. "|" where the match was, and
// how many bytes come before it.
std::string ThroughPieces(const std::vector<std::string>& stops,
                          const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string shown;
  for (const std::string& piece : pieces) {
    shown += matcher.Push(piece, /*is_hidden=*/piece.starts_with('<'));
    if (matcher.matched()) {
      return shown + "|" + std::to_string(matcher.match_begin());
    }
  }
  return shown + matcher.Flush();
}

TEST(StopMatcher, HiddenPiecesAreLookedAtAndNotShown) {
  struct HiddenCase {
    std::vector<std::string> stops;
    std::vector<std::string> pieces;
    std::string shown;
  };
  const std::vector<HiddenCase> cases = {
      {{}, {"a", "<end>", "b"}, "ab"},
      {{"<end>"}, {"a", "<end>", "b"}, "a|1"},
      {{"<end>"}, {"a", "<eng>", "b"}, "ab"},
      {{"<end>\n"}, {"a", "<end>", "b", "<end>", "\n"}, "ab|7"},
      {{"x<end>"}, {"ax", "<end>"}, "a|1"},
      {{"<a><b>"}, {"<a>", "<b>"}, "|0"},
      // Written out by tokens that are shown.
      {{"[end]"}, {"a[", "en", "d]"}, "a|1"},
      // All of a hidden piece or none.
      {{"<", "end", ">"}, {"a", "<end>", "b"}, "ab"},
      {{"a<"}, {"a", "<end>", "b"}, "ab"},
      {{"b"}, {"<abc>", "x", "<abc>", "b"}, "x|11"},
      // What is shown counts as it looks.
      {{"ab"}, {"xa", "<end>", "b"}, "x|1"},
      {{"abc"}, {"xa", "<end>", "b"}, "xab"},
      // Complete first wins; of two that end together, the longer.
      {{"b", "a<end>"}, {"a", "<end>", "b"}, "|0"},
      {{"b", "<end>b"}, {"a", "<end>", "b"}, "a|1"},
  };
  for (const HiddenCase& each : cases) {
    EXPECT_EQ(ThroughPieces(each.stops, each.pieces), each.shown)
        << each.stops.front() << " in " << each.pieces.front();
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
