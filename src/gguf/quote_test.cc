#include "gguf/quote.h"

#include <gtest/gtest.h>

namespace thermocline::gguf {
namespace {

TEST(Quote, KeepsPlainText) {
  EXPECT_EQ(Quote("blk.0.attn_q.weight"), "\"blk.0.attn_q.weight\"");
}

TEST(Quote, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Quote(std::string_view("a\x1b[2J\n\"\0", 8)),
            "\"a\\x1b[2J\\n\\\"\\x00\"");
}

TEST(Quote, EscapesInvalidUtf8) { EXPECT_EQ(Quote("\xff"), "\"\\xff\""); }

TEST(Quote, CutsLongText) {
  EXPECT_EQ(Quote(std::string(80, 'a')), '"' + std::string(80, 'a') + '"');
  EXPECT_EQ(Quote(std::string(81, 'a')), '"' + std::string(80, 'a') + "\"...");
}

}  // namespace
}  // namespace thermocline::gguf
