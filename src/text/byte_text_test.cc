#include "text/byte_text.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "text/utf8.h"

namespace thermocline::text {
namespace {

TEST(ByteTextTest, EveryByteHasItsOwnCharacter) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(ByteToText(static_cast<uint8_t>(byte)));
    EXPECT_EQ(Utf8CharLength(text), text.size());
    EXPECT_TRUE(seen.insert(text).second) << byte;
    EXPECT_EQ(TextToBytes(text), std::string(1, static_cast<char>(byte)));
  }
}

TEST(ByteTextTest, KnownCharacters) {
  EXPECT_EQ(BytesToText("a b\n\t"), "aĠbĊĉ");
  EXPECT_EQ(BytesToText(std::string_view("\0\x7f\xa0\xad\xff", 5)),
            "\u0100\u0121\u0142\u0143ÿ");
  EXPECT_EQ(BytesToText("é"), "Ã©");
}

TEST(ByteTextTest, OtherCharactersStandForNoByte) {
  EXPECT_EQ(TextToBytes("a b"), std::nullopt);  // a space is written Ġ
  EXPECT_EQ(TextToBytes("\u0144"), std::nullopt);
  EXPECT_EQ(TextToBytes("\xff"), std::nullopt);
  EXPECT_EQ(TextToBytes(""), "");
  EXPECT_EQ(TextToBytesLenient("Ġa b\u2581\xff"), " a b\u2581\xff");
}

}  // namespace
}  // namespace thermocline::text
