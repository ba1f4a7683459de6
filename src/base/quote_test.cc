#include "base/quote.h"

#include <gtest/gtest.h>

namespace thermocline {
namespace {

TEST(Quote, KeepsPlainText) {
  EXPECT_EQ(Quote("blk.0.attn_q.weight"), "\"blk.0.attn_q.weight\"");
}

TEST(Quote, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Quote(std::string_view("a\x1b[2J\n\"\0", 8)),
            "\"a\\x1b[2J\\n\\\"\\x00\"");
}

TEST(Quote, EscapesWhatTurnsTheText) {
  EXPECT_EQ(Quote("\u009b"), "\"\\x9b\"");
  EXPECT_EQ(Quote("\u202e"), "\"\\u202e\"");
  EXPECT_EQ(Quote("\u2067"), "\"\\u2067\"");
}

TEST(Quote, EscapesInvalidUtf8) { EXPECT_EQ(Quote("\xff"), "\"\\xff\""); }

TEST(Quote, FieldsOfCsv) {
  EXPECT_EQ(QuoteCsv(""), "\"\"");
  EXPECT_EQ(QuoteCsv("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
}

TEST(Quote, CutsLongText) {
  EXPECT_EQ(Quote(std::string(80, 'a')), '"' + std::string(80, 'a') + '"');
  EXPECT_EQ(Quote(std::string(81, 'a')), '"' + std::string(80, 'a') + "\"...");
}

TEST(Quote, CutsBetweenCharacters) {
  const std::string head(79, 'a');
  EXPECT_EQ(Quote(head + "\u00e9t\u00e9"), '"' + head + "\"...");
  EXPECT_EQ(Quote(head + "\u00e9"), '"' + head + "\"...");
  EXPECT_EQ(Quote(std::string(78, 'a') + "\u00e9b"),
            '"' + std::string(78, 'a') + "\u00e9\"...");
  // Bytes that are no characters are cut where the limit is.
  std::string escaped;
  for (int i = 0; i < 80; ++i) escaped += "\\x80";
  EXPECT_EQ(Quote(std::string(200, '\x80')), '"' + escaped + "\"...");
}

TEST(Escape, IsQuoteWithoutQuotes) {
  EXPECT_EQ(Escape("a name"), "a name");
  EXPECT_EQ(Escape(""), "");
  EXPECT_EQ(Escape("\x1b[2J\n\u009b\u202e"), "\\x1b[2J\\n\\x9b\\u202e");
  EXPECT_EQ(Escape(std::string(81, 'a')), std::string(80, 'a') + "...");
}

TEST(WithoutControls, LeavesTextAndBytesAlone) {
  EXPECT_EQ(WithoutControls("caf\u00e9 \u00a0\xff\xc2"),
            "caf\u00e9 \u00a0\xff\xc2");
  EXPECT_EQ(WithoutControls(std::string_view("a\x1b\x7f\r\n\0b", 7)),
            "a     b");
  EXPECT_EQ(WithoutControls("a\u0080\u009bb"), "a  b");
}

}  // namespace
}  // namespace thermocline
