#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace thermocline::text {
namespace {

TEST(Utf8Test, KnowsEveryScalarValueAndNothingElse) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    AppendUtf8(c, &text);
    const size_t n = Utf8CharLength(text);
    ASSERT_EQ(n, text.size()) << static_cast<uint32_t>(c);
    ASSERT_EQ(DecodeUtf8Char(text, n), c);
    ASSERT_EQ(Utf8CharLength(text + "x"), n);
    ASSERT_EQ(Utf8CharLength(std::string_view(text).substr(0, n - 1)), 0u);
  }
}

TEST(Utf8Test, RefusesInvalidForms) {
  for (const std::string_view bad : {
           "\x80", "\xbf", "\xc0\x80", "\xc1\xbf",  // stray, overlong
           "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",      // overlong
           "\xed\xa0\x80", "\xed\xbf\xbf",          // surrogates
           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",  // past U+10FFFF
           "\xff", "\xfe", "\xe2\x96x", "\xc3(",    // cut off by another
       }) {
    EXPECT_EQ(Utf8CharLength(bad), 0u) << bad;
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
  EXPECT_EQ(Utf8CharLength(""), 0u);
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8(std::string_view("a\0b", 3)));
  EXPECT_FALSE(IsValidUtf8("good \xc3"));
}

TEST(Utf8Test, SkipsWhiteSpaceInFront) {
  EXPECT_EQ(SkipWhiteSpace(" \t\r\n\v\fa b "), "a b ");
  EXPECT_EQ(SkipWhiteSpace("\xc2\xa0"), "\xc2\xa0");
  EXPECT_EQ(SkipWhiteSpace("  "), "");
}

TEST(Utf8Test, MasksOnlyInvalidBytes) {
  EXPECT_EQ(MaskInvalidUtf8("a\xff\xc3\xa9\xe2\x96"), "a\x01\xc3\xa9\x01\x01");
  EXPECT_EQ(MaskInvalidUtf8("\xed\xa0\x80"), "\x01\x01\x01");
  EXPECT_EQ(MaskInvalidUtf8("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(Utf8Test, IncompleteSuffixIsWhatMayStillComplete) {
  const std::string snowman = "\xe2\x98\x83", face = "\xf0\x9f\x98\x80";
  EXPECT_EQ(IncompleteUtf8Suffix(""), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("abc"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix(snowman), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("a" + snowman.substr(0, 1)), 1u);
  EXPECT_EQ(IncompleteUtf8Suffix("a" + snowman.substr(0, 2)), 2u);
  EXPECT_EQ(IncompleteUtf8Suffix(face.substr(0, 3)), 3u);
  EXPECT_EQ(IncompleteUtf8Suffix(face), 0u);
  // Never to be completed.
  EXPECT_EQ(IncompleteUtf8Suffix("\x80\x80"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("\xe0\x80"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("\xed\xa0"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("\xf4\x90"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("\xff"), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix("\x80\x80\x80\x80"), 0u);
}

TEST(Utf8Test, WithoutTrailingSpace) {
  EXPECT_EQ(WithoutTrailingSpace(" a b \n\t"), " a b");
  EXPECT_EQ(WithoutTrailingSpace("a"), "a");
  EXPECT_EQ(WithoutTrailingSpace(" \v"), "");
  EXPECT_EQ(WithoutTrailingSpace(""), "");
}

TEST(Utf8Test, WithoutByteOrderMark) {
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBFx"), "x");
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB\xBF\xEF\xBB\xBF"), kByteOrderMark);
  EXPECT_EQ(WithoutByteOrderMark("\xEF\xBB"), "\xEF\xBB");
  EXPECT_EQ(WithoutByteOrderMark("x\xEF\xBB\xBF"), "x\xEF\xBB\xBF");
}

}  // namespace
}  // namespace thermocline::text
