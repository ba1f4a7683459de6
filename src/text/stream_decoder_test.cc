#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/random.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thermocline::text {
namespace {

TEST(StreamDecoderTest, HoldsBackHalfCharacters) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Push("a\xe2"), "a");
  EXPECT_EQ(decoder.Push("\x98"), "");
  EXPECT_EQ(decoder.Push("\x83!"), "\xe2\x98\x83!");
  EXPECT_EQ(decoder.Push(""), "");
  EXPECT_EQ(decoder.Flush(), "");
  EXPECT_EQ(decoder.Push("\xf0\x9f"), "");
  EXPECT_EQ(decoder.Flush(), "\xf0\x9f");
  EXPECT_EQ(decoder.Flush(), "");
}

TEST(StreamDecoderTest, WhatCannotCompletePassesAtOnce) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.Push("\xff"), "\xff");
  EXPECT_EQ(decoder.Push("\x80"), "\x80");
  EXPECT_EQ(decoder.Push("\xe2"), "");
  EXPECT_EQ(decoder.Push("x"), "\xe2x");
  EXPECT_EQ(decoder.Push("\xed"), "");
  EXPECT_EQ(decoder.Push("\xa0"), "\xed\xa0");
}

TEST(StreamDecoderTest, EveryCutOfATextGivesWholeCharacters) {
  const std::string text = "aé☃\U0001F600 ß\U00010348z";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    for (size_t second = cut; second <= text.size(); ++second) {
      StreamDecoder decoder;
      std::string shown;
      for (const std::string& part :
           {text.substr(0, cut), text.substr(cut, second - cut),
            text.substr(second)}) {
        const std::string now = decoder.Push(part);
        EXPECT_TRUE(IsValidUtf8(now)) << cut << " " << second;
        shown += now;
      }
      EXPECT_EQ(shown, text);
      EXPECT_EQ(decoder.Flush(), "");
    }
  }
}

TEST(StreamDecoderTest, LosesNoByteOfAnything) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    StreamDecoder decoder;
    std::string bytes, shown;
    for (int i = 0; i < 50; ++i) {
      std::string piece(random.Below(4), '\0');
      for (char& c : piece) c = static_cast<char>(0x70 + random.Below(0x90));
      bytes += piece;
      shown += decoder.Push(piece);
      ASSERT_LE(bytes.size() - shown.size(), 3u);
    }
    ASSERT_EQ(shown + decoder.Flush(), bytes);
  }
}

}  // namespace
}  // namespace thermocline::text
